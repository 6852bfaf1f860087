//! Histograms of stages, with at most 0.8% of error in a value.

use crate::sample::Sample;
use crate::stages::Stage;
use cofferdam_bpf::latency::{Class, Direction};
use cofferdam_types::NetnsId;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Key of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The container.
    pub netns: NetnsId,
    /// Direction, seen from the container.
    pub direction: Direction,
    /// Protocol class.
    pub class: Class,
}

/// Figures of one histogram, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Distribution {
    pub count: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

/// Makes a histogram of two significant digits and a bit, up to ten seconds. It takes 20 KiB, when
/// first used.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("the bounds are sound")
}

/// Histograms of one kind of packet.
#[derive(Clone, Debug)]
pub struct FlowSummary {
    /// Time from the first to the last point.
    pub total: Histogram<u64>,
    /// Time that the container's network adds.
    pub added: Histogram<u64>,
    /// Each stage that was passed.
    pub stages: BTreeMap<Stage, Histogram<u64>>,
}

/// Histograms by container, direction and protocol.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    flows: BTreeMap<Flow, FlowSummary>,
}

impl Summary {
    /// Adds one packet.
    pub fn add(&mut self, sample: &Sample) {
        let flow = Flow {
            netns: sample.report.netns,
            direction: sample.report.direction,
            class: sample.report.class(),
        };
        let summary = self.flows.entry(flow).or_insert_with(|| FlowSummary {
            total: histogram(),
            added: histogram(),
            stages: BTreeMap::new(),
        });
        let count = u64::from(sample.report.segments.max(1));
        summary
            .total
            .saturating_record_n(sample.stages.total_ns.into(), count);
        if let Some(added) = sample.stages.added_ns {
            summary.added.saturating_record_n(added.into(), count);
        }
        for (stage, ns) in &sample.stages.parts_ns {
            let part = summary.stages.entry(*stage).or_insert_with(histogram);
            part.saturating_record_n((*ns).into(), count);
        }
    }

    /// Iterates over all histograms, in order.
    pub fn flows(&self) -> impl Iterator<Item = (&Flow, &FlowSummary)> {
        self.flows.iter()
    }

    /// Returns the histograms of one kind of packet.
    pub fn flow(&self, flow: Flow) -> Option<&FlowSummary> {
        self.flows.get(&flow)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.flows.clear();
    }
}

impl Distribution {
    /// Makes a histogram of `values_ns`.
    pub fn histogram(values_ns: impl Iterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = histogram();
        values_ns.for_each(|ns| histogram.saturating_record(ns));
        histogram
    }

    /// Returns the figures of `histogram`.
    pub fn of(histogram: &Histogram<u64>) -> Distribution {
        if histogram.is_empty() {
            return Distribution::default();
        }
        let at = |q: f64| histogram.value_at_quantile(q).min(histogram.max());
        Distribution {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: histogram.max(),
        }
    }

    /// Returns the histogram itself: value and count of each bucket that is not empty.
    pub fn buckets(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
        histogram
            .iter_recorded()
            .map(|v| (v.value_iterated_to(), v.count_at_value()))
            .collect()
    }
}
