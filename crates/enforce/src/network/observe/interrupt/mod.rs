//! Cost of an interrupt to the interrupted task. No tracepoint brackets the entry into the kernel
//! and the exit; on a virtual machine they take longer than the work on a small packet. A first
//! estimate is made when enforcement begins ([`once`]). While a CPU receives much, the cost is
//! measured there repeatedly ([`live`]).

mod live;
mod once;

pub(super) use once::measure;

use crate::network::policy::InterruptionCosts;
use crate::tuning::interrupt::{AGAIN_AFTER, BUSY_RATE, FIRST_AGAIN_AFTER, MANY, MANY_MORE};
use cofferdam_types::{CpuId, Interval};
use live::{MeasureOrder, Watcher};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Cost of an interruption: a network softirq, with the softirqs that directly follow it.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    costs: InterruptionCosts,
    /// Measurement in place; `None` if the cost was given.
    live: Option<Live>,
}

/// Schedule of the measurements in place.
#[derive(Debug, Default)]
struct Live {
    watcher: Watcher,
    /// CPU of the last measurement.
    asked: Option<u32>,
    measurements: HashMap<u32, LastMeasurement>,
}

/// Last measurement on one CPU, and the conditions at that time.
#[derive(Debug)]
struct LastMeasurement {
    again: Instant,
    /// Inconclusive measurements so far.
    inconclusive: u32,
    has_result: bool,
    /// Interruptions of tasks per second.
    rate: f64,
}

impl Interrupts {
    /// Creates the value with a given `cost` per interruption.
    pub fn new(cost: Duration) -> Interrupts {
        Interrupts {
            costs: InterruptionCosts::everywhere(cost.as_nanos() as f64),
            live: None,
        }
    }

    /// Creates the value with an `estimate` per interruption, until a measurement replaces it.
    pub fn estimated(estimate: Duration) -> Interrupts {
        Interrupts {
            live: Some(Live::default()),
            ..Interrupts::new(estimate)
        }
    }

    /// CPU on which the cost is being measured, or was in the last interval.
    pub fn measured_cpu(&self) -> Option<u32> {
        let live = self.live.as_ref()?;
        live.asked.filter(|_| live.watcher.is_measuring())
    }

    /// Reason why the cost cannot be measured in place, and the first estimate, microseconds.
    pub fn failure(&self) -> Option<(&str, f64)> {
        let why = self.live.as_ref()?.watcher.failure()?;
        Some((why, self.costs.elsewhere_ns / 1e3))
    }

    /// Returns the known costs. Starts a measurement if many tasks were interrupted in `interval`,
    /// which ends now.
    pub fn update(&mut self, interval: &Interval) -> &InterruptionCosts {
        if let Some(live) = &mut self.live {
            let now = Instant::now();
            if let (Some(cost), Some(cpu)) = (live.watcher.answer(), live.asked) {
                self.costs.by_cpu_ns.insert(cpu, cost.as_nanos() as f64);
                live.record_result(cpu, now);
            }
            live.consider(interval, now);
        }
        &self.costs
    }
}

impl Live {
    /// Starts a due measurement on a CPU whose tasks are often interrupted, on each CPU in turn. On
    /// a CPU that sends to a local neighbour, packets arrive without an interrupt, and a
    /// measurement there is inconclusive.
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
        let order = MeasureOrder {
            cpu: CpuId(cpu),
            discard_earlier: self
                .measurements
                .get(&cpu)
                .is_some_and(|last| last.is_over(rate)),
        };
        if self.watcher.ask(order) {
            self.asked = Some(cpu);
            self.record_measurement(cpu, rate, now);
        }
    }

    /// Whether a measurement is due. Single packets may begin to interrupt a CPU that `ksoftirqd`
    /// had kept free of interrupts; then one is due at once.
    fn is_due(&self, cpu: u32, rate: f64, now: Instant) -> bool {
        match self.measurements.get(&cpu) {
            _ if rate < BUSY_RATE => false,
            Some(last) => last.is_over(rate) || last.again <= now,
            None => true,
        }
    }

    /// Sets the time of the next measurement. Each takes 3 to 10 ms of a busy CPU, so inconclusive
    /// ones become rare.
    fn record_measurement(&mut self, cpu: u32, rate: f64, now: Instant) {
        let before = self
            .measurements
            .get(&cpu)
            .filter(|last| !last.is_over(rate));
        let inconclusive = before.map_or(0, |last| last.inconclusive.saturating_add(1));
        let has_result = before.is_some_and(|last| last.has_result);
        let doubled = FIRST_AGAIN_AFTER.saturating_mul(2_u32.saturating_pow(inconclusive));
        let pause = if has_result { AGAIN_AFTER } else { doubled };
        let measurement = LastMeasurement {
            again: now + pause.min(AGAIN_AFTER),
            inconclusive,
            has_result,
            rate,
        };
        self.measurements.insert(cpu, measurement);
    }

    /// Records that the measurement on `cpu` had a result.
    fn record_result(&mut self, cpu: u32, now: Instant) {
        if let Some(measurement) = self.measurements.get_mut(&cpu) {
            (measurement.has_result, measurement.again) = (true, now + AGAIN_AFTER);
        }
    }
}

impl LastMeasurement {
    /// Whether this rate of interruptions differs so much that the earlier measurement no longer
    /// applies.
    fn is_over(&self, rate: f64) -> bool {
        rate >= MANY.max(MANY_MORE * self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::policy::simulation::interval;
    use cofferdam_types::CpuTime;

    /// Promise 35.
    #[test]
    fn a_given_cost_is_not_measured() {
        let time = |interruptions| CpuTime {
            interruptions,
            ..CpuTime::default()
        };
        let mut interrupts = Interrupts::new(Duration::from_micros(2));
        let cost = interrupts.update(&interval(&[time(90_000)], &[]));
        assert_eq!((cost.on(0), cost.by_cpu_ns.len()), (2_000.0, 0));
        assert_eq!(interrupts.measured_cpu(), None);
    }

    /// Promise 35.
    #[test]
    fn only_a_cpu_whose_tasks_are_interrupted_much_is_watched() {
        let in_20_ms = (BUSY_RATE * 0.02) as u64;
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

    /// Milliseconds at which CPU 0 is measured. The CPUs have the interruption `rates` of a time in
    /// milliseconds, and measurements on `conclusive` have a result.
    fn measured_at(conclusive: Option<u32>, rates: impl Fn(u32) -> [f64; 2]) -> Vec<u32> {
        let (mut live, start) = (Live::default(), Instant::now());
        let mut at = Vec::new();
        for ms in (0..32_000).step_by(20) {
            let now = start + Duration::from_millis(ms.into());
            for cpu in [0, 1] {
                let rate = rates(ms)[cpu as usize];
                if live.is_due(cpu, rate, now) {
                    live.record_measurement(cpu, rate, now);
                    if conclusive == Some(cpu) {
                        live.record_result(cpu, now);
                    }
                    at.extend((cpu == 0).then_some(ms));
                }
            }
        }
        at
    }

    /// Promise 35.
    #[test]
    fn inconclusive_measurements_become_rare() {
        let at = measured_at(None, |_| [20e3, 90e3]);
        assert_eq!(at, [0, 500, 1_500, 3_500, 7_500, 15_500, 25_500]);
        assert_eq!(
            measured_at(Some(1), |_| [20e3, 90e3]),
            at,
            "a CPU for itself"
        );
        let conclusive = measured_at(Some(0), |_| [20e3, 0.0]);
        assert_eq!(conclusive, [0, 10_000, 20_000, 30_000]);
    }

    /// Rates that differ from one control period to the next.
    /// Promise 35.
    #[test]
    fn small_fluctuations_cause_no_measurement() {
        let at = measured_at(None, |ms| {
            [if ms % 40 == 0 { 2_100.0 } else { 6_000.0 }, 0.0]
        });
        assert_eq!(at[..4], [0, 500, 1_500, 3_500]);
    }

    /// Until 4 s `ksoftirqd` handles the packets of CPU 0; then they interrupt the tasks there.
    /// Promise 35.
    #[test]
    fn a_rise_of_interrupts_is_measured() {
        let rates = |ms| [if ms < 4_000 { 18e3 } else { 50e3 }, 90e3];
        let at = measured_at(None, rates);
        assert_eq!(at[..6], [0, 500, 1_500, 3_500, 4_000, 4_500]);
        assert_eq!(
            measured_at(Some(0), rates)[..3],
            [0, 4_000, 14_000],
            "known too"
        );
    }
}
