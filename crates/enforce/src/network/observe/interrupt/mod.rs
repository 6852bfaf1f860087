//! What an interrupt costs whoever it interrupts. No tracepoint brackets the way into the kernel
//! and out again; on a virtual machine it is longer than the work on a small packet. A first estimate
//! is made when enforcement begins ([`once`]); while a CPU receives much it is measured there, again
//! and again ([`live`]).

mod live;
mod once;

pub(super) use once::measure;

use crate::tuning::interrupt::{AGAIN_AFTER, FIRST_AGAIN_AFTER, MANY_MORE, PRESSED_RATE};
use cofferdam_types::{CpuId, Interval};
use live::{Order, Watcher};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What an interruption takes from the task that it meets: a receive softirq, with what follows it at once.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    cost_ns: f64,
    /// `None` where the cost was given.
    live: Option<Live>,
}

/// When the cost is measured in place.
#[derive(Debug, Default)]
struct Live {
    watcher: Watcher,
    /// Once it is known: until then it is good enough.
    due: Option<Instant>,
    /// On which CPU last.
    asked: Option<u32>,
    known: bool,
    looks: HashMap<u32, Looked>,
}

/// When one CPU was looked at last, with what else was going on there.
#[derive(Debug)]
struct Looked {
    again: Instant,
    /// Looks so far that told nothing.
    in_vain: u32,
    /// Interruptions of tasks a second.
    rate: f64,
}

impl Interrupts {
    /// Each takes `cost`.
    pub fn new(cost: Duration) -> Interrupts {
        Interrupts {
            cost_ns: cost.as_nanos() as f64,
            ..Interrupts::default()
        }
    }

    /// Each takes `estimate`, until it is measured in place.
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

    /// The cost as far as it is known now, nanoseconds. Has it measured where many tasks were interrupted in `interval`,
    /// which ends now.
    pub fn look(&mut self, interval: &Interval) -> f64 {
        if let Some(live) = &mut self.live {
            if let Some(cost) = live.watcher.answer() {
                self.cost_ns = cost.as_nanos() as f64;
                live.known = true;
            }
            live.consider(interval, Instant::now());
        }
        self.cost_ns
    }
}

impl Live {
    /// Has the cost measured on a CPU whose tasks are interrupted much, when it is time: on each in turn, since where
    /// packets are sent to a neighbour they are received without an interrupt, and nothing is learnt.
    fn consider(&mut self, interval: &Interval, now: Instant) {
        let seconds = interval.length.as_secs_f64().max(1e-3);
        let cpus = interval.cpus.iter();
        let rates = cpus.map(|(cpu, time)| (cpu.0, time.interruptions as f64 / seconds));
        let is_due = |(cpu, rate): &(u32, f64)| self.is_due(*cpu, *rate, now);
        let due: Vec<(u32, f64)> = rates.filter(is_due).collect();
        let next = due.iter().find(|(cpu, _)| Some(*cpu) > self.asked);
        let Some(&(cpu, rate)) = next.or(due.first()) else {
            return;
        };
        let order = Order {
            cpu: CpuId(cpu),
            anew: self.looks.get(&cpu).is_some_and(|last| last.is_over(rate)),
        };
        if self.watcher.ask(order) {
            self.asked = Some(cpu);
            self.note_look(cpu, rate, now);
        }
    }

    /// Packets that come one by one interrupt a CPU that `ksoftirqd` had kept free of interrupts: then there is
    /// something to see, at once.
    fn is_due(&self, cpu: u32, rate: f64, now: Instant) -> bool {
        match self.looks.get(&cpu) {
            _ if rate < PRESSED_RATE => false,
            Some(last) if last.is_over(rate) => true,
            Some(last) if now < last.again => false,
            _ => self.due.is_none_or(|due| due <= now),
        }
    }

    /// Sets when the next look is: each takes 10 ms of a CPU that is wanted, and those that tell nothing come rarely.
    fn note_look(&mut self, cpu: u32, rate: f64, now: Instant) {
        let before = self.looks.get(&cpu).filter(|last| !last.is_over(rate));
        let in_vain = before.map_or(0, |last| last.in_vain.saturating_add(1));
        let doubled = FIRST_AGAIN_AFTER.saturating_mul(2_u32.saturating_pow(in_vain));
        let again = now + doubled.min(AGAIN_AFTER);
        self.due = self.known.then_some(now + AGAIN_AFTER);
        let look = Looked {
            again,
            in_vain,
            rate,
        };
        self.looks.insert(cpu, look);
    }
}

impl Looked {
    /// Whether a CPU with this rate of interruptions handles packets otherwise than then.
    fn is_over(&self, rate: f64) -> bool {
        rate >= MANY_MORE * self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::policy::simulation::interval;
    use cofferdam_types::CpuTime;

    #[test]
    fn a_given_cost_is_not_measured() {
        let time = |interruptions| CpuTime {
            interruptions,
            ..CpuTime::default()
        };
        let mut interrupts = Interrupts::new(Duration::from_micros(2));
        let cost = interrupts.look(&interval(&[time(90_000)], &[]));
        assert_eq!((cost, interrupts.looks_at()), (2_000.0, None));
    }

    #[test]
    fn only_a_cpu_whose_tasks_are_interrupted_much_is_watched() {
        let in_20_ms = (PRESSED_RATE * 0.02) as u64;
        let time = |interruptions| CpuTime {
            interruptions,
            ..CpuTime::default()
        };
        let asked = |times: &[CpuTime]| {
            let mut live = Live::default();
            live.consider(&interval(times, &[]), Instant::now());
            live.asked
        };
        assert_eq!(asked(&[time(10), time(in_20_ms - 1)]), None);
        assert_eq!(asked(&[]), None);
    }

    /// `Live` that looks as often as it may, and the times of its looks at CPU 0 in seconds, where both CPUs receive `rates`.
    fn looks(live: &mut Live, rates: impl Fn(f64) -> [f64; 2]) -> Vec<f64> {
        let start = Instant::now();
        let mut at = Vec::new();
        for step in 0..1_600_u32 {
            let now = start + step * Duration::from_millis(20);
            let seconds = f64::from(step) * 0.02;
            for cpu in [0, 1] {
                let rate = rates(seconds)[cpu as usize];
                if live.is_due(cpu, rate, now) {
                    live.note_look(cpu, rate, now);
                    at.extend((cpu == 0).then_some(seconds));
                }
            }
        }
        at
    }

    #[test]
    fn looks_that_tell_nothing_come_ever_more_rarely() {
        let at = looks(&mut Live::default(), |_| [20e3, 90e3]);
        assert_eq!(at, [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 25.5]);
        let mut known = Live {
            known: true,
            ..Live::default()
        };
        assert_eq!(looks(&mut known, |_| [20e3, 0.0]), [0.0, 10.0, 20.0, 30.0]);
    }

    /// Until 4 s `ksoftirqd` handles the packets of CPU 0; then they interrupt whoever runs there.
    #[test]
    fn interrupts_that_set_in_are_looked_at() {
        let at = looks(&mut Live::default(), |s| {
            [if s < 4.0 { 18e3 } else { 50e3 }, 90e3]
        });
        assert_eq!(at[..6], [0.0, 0.5, 1.5, 3.5, 4.0, 4.5]);
    }
}
