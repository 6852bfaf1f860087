//! The loop of one core, in IX's order: reclaim transmit buffers, take the applications' calls,
//! run timers, poll at most B packets, process them, hand out event conditions, and send all at
//! once. Run to completion: nothing is queued between the stages.
//!
//! Batching is adaptive: a batch is what waits, at most B; nothing waits for a batch to fill.

mod calls;
mod domain;
mod events;
mod idle;
mod owners;
mod tally;
#[cfg(test)]
mod tests;
mod transmit;

pub use domain::Offence;
pub use tally::{Stage, Tally};

use crate::channel::{Outside, channel};
use crate::policy::Rights;
use crate::session::{Application, EventLoop, Session};
use cofferdam_netstack::{BufferId, Config, ConfigError, Disposition, Stack, Time};
use cofferdam_xsk::{Frame, FrameFacts, Memory, Packet, Port};
use domain::{Domain, Share};
use idle::Idle;
use owners::Owners;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel as queue};
use std::time::Duration;
use tally::Clock;

/// Applications that one dataplane serves at most.
pub const MOST_APPLICATIONS: usize = 16;
/// Largest batch bound.
pub const MOST_BATCH: u32 = 256;

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Packets taken in one turn at most (IX's B); 1 to 256, default 64.
    pub batch: u32,
    /// Longest time to poll for packets before sleeping; default 1 ms. How long it really polls
    /// follows the traffic.
    pub spin: Duration,
    /// Memory that each application sends from; default 16 MiB.
    pub area_bytes: u32,
    /// Frames of an application's own that received data is copied into, so that it cannot see
    /// others' data nor keep their frames; `None`: it reads the dataplane's frames in place.
    pub private_frames: Option<u32>,
    /// Give the CPU away after each batch of conditions: for applications on the same CPU.
    pub yields: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            batch: 64,
            spin: Duration::from_millis(1),
            area_bytes: 16 << 20,
            private_frames: None,
            yields: false,
        }
    }
}

/// What other threads ask of the loop.
pub(crate) enum Order {
    /// Serve this application.
    Attach(Box<Domain>),
    /// Look up: something has changed that the loop checks each turn.
    Look,
}

/// For other threads: what to say to the loop, and what it says.
#[derive(Clone)]
pub(crate) struct Remote {
    pub orders: Sender<Order>,
    pub bell: Arc<nix::sys::eventfd::EventFd>,
    pub shown: Arc<std::sync::Mutex<Tally>>,
}

impl Remote {
    /// Sends an order and wakes the loop.
    pub fn order(&self, order: Order) -> bool {
        let sent = self.orders.send(order).is_ok();
        // A full counter wakes as well.
        let _ = self.bell.write(1);
        sent
    }
}

/// Makes the two sides of an application; the domain goes to the loop by [`Order::Attach`].
pub(crate) struct Maker {
    memory: FrameFacts,
    options: Options,
    share: Share,
}

impl Maker {
    pub fn make(
        &self,
        name: &str,
        rights: Rights,
        gone: Arc<AtomicBool>,
    ) -> io::Result<(Box<Domain>, Outside)> {
        let (inside, outside) = channel(
            &self.memory,
            self.options.area_bytes,
            self.options.private_frames,
        )?;
        let name = name.to_owned();
        let domain = Domain::new(name, inside, rights, gone, self.memory.frames, self.share);
        Ok((Box::new(domain), outside))
    }
}

/// A dataplane on one port, driven by one thread.
pub struct Engine<P> {
    port: P,
    memory: Memory,
    stack: Stack,
    clock: Clock,
    options: Options,
    domains: Vec<Option<Box<Domain>>>,
    /// Bumped with each application that takes a place: its old references name nobody.
    generations: [u8; MOST_APPLICATIONS],
    owners: Owners,
    bounds: Vec<Option<calls::Bound>>,
    batch: Vec<Packet>,
    /// A packet that found the transmit ring full.
    unsent: Option<Packet>,
    /// The last flush left packets in the ring.
    is_stuck: bool,
    share: Share,
    idle: Idle,
    tally: Tally,
    orders: Receiver<Order>,
    remote: Remote,
    since_shown: Time,
}

/// A dataplane that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The network stack refuses its settings.
    #[error("the dataplane's network settings: {0}")]
    Config(#[from] ConfigError),
    /// A setting of the loop.
    #[error("{0}")]
    Options(&'static str),
    /// No memory or no descriptors.
    #[error("cannot set the dataplane up: {0}")]
    Os(#[from] io::Error),
}

impl<P: Port> Engine<P> {
    /// Sets everything up; after this the loop allocates nothing.
    pub fn new(
        port: P,
        memory: Memory,
        config: Config,
        options: Options,
    ) -> Result<Engine<P>, EngineError> {
        if !(1..=MOST_BATCH).contains(&options.batch) {
            return Err(EngineError::Options(
                "the batch bound must be between 1 and 256",
            ));
        }
        let limits = config.limits;
        let clock = Clock::new();
        let (sender, orders) = queue();
        let bell = nix::sys::eventfd::EventFd::from_flags(
            nix::sys::eventfd::EfdFlags::EFD_NONBLOCK | nix::sys::eventfd::EfdFlags::EFD_CLOEXEC,
        );
        let empty = Packet {
            frame: Frame(0),
            start: 0,
            len: 0,
        };
        Ok(Engine {
            share: Share {
                // A quarter stays for what arrives, however greedy the applications are.
                frames: memory.frames() / 4 * 3 / 2,
                chunks: limits.chunks / 2,
            },
            stack: Stack::new(config, clock.now())?,
            owners: Owners::new(limits.connections),
            bounds: (0..limits.listeners + limits.udp).map(|_| None).collect(),
            batch: vec![empty; options.batch as usize],
            domains: (0..MOST_APPLICATIONS).map(|_| None).collect(),
            generations: [0; MOST_APPLICATIONS],
            unsent: None,
            is_stuck: false,
            idle: Idle::new(options.spin),
            tally: Tally::default(),
            remote: Remote {
                orders: sender,
                bell: Arc::new(bell.map_err(io::Error::from)?),
                shown: Arc::default(),
            },
            since_shown: Time::ZERO,
            port,
            memory,
            clock,
            options,
            orders,
        })
    }

    pub(crate) fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// What makes applications' domains, for another thread.
    pub(crate) fn maker(&self) -> Maker {
        Maker {
            memory: self.memory.facts(),
            options: self.options,
            share: self.share,
        }
    }

    /// An application in this process: unprotected, on the loop's own thread.
    ///
    /// # Errors
    /// No memory, no descriptors or no place left.
    pub fn inline(&mut self) -> io::Result<Session> {
        let (domain, outside) = self.maker().make("inline", Rights::all(), Arc::default())?;
        let session = Session::new(outside.map()?, None);
        if self.attach(domain) {
            return Ok(session);
        }
        Err(io::Error::other(
            "the dataplane serves all the applications it can",
        ))
    }

    fn attach(&mut self, mut domain: Box<Domain>) -> bool {
        let Some(place) = self.domains.iter().position(Option::is_none) else {
            return false;
        };
        self.generations[place] = self.generations[place].wrapping_add(1);
        domain.generation = self.generations[place];
        self.domains[place] = Some(domain);
        self.tally.attached += 1;
        true
    }

    /// One turn of the loop; true when there was anything to do. `inline` runs an application of
    /// this process between the conditions and the sending.
    pub fn turn(&mut self, mut inline: impl FnMut() -> bool) -> bool {
        let mut stages = self.tally.start();
        self.port.reclaim(&mut self.memory);
        stages.end(Stage::Reclaim);

        let now = self.clock.now();
        let mut work = self.take_orders() + self.take_calls(now);
        stages.end(Stage::Calls);

        if self.stack.poll_at().is_some_and(|at| at <= now) {
            self.stack.handle_timers(now);
            work += 1;
        }
        stages.end(Stage::Timers);

        let got = self.port.receive(&mut self.memory, &mut self.batch);
        stages.end(Stage::Receive);
        self.process(now, got);
        stages.end(Stage::Process);

        work += got + self.tell(now);
        self.publish();
        stages.end(Stage::Conditions);

        // What the application answers goes out with this turn's packets.
        if inline() {
            work += 1 + self.take_calls(now);
            self.tell(now);
        }
        stages.end(Stage::Application);

        let sent = self.transmit(now);
        stages.end(Stage::Transmit);
        // What the device refused stays in its ring: without another try a full ring would stay
        // full when the device is up again.
        if sent > 0 || self.is_stuck {
            let flushed = self.port.flush(&mut self.memory);
            self.is_stuck = flushed.is_err() || self.unsent.is_some();
            self.tally.flush_errors += u64::from(flushed.is_err());
            stages.end(Stage::Flush);
        }
        self.tally.count_batch(got, self.port.pending());
        let had_work = work + sent > 0;
        self.tally.empty_turns += u64::from(!had_work);
        stages.count(&mut self.tally, had_work);
        had_work
    }

    fn process(&mut self, now: Time, got: usize) {
        for packet in self.batch.iter().take(got) {
            let (bytes, spans) = self.memory.packet_and_spans(*packet);
            let buffer = calls::received_buffer(packet.frame, packet.start);
            let mut whole = calls::Whole(spans);
            if self.stack.handle_frame(now, bytes, buffer, &mut whole) == Disposition::Free {
                self.memory.give(packet.frame);
            }
        }
    }

    fn publish(&mut self) {
        for place in 0..self.domains.len() {
            if let Some(domain) = &mut self.domains[place] {
                self.tally.wakeups += u64::from(domain.publish());
            }
        }
    }

    fn take_orders(&mut self) -> usize {
        let mut taken = 0;
        // One atomic load when there is none.
        while let Ok(order) = self.orders.try_recv() {
            taken += 1;
            if let Order::Attach(domain) = order
                && !self.attach(domain)
            {
                // Dropped: the application finds its socket closed.
                self.tally.refused_applications += 1;
            }
        }
        taken
    }

    /// Runs until `stop`; the applications are other processes.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let worked = self.turn(|| false);
            self.rest(worked);
        }
    }

    /// Runs an application of this process on the loop's thread until `stop`.
    ///
    /// # Errors
    /// No memory, no descriptors or no place left.
    pub fn run_inline<A: Application>(
        &mut self,
        application: A,
        stop: &AtomicBool,
    ) -> io::Result<A> {
        let session = self.inline()?;
        let mut event_loop = EventLoop::new(session, application);
        while !stop.load(Ordering::Relaxed) {
            let worked = self.turn(|| event_loop.turn());
            self.rest(worked);
        }
        Ok(event_loop.application)
    }

    /// Shows the counters, and sleeps when nothing has happened for long enough.
    pub fn rest(&mut self, worked: bool) {
        let now = self.clock.now();
        if now.since(self.since_shown) > Duration::from_millis(10) {
            self.since_shown = now;
            self.show();
        }
        if self.options.yields
            && self
                .domains
                .iter()
                .flatten()
                .any(|d| d.inside.end.unread() > 0)
        {
            std::thread::yield_now();
        }
        if worked {
            self.idle.worked(now);
        } else if self.idle.should_sleep(now) {
            self.sleep(now);
        }
    }

    /// What it has counted so far.
    pub fn tally(&mut self) -> Tally {
        self.refresh();
        self.tally.clone()
    }

    fn refresh(&mut self) {
        self.tally.port = self.port.counters();
        self.tally.stack.clear();
        self.tally.stack.extend(self.stack.counters().each());
        self.tally.free_frames = self.memory.available();
        self.tally.groups.clear();
        let groups = (0..).zip(self.stack.groups());
        let groups = groups.map(|(group, usage)| tally::GroupTally {
            group,
            connections: usage.connections,
            segments: usage.segments,
        });
        (self.tally.groups).extend(groups.filter(|g| g.connections > 0 || g.segments > 0));
        self.tally.applications.clear();
        for domain in self.domains.iter().flatten() {
            self.tally.applications.push(tally::ApplicationTally {
                name: domain.name.clone(),
                connections: domain.connections,
                held_frames: domain.held_frames,
            });
        }
    }

    fn show(&mut self) {
        // The loop never waits for a reader; the next time is 10 ms away.
        let shown = self.remote.shown.clone();
        if let Ok(mut shown) = shown.try_lock() {
            self.refresh();
            shown.clone_from(&self.tally);
        }
    }

    /// The port, to ask it for facts.
    pub fn port(&self) -> &P {
        &self.port
    }
}

/// Where a received frame's bytes begin.
pub(super) fn buffer_place(buffer: BufferId) -> (Frame, usize) {
    (Frame(buffer.0 as u32), (buffer.0 >> 32) as usize & 0xffff)
}
