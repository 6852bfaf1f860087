//! Two nodes and two wires as a discrete event simulation.

use super::faults::{Faults, Wire};
use super::node::Node;
use cofferdam_netstack::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Application, which handles events and may give commands.
pub trait App {
    fn event(&mut self, now: Time, node: &mut Node, event: Event);
}

/// Arrival of a frame: time, order, receiving node and bytes.
type Arrival = (Time, u64, usize, Vec<u8>);

/// Nodes 0 and 1, and the frames in flight.
pub struct World {
    pub now: Time,
    pub nodes: [Node; 2],
    /// Wires by sending node.
    pub wires: [Wire; 2],
    on_the_way: BinaryHeap<Reverse<Arrival>>,
    count: u64,
    /// Log of every frame sent: time, sender and bytes.
    pub log: Option<Vec<(Time, usize, Vec<u8>)>>,
}

impl World {
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self::with(faults, seed, [super::config(0), super::config(1)])
    }

    pub fn with(faults: Faults, seed: u64, configs: [Config; 2]) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        Self {
            now,
            nodes: configs.map(|config| Node::new(config, now)),
            wires: [Wire::new(faults, seed), Wire::new(faults, seed + 1)],
            on_the_way: BinaryHeap::new(),
            count: 0,
            log: None,
        }
    }

    /// Runs both nodes until nothing happens before `until`.
    pub fn run(&mut self, until: Time, apps: &mut [&mut dyn App; 2]) {
        loop {
            for (side, app) in apps.iter_mut().enumerate() {
                self.turn(side, *app);
            }
            let frame = self.on_the_way.peek().map(|Reverse((at, ..))| *at);
            let timers = self.timers();
            let Some(next) = frame
                .into_iter()
                .chain(timers.into_iter().flatten())
                .min()
                .filter(|next| *next <= until)
            else {
                self.now = self.now.max(until);
                return;
            };
            self.now = self.now.max(next);
            while let Some(Reverse((at, ..))) = self.on_the_way.peek() {
                if *at > self.now {
                    break;
                }
                let Some(Reverse((_, _, to, frame))) = self.on_the_way.pop() else {
                    break;
                };
                self.nodes[to].receive(self.now, &frame);
            }
        }
    }

    pub fn run_for(&mut self, time: Duration, apps: &mut [&mut dyn App; 2]) {
        let until = self.now + time;
        self.run(until, apps);
    }

    /// Next wake-up of each node: node 0 uses `sleep_until`, node 1 `poll_at`.
    fn timers(&mut self) -> [Option<Time>; 2] {
        let [sleeper, looker] = &mut self.nodes;
        let looks = sleeper.stack.poll_at();
        let sleeps = sleeper.call(Stack::sleep_until);
        assert!(sleeps.is_none_or(|at| looks.is_some_and(|looks| looks <= at)));
        [sleeps, looker.stack.poll_at()]
    }

    /// Runs one turn of a node's loop.
    fn turn(&mut self, side: usize, app: &mut dyn App) {
        let node = &mut self.nodes[side];
        node.call(|stack| stack.handle_timers(self.now));
        while let Some(event) = node.event() {
            app.event(self.now, node, event);
        }
        while let Some(frame) = self.nodes[side].transmit(self.now) {
            if let Some(log) = &mut self.log {
                log.push((self.now, side, frame.clone()));
            }
            for (at, frame) in self.wires[side].send(self.now, frame) {
                self.count += 1;
                self.on_the_way
                    .push(Reverse((at, self.count, 1 - side, frame)));
            }
        }
        // Sending datagrams causes events too.
        let node = &mut self.nodes[side];
        while let Some(event) = node.event() {
            app.event(self.now, node, event);
        }
    }

    /// Asserts that no state of any connection is left after TIME_WAIT.
    pub fn assert_empty(&self) {
        for (side, node) in self.nodes.iter().enumerate() {
            let usage = node.stack.usage();
            assert_eq!(
                [usage.connections, usage.time_wait, usage.chunks, usage.kept],
                [0; 4],
                "node {side}: {usage:?}"
            );
            assert_eq!(node.memory.in_stack(), 0, "node {side} keeps buffers");
        }
    }
}
