//! The loop of one core, in IX's order: reclaim transmit buffers, take the applications' calls,
//! run timers, poll at most B packets, process them, hand out event conditions, and send all at
//! once. Run to completion: nothing is queued between the stages.
//!
//! Batching is adaptive: a batch is what waits, at most B; nothing waits for a batch to fill.

mod calls;
pub(crate) mod cores;
mod domain;
mod events;
mod idle;
mod life;
mod owners;
mod setup;
mod shares;
mod show;
mod tally;
#[cfg(test)]
mod tests;
mod transmit;

pub use cores::MOST_CORES;
pub use domain::Offence;
pub(crate) use life::Life;
pub use setup::{EngineError, Options};
pub(crate) use setup::{Maker, Order};
#[cfg(test)]
pub(crate) use tally::GroupTally;
pub(crate) use tally::cycles;
pub use tally::{CoreTally, Stage, Tally};

use crate::session::{Application, EventLoop};
use cofferdam_netstack::{BufferId, Disposition, Stack, Time};
use cofferdam_xsk::{Frame, Memory, Packet, Port};
use cores::Cores;
use domain::{Domain, Share};
use idle::Idle;
use owners::Owners;
use shares::Pools;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tally::Clock;

/// Applications that one dataplane serves at most.
pub const MOST_APPLICATIONS: usize = 16;
/// Largest batch bound.
pub const MOST_BATCH: u32 = 256;

/// One core of a dataplane: a port, driven by one thread.
pub struct Engine<P> {
    port: P,
    memory: Memory,
    stack: Stack,
    clock: Clock,
    options: Options,
    domains: Vec<Option<Box<Domain>>>,
    owners: Owners,
    bounds: Vec<Option<calls::Bound>>,
    batch: Vec<Packet>,
    /// A packet that found the transmit ring full.
    unsent: Option<Packet>,
    /// The last flush left packets in the ring.
    is_stuck: bool,
    share: Share,
    pools: Pools,
    idle: Idle,
    tally: Tally,
    orders: Receiver<Order>,
    cores: Cores,
    since_shown: Time,
}

impl<P: Port> Engine<P> {
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
        if self.cores.is_many() {
            work += self.take_letters(now);
            // Others need not wait for the end of this turn.
            self.cores.publish();
        }
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
        if self.cores.is_many() {
            self.return_strays();
            self.cores.publish();
        }
        self.tally.count_batch(got, self.port.pending());
        let had_work = work + sent > 0;
        self.tally.empty_turns += u64::from(!had_work);
        stages.count(&mut self.tally, had_work);
        had_work
    }

    fn process(&mut self, now: Time, got: usize) {
        let steers = self.cores.is_many();
        for n in 0..got {
            let Some(packet) = self.batch.get(n).copied() else {
                break;
            };
            if !steers || self.steer(packet) {
                self.take_packet(now, packet);
            }
        }
    }

    /// Hands a packet to the stack.
    #[inline]
    fn take_packet(&mut self, now: Time, packet: Packet) {
        let (bytes, spans) = self.memory.packet_and_spans(packet);
        let buffer = calls::received_buffer(packet.frame, packet.start);
        let mut whole = calls::Whole(spans);
        if self.stack.handle_frame(now, bytes, buffer, &mut whole) == Disposition::Free {
            self.memory.give(packet.frame);
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
            match order {
                Order::Attach(domain) => self.attach(domain),
                Order::Fetch(group) => self.fetch(group),
                Order::Look => {}
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
            return self.sleep(now);
        }
        if now.since(self.since_shown) > Duration::from_millis(10) {
            self.since_shown = now;
            self.show();
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
