//! Metrics in the OpenMetrics text format, built from the last view at each scrape.

mod collect;
mod latency;
pub(crate) mod otlp;
#[cfg(test)]
mod shipped;
pub mod table;
#[cfg(test)]
pub(crate) mod tests;
mod values;

use crate::latency::{BOUNDS_NS, Buckets};
use crate::traffic::Traffic;
use crate::view::View;
use cofferdam_types::Degradation;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use table::{ALL, Kind, PREFIX};
use values::Values;

/// Formats all metrics as text.
pub(crate) fn text(view: &View, more: &[Degradation], traffic: Traffic) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    let values = collect::values(view, more, Some(traffic));
    registry.register_collector(Box::new(Exposition(values)));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}

/// Sum, and the upper bound and count of each bucket, in seconds.
fn in_seconds(histogram: &Buckets) -> (f64, Vec<(f64, u64)>) {
    let bounds = BOUNDS_NS.iter().map(|ns| f64::from(*ns) / 1e9);
    let bounds = bounds.chain([f64::INFINITY]);
    let buckets = bounds.zip(histogram.counts).collect();
    (histogram.sum_ns as f64 / 1e9, buckets)
}

#[derive(Debug)]
struct Exposition(Values);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for metric in ALL {
            let (series, histograms) = (self.0.of(metric), self.0.histograms(metric));
            if series.is_empty() && histograms.is_empty() {
                continue;
            }
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let unit = (!metric.unit.is_empty()).then(|| Unit::Other(metric.unit.to_owned()));
            let mut family =
                encoder.encode_descriptor(metric.stem, metric.help, unit.as_ref(), kind)?;
            for (labels, value) in series {
                let labels = metric.labelled(labels);
                let mut one = family.encode_family(&labels)?;
                match metric.kind {
                    Kind::Counter => one.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
                    Kind::Gauge | Kind::Histogram => one.encode_gauge(value)?,
                }
            }
            for (labels, histogram) in histograms {
                let labels = metric.labelled(labels);
                let mut one = family.encode_family(&labels)?;
                let (sum, buckets) = in_seconds(histogram);
                one.encode_histogram::<NoLabelSet>(sum, histogram.count(), &buckets, None)?;
            }
        }
        Ok(())
    }
}
