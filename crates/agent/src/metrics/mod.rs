//! Metrics in the OpenMetrics text format, made anew from the last view at each scrape.

mod collect;
pub mod table;
#[cfg(test)]
mod tests;

use crate::server::Traffic;
use crate::view::View;
use cofferdam_types::Degraded;
use collect::Values;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use table::{ALL, Kind, PREFIX};

/// Everything as text.
pub(crate) fn text(view: &View, more: &[Degraded], traffic: Traffic) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    let values = collect::values(view, more, traffic);
    registry.register_collector(Box::new(Exposition(values)));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Exposition(Values);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for metric in ALL {
            let series = self.0.of(metric);
            if series.is_empty() {
                continue;
            }
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let unit = (!metric.unit.is_empty()).then(|| Unit::Other(metric.unit.to_owned()));
            let mut family =
                encoder.encode_descriptor(metric.stem, metric.help, unit.as_ref(), kind)?;
            for (labels, value) in series {
                let labels: Vec<(&str, &str)> = metric
                    .labels
                    .iter()
                    .zip(labels)
                    .map(|(key, value)| (*key, value.as_str()))
                    .collect();
                let mut one = family.encode_family(&labels)?;
                match metric.kind {
                    Kind::Counter => one.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
                    Kind::Gauge => one.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}
