//! Readings for the policy: CPU use, idle time, interrupts, weights and quotas. They are taken only
//! while they matter: most containers of a host do nothing that others are charged for.

mod idle;
mod interrupt;
mod ksoftirqd;
mod quota;
mod usage;
mod weights;

use super::means::{AppliedMeans, Means};
use super::place::PlacedContainer;
use super::policy::{Active, ContainerFacts, IdleParts, InterruptionCosts};
use cofferdam_host::CgroupLayout;
use cofferdam_types::Interval;
use idle::IdleTicks;
use interrupt::Interrupts;
use ksoftirqd::Ksoftirqd;
use quota::QuotaFiles;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use usage::UsageReader;
use weights::Weights;

/// Last readings of the host.
pub(super) struct Observer {
    idle: IdleTicks,
    /// Cost of interrupts; `None` until something is enforced.
    interrupts: Option<Interrupts>,
    ksoftirqd: Ksoftirqd,
    weights: Weights,
    read_at: Option<Instant>,
    /// Whether a quota stops a NAPI thread as it stops a task. Determined when first needed.
    quota_stops_threads: Option<bool>,
}

/// Last readings of one container.
#[derive(Debug, Default)]
pub(super) struct ContainerReadings {
    usage: UsageReader,
    quota: QuotaFiles,
}

/// Readings that apply to all containers of a step.
pub(super) struct HostReadings {
    pub idle: IdleParts,
    pub interruptions: InterruptionCosts,
    /// Time of other tasks billed to `ksoftirqd` on each CPU, nanoseconds.
    pub late_ns: BTreeMap<u32, f64>,
}

impl ContainerReadings {
    /// Ends a step, see [`UsageReader::limit_open_files`].
    pub fn limit_open_files(&mut self, open: &mut usize) {
        self.usage.limit_open_files(open);
    }
}

impl Observer {
    pub fn new() -> Observer {
        Observer {
            idle: IdleTicks::default(),
            interrupts: None,
            ksoftirqd: Ksoftirqd::default(),
            weights: Weights::default(),
            read_at: None,
            quota_stops_threads: None,
        }
    }

    /// Prepares the cost of an interrupt: `cost` if given, otherwise a measurement.
    pub fn prepare(&mut self, cost: Option<Duration>) {
        if self.interrupts.is_none() {
            self.ksoftirqd = Ksoftirqd::find();
        }
        let measured = || Interrupts::estimated(interrupt::measure().unwrap_or_default());
        self.interrupts
            .get_or_insert_with(|| cost.map_or_else(measured, Interrupts::new));
    }

    /// CPU on which a thread of ours measured the cost of an interrupt in the last interval.
    pub fn measured_cpu(&self) -> Option<u32> {
        self.interrupts.as_ref().and_then(Interrupts::measured_cpu)
    }

    /// Reason why the cost of an interrupt is an estimate, and the estimate in microseconds.
    pub fn interrupt_failure(&self) -> Option<(&str, f64)> {
        self.interrupts.as_ref()?.failure()
    }

    /// Idle time in `interval`, which ends now, and the cost of interrupts in it.
    pub fn read_host(&mut self, interval: &Interval) -> HostReadings {
        // After a pause the first readings cover a longer time than the interval.
        let since = self.read_at.map_or(interval.length, |at| at.elapsed());
        self.read_at = Some(Instant::now());
        let idle = self.idle.update(since.max(interval.length));
        let was_away = since > interval.length * 2;
        let interrupts = self.interrupts.as_mut();
        let interruptions = interrupts.map(|interrupts| interrupts.update(interval).clone());
        if was_away {
            self.ksoftirqd.forget();
        }
        HostReadings {
            idle,
            interruptions: interruptions.unwrap_or_default(),
            late_ns: self.ksoftirqd.update(interval),
        }
    }

    /// Weights, without corrections, of the cgroups `wanted`.
    pub fn weights<'a>(
        &mut self,
        layout: &CgroupLayout,
        wanted: BTreeSet<PathBuf>,
        members: impl Iterator<Item = (&'a PlacedContainer, &'a mut AppliedMeans)>,
    ) -> HashMap<PathBuf, f64> {
        let mut weights = HashMap::new();
        for (placed, applied) in members {
            let path = &placed.container.cgroup_path;
            let state = &mut applied.weight.state;
            // Until we write a weight, its owner may change it.
            if state.written.is_none() && wanted.contains(path) {
                state.base = self.weights.of(path, &placed.place).or(state.base);
            }
            weights.extend(state.base.map(|weight| (path.clone(), weight)));
        }
        let weight = |path: PathBuf| {
            let found = weights.get(&path).copied();
            let weight = found.unwrap_or_else(|| self.weights.read(layout, &path));
            (path, weight)
        };
        wanted.into_iter().map(weight).collect()
    }

    /// Whether a NAPI thread may run in a cgroup under a quota. Assumed not if unknown.
    pub fn quota_stops_threads(&mut self) -> bool {
        let ask = || cofferdam_bpf::quota_stops_kernel_threads().unwrap_or(false);
        *self.quota_stops_threads.get_or_insert_with(ask)
    }
}

/// Facts about one container in an interval that ends now, and the means in force for it.
pub(super) fn container(
    PlacedContainer { container, place }: &PlacedContainer,
    readings: &mut ContainerReadings,
    applied: &mut AppliedMeans,
    means: &mut Means,
    active: Active,
    length: Duration,
) -> ContainerFacts {
    let corrected = applied.quota.is_corrected();
    let own_us = applied.quota.state.base.filter(|_| corrected);
    readings.quota.update(place, own_us);
    let quota_cpus = readings.quota.cpus;
    let own_quota = quota_cpus.and_then(|_| place.quota());
    if let Some(found) = &own_quota {
        applied.quota.note_found(found.quota.quota_us);
    }
    if applied.weight.is_corrected()
        && let Some(weight) = place.weight()
    {
        applied.weight.note_found(weight);
    }
    let limiting = means.ingress.take_limiting(container.cgroup);
    applied.dropped_rx_packets += limiting.counts.rx_dropped;
    applied.dropped_tx_packets += limiting.counts.tx_dropped;
    ContainerFacts {
        active,
        is_alive: place.is_alive(container),
        billed: readings.usage.update(place, length),
        napi_ns: applied.napi_used_ns(),
        quota_cpus,
        quota_period: readings.quota.period,
        own_quota: own_quota.map(|found| found.quota),
        weight: place.weight_file().map(|_| applied.weight.state),
        quota: applied.quota.state,
        limiting,
    }
}
