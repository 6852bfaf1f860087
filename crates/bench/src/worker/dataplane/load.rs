//! A load generator on a dataplane of its own: it can ask more than a Linux client on one CPU.

use super::{Args, Control, Failure, LoadReport, engine, report};
use crate::worker::waker::{histogram, latency};
use cofferdam_dataplane::{Application, Connection, Event, EventLoop, Session};
use hdrhistogram::Histogram;
use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// All connections must be open within this time.
const PATIENCE: Duration = Duration::from_secs(15);
/// Connections that are being opened at a time: a listener's backlog is finite.
const OPENING: usize = 64;

struct Flow {
    /// When each unanswered request was due.
    due: VecDeque<Instant>,
    /// Bytes of an answer that have come.
    partial: usize,
}

struct Load {
    remote: SocketAddr,
    wanted: usize,
    begun: usize,
    message: Vec<u8>,
    flows: HashMap<Connection, Flow>,
    order: Vec<Connection>,
    /// Time between two requests over all connections; `None`: as answers come.
    period: Option<Duration>,
    next: Instant,
    turn: usize,
    measured: Option<(Instant, Histogram<u64>)>,
    lost: u64,
}

impl Load {
    fn open_more(&mut self, session: &mut Session) {
        while self.begun < self.wanted && self.begun < self.flows.len() + OPENING {
            session.connect(self.remote);
            self.begun += 1;
        }
    }

    fn ask(&mut self, session: &mut Session, connection: Connection, due: Instant) {
        if let Some(flow) = self.flows.get_mut(&connection) {
            flow.due.push_back(due);
            session.send(connection, &self.message);
        }
    }

    /// Asks what is due; true when anything was.
    fn pump(&mut self, session: &mut Session) -> bool {
        let Some(period) = self.period else {
            return false;
        };
        let now = Instant::now();
        let mut any = false;
        while self.next <= now && !self.order.is_empty() {
            let connection = self.order[self.turn % self.order.len()];
            self.turn += 1;
            let due = self.next;
            self.next += period;
            self.ask(session, connection, due);
            any = true;
        }
        any
    }

    fn answered(&mut self, session: &mut Session, connection: Connection, bytes: usize) {
        let now = Instant::now();
        let size = self.message.len();
        let is_open_loop = self.period.is_some();
        let mut again = 0;
        if let Some(flow) = self.flows.get_mut(&connection) {
            flow.partial += bytes;
            while flow.partial >= size {
                flow.partial -= size;
                let Some(due) = flow.due.pop_front() else {
                    break;
                };
                if let Some((_, times)) = &mut self.measured {
                    times.saturating_record((now - due).as_nanos() as u64);
                }
                again += 1;
            }
        }
        if !is_open_loop && self.measured_or_warming() {
            for _ in 0..again {
                self.ask(session, connection, now);
            }
        }
    }

    fn measured_or_warming(&self) -> bool {
        self.flows.len() >= self.wanted
    }
}

impl Application for Load {
    fn start(&mut self, session: &mut Session) {
        self.open_more(session);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Connected(connection) => {
                let flow = Flow {
                    due: VecDeque::new(),
                    partial: 0,
                };
                self.flows.insert(connection, flow);
                self.order.push(connection);
                self.open_more(session);
            }
            Event::Received { connection, data } => {
                self.answered(session, connection, data.len());
            }
            Event::Dead { connection, .. } => {
                self.lost += 1;
                self.flows.remove(&connection);
                self.order.retain(|c| *c != connection);
            }
            _ => {}
        }
    }
}

/// `--device D --address IP --to IP --port P --connections N --size S --rate R --warm W
/// --seconds T`: R requests a second in all, timed from when each was due; 0 asks again at each
/// answer.
pub(super) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let device: String = args.need("device")?;
    let address: Ipv4Addr = args.need("address")?;
    let to: Ipv4Addr = args.need("to")?;
    let port: u16 = args.need("port")?;
    let connections: usize = args.need("connections")?;
    let size: usize = args.need("size")?;
    let rate: f64 = args.need("rate")?;
    let warm = Duration::from_secs_f64(args.need("warm")?);
    let length = Duration::from_secs_f64(args.need("seconds")?);
    args.finish()?;
    let (_device, mut engine) = engine(&device, address, 64)?;
    let session = engine.inline().map_err(|e| e.to_string())?;
    control.start()?;
    let load = Load {
        remote: SocketAddr::from((to, port)),
        wanted: connections,
        begun: 0,
        message: vec![0x61; size],
        flows: HashMap::with_capacity(connections),
        order: Vec::with_capacity(connections),
        period: None,
        next: Instant::now(),
        turn: 0,
        measured: None,
        lost: 0,
    };
    let mut all = EventLoop::new(session, load);
    let mut drive = |all: &mut EventLoop<Load>| {
        engine.turn(|| {
            let asked = all.application.pump(&mut all.session);
            all.turn() || asked
        });
    };
    let start = Instant::now();
    while all.application.flows.len() < connections {
        drive(&mut all);
        if start.elapsed() > PATIENCE || all.application.lost > 0 {
            return Err(format!(
                "{} of {connections} connections opened, {} were lost",
                all.application.flows.len(),
                all.application.lost
            ));
        }
    }
    let now = Instant::now();
    if rate > 0.0 {
        all.application.period = Some(Duration::from_secs_f64(1.0 / rate));
        all.application.next = now;
    } else {
        for connection in all.application.order.clone() {
            all.application.ask(&mut all.session, connection, now);
        }
        all.session.flush();
    }
    while now.elapsed() < warm && !control.done() {
        drive(&mut all);
    }
    let from = Instant::now();
    all.application.measured = Some((from, histogram()?));
    while from.elapsed() < length && !control.done() {
        drive(&mut all);
    }
    let elapsed = from.elapsed();
    // What is unanswered now is late by what it has waited: leaving it out would hide a stall.
    let load = &mut all.application;
    let Some((_, mut times)) = load.measured.take() else {
        return Err("nothing was measured".to_owned());
    };
    let answered = times.len();
    if rate > 0.0 {
        let now = Instant::now();
        for due in load.flows.values().flat_map(|f| &f.due) {
            times.saturating_record(now.saturating_duration_since(*due).as_nanos() as u64);
        }
    }
    report(&LoadReport {
        requests_per_s: answered as f64 / elapsed.as_secs_f64(),
        latency: latency(&times, load.lost),
    })
}
