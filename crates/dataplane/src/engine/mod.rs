//! The loop of one core, in IX's order: reclaim transmit buffers, take the applications' calls, run
//! timers, poll at most B packets, process them, deliver event conditions, and send everything at
//! once. It runs to completion: nothing is queued between the stages.
//!
//! Batching is adaptive: a batch is the pending packets, at most B. No packet waits for a batch to
//! fill.

mod account;
mod binding;
mod bounds;
mod buffers;
mod calls;
mod clock;
pub(crate) mod cores;
mod domain;
mod domains;
mod ending;
mod events;
mod eviction;
mod idle;
mod inbox_frames;
mod life;
mod link;
mod maker;
mod offence;
mod options;
mod order;
mod owners;
mod peers;
mod protection;
mod seats;
mod sending;
mod setup;
mod shares;
mod show;
mod sleep;
mod tally;
#[cfg(test)]
mod tests;
mod trains;
mod transmit;

pub(crate) use clock::cycles;
pub(crate) use domain::Domain;
pub(crate) use domains::Domains;
pub(crate) use life::Life;
pub(crate) use maker::Maker;
pub use offence::Offence;
pub use options::Options;
pub(crate) use order::Order;
pub use protection::Protection;
pub use setup::EngineError;
#[cfg(test)]
pub(crate) use tally::GroupTally;
pub use tally::{CoreTally, Stage, Tally};

use crate::tuning::SHOW_EVERY;
use bounds::Bounds;
use buffers::{Whole, received_buffer};
use clock::Clock;
use cofferdam_netstack::{Disposition, Stack, Time};
use cofferdam_xsk::{Memory, Port};
use cores::Cores;
use idle::Idle;
use link::{Link, ReceivedPacket};
use owners::Owners;
use shares::Pools;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use trains::Trains;

/// One core of a dataplane: a port on each device, driven by one thread.
pub struct Engine<P> {
    link: Link<P>,
    memory: Memory,
    stack: Stack,
    clock: Clock,
    options: Options,
    domains: Domains,
    owners: Owners,
    bounds: Bounds,
    pools: Pools,
    idle: Idle,
    tally: Tally,
    trains: Trains,
    orders: Receiver<Order>,
    cores: Cores,
    maker: Maker,
    /// Time at which the counters were last published.
    shown_at: Time,
    /// Places of the table of connections that this turn's evictions may still look at.
    eviction_places_left: u32,
}

impl<P: Port> Engine<P> {
    /// Runs one turn of the loop. Returns whether there was any work. `inline` runs an application
    /// of this process between the conditions and the sending.
    #[inline]
    pub fn turn(&mut self, mut inline: impl FnMut() -> bool) -> bool {
        self.turn_with(|_| inline())
    }

    /// Runs a turn as [`Engine::turn`] does, and passes `inline` the applications.
    #[inline]
    pub(crate) fn turn_with(&mut self, mut inline: impl FnMut(&mut Domains) -> bool) -> bool {
        let mut stages = self.tally.start();
        self.link.reclaim(&mut self.memory);
        stages.end(Stage::Reclaim);

        let now = self.clock.now();
        self.start_evictions();
        let mut work = self.take_orders() + self.take_calls(now);
        stages.end(Stage::Calls);

        if self.stack.poll_at().is_some_and(|at| at <= now) {
            self.stack.handle_timers(now);
            work += 1;
        }
        stages.end(Stage::Timers);

        let got = self.link.receive(&mut self.memory);
        stages.end(Stage::Receive);
        self.process(now, got);
        if self.cores.is_many() {
            work += self.take_messages(now);
            // Other cores need not wait for the end of this turn.
            self.cores.publish();
        }
        stages.end(Stage::Process);

        work += got + self.deliver(now);
        self.publish();
        stages.end(Stage::Conditions);

        // Answers of the application are sent with this turn's packets.
        if inline(&mut self.domains) {
            work += 1 + self.take_calls(now);
            self.deliver(now);
        }
        stages.end(Stage::Application);

        let sent = self.transmit(now);
        stages.end(Stage::Transmit);
        if sent > 0 || self.link.is_stuck() {
            self.tally.flush_errors += self.link.flush(&mut self.memory);
            stages.end(Stage::Flush);
        }
        if self.cores.is_many() {
            self.return_strays();
            self.cores.publish();
        }
        self.tally.count_batch(got, self.link.pending());
        let had_work = work + sent > 0;
        self.tally.empty_turns += u64::from(!had_work);
        stages.count(&mut self.tally, had_work);
        had_work
    }

    fn process(&mut self, now: Time, got: usize) {
        let steers = self.cores.is_many();
        for n in 0..got {
            let Some(received) = self.link.received(n) else {
                break;
            };
            if !steers || self.steer(received) {
                self.take_packet(now, received);
            }
        }
    }

    /// Passes a packet to the stack.
    #[inline]
    fn take_packet(&mut self, now: Time, received: ReceivedPacket) {
        let ReceivedPacket { interface, packet } = received;
        let (bytes, spans) = self.memory.packet_and_spans(packet);
        let buffer = received_buffer(packet.frame, packet.start);
        let mut whole = Whole(spans);
        let stack = &mut self.stack;
        if stack.handle_frame(now, interface, bytes, buffer, &mut whole) == Disposition::Free {
            self.memory.give(packet.frame);
        }
    }

    fn publish(&mut self) {
        for domain in self.domains.iter_mut() {
            self.tally.wakeups += u64::from(domain.publish());
        }
    }

    fn take_orders(&mut self) -> usize {
        let mut taken = 0;
        // Without an order this is one atomic load.
        while let Ok(order) = self.orders.try_recv() {
            taken += 1;
            match order {
                Order::Attach(domain) => self.attach(domain),
                Order::Fetch(group) => self.fetch(group),
                Order::Check => {}
            }
        }
        taken
    }

    /// Runs until `stop`, for applications that are other processes.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let worked = self.turn(|| false);
            self.wait_for_work(worked);
        }
    }

    /// Publishes the counters, and sleeps after long enough without work.
    pub fn wait_for_work(&mut self, worked: bool) {
        let now = self.clock.now();
        if self.options.yields && self.domains.iter().any(Domain::is_behind) {
            std::thread::yield_now();
        }
        if worked {
            self.idle.worked(now);
        } else if self.idle.should_sleep(now) {
            return self.sleep(now);
        }
        if now.since(self.shown_at) > SHOW_EVERY {
            self.shown_at = now;
            self.show();
        }
    }

    /// Ports, one on each device, for their facts.
    pub fn ports(&self) -> impl Iterator<Item = &P> {
        self.link.ports()
    }
}
