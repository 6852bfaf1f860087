//! What an interrupt costs whoever it interrupts. No tracepoint brackets the way into the kernel
//! and out again; on a virtual machine it is longer than the work on a small packet. A first estimate
//! is made when enforcement begins ([`once`]); while a CPU receives much it is measured there, again
//! and again ([`live`]).

mod live;
mod once;

pub(super) use once::measure;

use crate::tuning::interrupt::{AGAIN_AFTER, FIRST_AGAIN_AFTER, MOST, PRESSED_RATE};
use cofferdam_types::CpuId;
use live::Watcher;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::{Duration, Instant};

/// Receive softirqs of each CPU: nearly every one follows an interrupt.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    /// What one costs, nanoseconds.
    cost_ns: f64,
    total: HashMap<u32, u64>,
    /// `None` where the cost was given.
    live: Option<Live>,
}

/// When the cost is measured in place.
#[derive(Debug, Default)]
struct Live {
    watcher: Watcher,
    due: Option<Instant>,
    /// On which CPU last.
    asked: Option<u32>,
    known: bool,
    /// Looks so far that told nothing.
    in_vain: u32,
}

impl Interrupts {
    /// None seen yet; each takes `cost`.
    pub fn new(cost: Duration) -> Interrupts {
        Interrupts {
            cost_ns: cost.as_nanos() as f64,
            ..Interrupts::default()
        }
    }

    /// None seen yet; `estimate` is what one takes until it is measured in place.
    pub fn estimated(estimate: Duration) -> Interrupts {
        Interrupts {
            live: Some(Live::default()),
            ..Interrupts::new(estimate)
        }
    }

    /// The CPU on which the cost is measured now, or was at the last look.
    pub fn looks_at(&self) -> Option<u32> {
        let live = self.live.as_ref()?;
        live.asked.filter(|_| live.watcher.looks())
    }

    /// Counts anew with the next look: nobody looked for a while.
    pub fn forget(&mut self) {
        self.total.clear();
    }

    /// What interrupts took on each CPU since the last look, `since` ago, nanoseconds, from
    /// `/proc/softirqs`.
    pub fn look(&mut self, since: Duration) -> BTreeMap<u32, f64> {
        let text = fs::read_to_string("/proc/softirqs").unwrap_or_default();
        let counts = self.take(&text);
        if let Some(live) = &mut self.live {
            if let Some(cost) = live.watcher.answer() {
                self.cost_ns = cost.as_nanos() as f64;
                live.known = true;
            }
            live.consider(&counts, since, Instant::now());
        }
        let cost = |(cpu, count): (u32, u64)| (cpu, count as f64 * self.cost_ns);
        counts.into_iter().map(cost).collect()
    }

    /// Receive softirqs of each CPU since the last look.
    fn take(&mut self, text: &str) -> BTreeMap<u32, u64> {
        let mut lines = text.lines();
        let cpus = lines.next().unwrap_or_default().split_whitespace();
        let cpus: Vec<u32> = cpus
            .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
            .collect();
        let counts = lines.find_map(|line| line.trim_start().strip_prefix("NET_RX:"));
        let counts = counts.unwrap_or_default().split_whitespace();
        let mut since = BTreeMap::new();
        for (cpu, count) in cpus.into_iter().zip(counts) {
            let Ok(count) = count.parse() else { continue };
            let before = self.total.insert(cpu, count).unwrap_or(count);
            since.insert(cpu, count.saturating_sub(before));
        }
        since
    }
}

impl Live {
    /// Has the cost measured on a CPU that receives much, when it is time: on each in turn, since where
    /// packets are sent to a neighbour they are received without an interrupt, and nothing is learnt.
    fn consider(&mut self, counts: &BTreeMap<u32, u64>, since: Duration, now: Instant) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        let much = PRESSED_RATE * since.as_secs_f64();
        let pressed = |(_, count): &(&u32, &u64)| **count as f64 >= much;
        let pressed: Vec<u32> = counts.iter().filter(pressed).map(|(cpu, _)| *cpu).collect();
        let next = pressed.iter().find(|cpu| Some(**cpu) > self.asked);
        let Some(cpu) = next.or(pressed.first()) else {
            return;
        };
        if self.watcher.ask(CpuId(*cpu)) {
            self.asked = Some(*cpu);
            self.due = Some(now + self.pause());
        }
    }

    /// Until the next look: each takes 10 ms of a CPU that is wanted, and those that tell nothing come rarely.
    fn pause(&mut self) -> Duration {
        if self.known {
            return AGAIN_AFTER;
        }
        let doubled = 2_u32.saturating_pow(self.in_vain);
        self.in_vain = self.in_vain.saturating_add(1);
        FIRST_AGAIN_AFTER.saturating_mul(doubled).min(AGAIN_AFTER)
    }
}

/// The middle one of what was lost each time, if that is `enough` times to tell and to be believed.
fn middle(lost: &mut [Duration], enough: usize) -> Option<Duration> {
    if lost.len() < enough {
        return None;
    }
    let middle = lost.len() / 2;
    let (_, cost, _) = lost.select_nth_unstable(middle);
    Some(*cost).filter(|cost| *cost <= MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::interrupt::ENOUGH;

    #[test]
    fn receive_softirqs_are_counted_a_cpu() {
        let mut interrupts = Interrupts::new(Duration::from_micros(2));
        let text = |a: u64, b: u64| {
            format!("       CPU0   CPU2\n HI: 1 1\n NET_TX: 5 5\n NET_RX: {a} {b}\n RCU: 9 9\n")
        };
        let first = interrupts.take(&text(100, 7));
        assert_eq!(first, [(0, 0), (2, 0)].into());
        let second = interrupts.take(&text(130, 8));
        assert_eq!(second, [(0, 30), (2, 1)].into());
    }

    #[test]
    fn only_a_cpu_that_receives_much_is_watched() {
        let mut live = Live::default();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        live.consider(&[(0, 10), (1, PRESSED_RATE as u64 - 1)].into(), second, now);
        assert_eq!(live.due, None);
        live.consider(&BTreeMap::new(), second, now);
        assert_eq!((live.due, live.asked), (None, None));
    }

    #[test]
    fn few_costs_and_incredible_ones_tell_nothing() {
        let us = Duration::from_micros;
        assert_eq!(middle(&mut vec![us(6); ENOUGH - 1], ENOUGH), None);
        assert_eq!(middle(&mut vec![MOST + us(1); ENOUGH], ENOUGH), None);
        let mut some: Vec<Duration> = (0..2 * ENOUGH as u64).map(|i| us(i % 10)).collect();
        assert_eq!(middle(&mut some, ENOUGH), Some(us(5)));
    }

    #[test]
    fn looks_that_tell_nothing_come_ever_more_rarely() {
        let mut live = Live::default();
        let pauses: Vec<u64> = (0..40).map(|_| live.pause().as_millis() as u64).collect();
        assert_eq!(pauses[..6], [500, 1_000, 2_000, 4_000, 8_000, 10_000]);
        assert_eq!(pauses[39], 10_000);
        live.known = true;
        assert_eq!(live.pause(), AGAIN_AFTER);
    }
}
