//! The load generator's process: a dataplane of its own with [`Load`] on it.

use super::work::Work;
use super::{Args, Control, Failure, LoadReport, Setup, engine, report};
use crate::worker::waker::{histogram, latency};
use cofferdam_dataplane::applications::{Load, Request};
use cofferdam_dataplane::{Engine, EventLoop, compiled};
use cofferdam_xsk::Socket;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// All connections must be open, and what is asked before must be answered, within this time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Requests under way in a closed loop, at most, as IX's clients have few for each of their threads:
/// more than a kernel's queue between two CPUs takes (`net.core.netdev_max_backlog`, 1,000) would
/// measure what it drops.
const MOST_UNDER_WAY: usize = 512;
/// An acknowledgement waits for the connection's next request for as long, however many connections
/// take turns: else more of them would mean more packets a request. Below Linux's least
/// retransmission time, 200 ms.
const UNTIL_NEXT: Duration = Duration::from_millis(150);
/// Answers a second that room is made for.
const MOST_RATE: f64 = 1e6;

struct Driven {
    engine: Engine<Socket>,
    all: EventLoop<Load>,
    /// It has no CPU of its own: it gives it away when it has nothing to do.
    yields: bool,
}

impl Driven {
    fn turn(&mut self) {
        let all = &mut self.all;
        let worked = compiled::turn(&mut self.engine, &mut || {
            let asked = all.application.pump(&mut all.session);
            all.turn() || asked
        });
        if self.yields && !worked {
            std::thread::yield_now();
        }
    }

    /// Cycles of turns with work, and of all turns.
    fn cycles(&mut self) -> [u64; 2] {
        let tally = self.engine.tally();
        let busy = tally.stage_cycles.iter().sum();
        [busy, busy + tally.idle_cycles]
    }

    /// Turns until `done`; fails when connections are lost or it takes too long.
    fn until(&mut self, what: &str, done: impl Fn(&Load) -> bool) -> Result<(), Failure> {
        let start = Instant::now();
        while !done(&self.all.application) {
            self.turn();
            let load = &self.all.application;
            if start.elapsed() > PATIENCE || load.lost > 0 {
                return Err(format!(
                    "{what} failed: {} connections open, {} lost",
                    load.open_connections(),
                    load.lost
                ));
            }
        }
        Ok(())
    }
}

/// `--device D --address IP --to IP --port P --ports N --connections N --work W --rate R --warm W
/// --seconds T --fresh 0|1 --yields 0|1`: R requests a second in all, timed from when each was due; 0
/// asks again at each answer, with at most [`MOST_UNDER_WAY`] on their way; fresh: each on a connection
/// of its own, N at a time. Says `true` when it begins to measure. `--seconds 0`: once each connection
/// has asked once it keeps them open and idle until it is ended.
pub(super) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let device: String = args.need("device")?;
    let address: Ipv4Addr = args.need("address")?;
    let to: Ipv4Addr = args.need("to")?;
    let port: u16 = args.need("port")?;
    let ports: u16 = args.need("ports")?;
    let connections: usize = args.need("connections")?;
    let work: Work = args.need("work")?;
    let rate: f64 = args.need("rate")?;
    let warm = Duration::from_secs_f64(args.need("warm")?);
    let length = Duration::from_secs_f64(args.need("seconds")?);
    let fresh: u8 = args.need("fresh")?;
    let yields: u8 = args.need("yields")?;
    args.finish()?;
    let setup = Setup {
        device,
        address,
        batch: 64,
        connections: connections as u32 + 1024,
        frame_bytes: 2048,
    };
    let (_device, mut engine) = engine(&setup, Some(UNTIL_NEXT))?;
    let session = engine.inline().map_err(|e| e.to_string())?;
    let (before, then) = work.requests();
    control.start()?;
    let load = Load::new(SocketAddr::from((to, port)), ports, connections);
    let all = EventLoop::new(session, load);
    let mut driven = Driven {
        engine,
        all,
        yields: yields == 1,
    };
    driven.until("opening the connections", Load::is_open)?;
    if length.is_zero() {
        return hold(driven, control, &then, connections);
    }
    let all = &mut driven.all;
    if !before.is_empty() {
        all.application.send_once(&mut all.session, before);
        driven.until("storing the values", Load::is_done)?;
    }
    let all = &mut driven.all;
    let (load, session) = (&mut all.application, &mut all.session);
    match (fresh, rate > 0.0) {
        (1, _) => load.send_fresh(session, then),
        (_, true) => load.send_at(then, rate),
        (_, false) => load.send_closed(session, then, MOST_UNDER_WAY),
    }
    let start = Instant::now();
    while start.elapsed() < warm && !control.done() {
        driven.turn();
    }
    report(&true)?;
    let expected = (length.as_secs_f64() * MOST_RATE) as usize;
    driven.all.application.measure(expected);
    let before = driven.cycles();
    let from = Instant::now();
    while from.elapsed() < length && !control.done() {
        driven.turn();
    }
    let elapsed = from.elapsed();
    let [busy, all] = driven.cycles().map(|c| c as f64);
    let [busy, all] = [busy - before[0] as f64, all - before[1] as f64];
    let load = &mut driven.all.application;
    if load.wrong > 0 {
        return Err(format!("{} answers were wrong", load.wrong));
    }
    let mut times = histogram()?;
    let measured = load.measured();
    for time in &measured {
        times.saturating_record(u64::from(*time));
    }
    if rate > 0.0 {
        for waited in load.waiting() {
            times.saturating_record(waited);
        }
    }
    report(&LoadReport {
        requests_per_s: measured.len() as f64 / elapsed.as_secs_f64(),
        latency: latency(&times, load.lost),
        busy: (all > 0.0).then(|| busy / all),
    })
}

/// One request on each connection, then silence.
fn hold(
    mut driven: Driven,
    control: &Control,
    requests: &[Request],
    connections: usize,
) -> Result<(), Failure> {
    let each = requests.iter().cycle().take(connections).cloned().collect();
    let all = &mut driven.all;
    all.application.send_once(&mut all.session, each);
    driven.until("asking once on each connection", Load::is_done)?;
    report(&true)?;
    while !control.done() {
        driven.turn();
    }
    let load = &driven.all.application;
    if load.lost + load.wrong > 0 {
        return Err(format!("{} idle connections were lost", load.lost));
    }
    report(&LoadReport {
        requests_per_s: 0.0,
        latency: latency(&histogram()?, 0),
        busy: None,
    })
}
