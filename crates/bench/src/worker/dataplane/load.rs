//! Process of the load generator: a dataplane of its own with [`Load`] on it.

use super::work::Work;
use super::{Args, Control, Failure, LoadReport, Setup, engine, report};
use crate::worker::waker::{histogram, latency};
use cofferdam_dataplane::applications::{Load, Request};
use cofferdam_dataplane::{Engine, EventLoop, compiled};
use cofferdam_xsk::Socket;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Time limit for opening all connections, and for the answers to the preparing requests.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most requests in flight in a closed loop, like IX's clients with few for each thread. More than
/// the kernel's queue between two CPUs holds (`net.core.netdev_max_backlog`, 1,000) would measure
/// its drops.
const MOST_UNDER_WAY: usize = 512;
/// Time that an acknowledgement waits for the connection's next request, however many connections
/// take turns. Otherwise more connections would mean more packets a request. Below Linux's shortest
/// retransmission time, 200 ms.
const UNTIL_NEXT: Duration = Duration::from_millis(150);
/// Answers a second for which memory is reserved.
const MOST_RATE: f64 = 1e6;

struct LoadDriver {
    engine: Engine<Socket>,
    all: EventLoop<Load>,
    /// Whether it yields its shared CPU when idle.
    yields: bool,
}

impl LoadDriver {
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

    /// Turns until `done`.
    ///
    /// # Errors
    /// Connections are lost, or it takes too long.
    fn wait_until(&mut self, what: &str, done: impl Fn(&Load) -> bool) -> Result<(), Failure> {
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

/// Generates the load. Prints `true` when the measurement begins.
///
/// Arguments: `--device D --address IP --to IP --port P --ports N --connections N --work W --rate R
/// --warm W --seconds T --fresh 0|1 --yields 0|1`.
///
/// - `--rate R`: requests a second in all, timed from each due time. With 0, each answer triggers
///   the next request, with at most [`MOST_UNDER_WAY`] in flight.
/// - `--fresh 1`: each request has its own connection, N at a time.
/// - `--seconds 0`: after one request on each connection they stay open and idle until the end.
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
    let mut driver = LoadDriver {
        engine,
        all,
        yields: yields == 1,
    };
    driver.wait_until("opening the connections", Load::is_open)?;
    if length.is_zero() {
        return hold(driver, control, &then, connections);
    }
    let all = &mut driver.all;
    if !before.is_empty() {
        all.application.send_once(&mut all.session, before);
        driver.wait_until("storing the values", Load::is_done)?;
    }
    let all = &mut driver.all;
    let (load, session) = (&mut all.application, &mut all.session);
    match (fresh, rate > 0.0) {
        (1, _) => load.send_fresh(session, then),
        (_, true) => load.send_at(then, rate),
        (_, false) => load.send_closed(session, then, MOST_UNDER_WAY),
    }
    let start = Instant::now();
    while start.elapsed() < warm && !control.done() {
        driver.turn();
    }
    report(&true)?;
    let expected = (length.as_secs_f64() * MOST_RATE) as usize;
    driver.all.application.measure(expected);
    let before = driver.cycles();
    let from = Instant::now();
    while from.elapsed() < length && !control.done() {
        driver.turn();
    }
    let elapsed = from.elapsed();
    let [busy, all] = driver.cycles().map(|c| c as f64);
    let [busy, all] = [busy - before[0] as f64, all - before[1] as f64];
    let load = &mut driver.all.application;
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

/// Sends one request on each connection, then nothing.
fn hold(
    mut driver: LoadDriver,
    control: &Control,
    requests: &[Request],
    connections: usize,
) -> Result<(), Failure> {
    let each = requests.iter().cycle().take(connections).cloned().collect();
    let all = &mut driver.all;
    all.application.send_once(&mut all.session, each);
    driver.wait_until("asking once on each connection", Load::is_done)?;
    report(&true)?;
    while !control.done() {
        driver.turn();
    }
    let load = &driver.all.application;
    if load.lost + load.wrong > 0 {
        return Err(format!("{} idle connections were lost", load.lost));
    }
    report(&LoadReport {
        requests_per_s: 0.0,
        latency: latency(&histogram()?, 0),
        busy: None,
    })
}
