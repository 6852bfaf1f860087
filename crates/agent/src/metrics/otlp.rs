//! Metrics as a request of the OpenTelemetry protocol.
//!
//! The host is one resource, and so is each container, with the attributes of the semantic
//! conventions (`host.name`, `container.id`, `k8s.pod.name`, …):
//! <https://opentelemetry.io/docs/specs/semconv/resource/>.
//! Temporality is cumulative; [`Streams`] has the start of each stream. A container has series only
//! if it has them in the text format, so the number of series has the same bound.

mod clock;
mod streams;
#[cfg(test)]
mod tests;

pub(crate) use clock::Moment;
pub(crate) use streams::Streams;

use super::collect;
use super::table::{ALL, CONTAINER, Kind, Metric, PREFIX};
use super::values::Values;
use super::{Buckets, in_seconds};
use crate::latency::BOUNDS_NS;
use crate::view::View;
use cofferdam_types::{CgroupId, Container, path_text};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as OtlpMetric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::collections::{BTreeMap, HashMap};
use streams::{Count, Push};

/// Containers by the path of their cgroup, as labels have it.
type ByPath<'a> = HashMap<String, &'a Container>;

/// Builds a request with everything that `view` showed at `moment` of the host called `host`,
/// without the counters of the agent's own clients. `None` if a later view was pushed.
pub(crate) fn request(
    view: &View,
    host: &str,
    streams: &mut Streams,
    moment: Moment,
) -> Option<ExportMetricsServiceRequest> {
    let mut push = streams.begin(view, moment)?;
    let values = collect::values(view, &[], None);
    // Containers that have ended precede the others: a path belongs to the last one that has it.
    let containers = view.snapshot.containers.iter();
    let containers: ByPath<'_> = containers
        .map(|c| {
            let path = path_text(&c.container.cgroup_path).into_owned();
            (path, &*c.container)
        })
        .collect();
    // Keyed by the path of the cgroup, which is unique. The host's own series are under "".
    let mut resources: BTreeMap<String, Vec<OtlpMetric>> = BTreeMap::new();
    for metric in ALL {
        for (cgroup, data) in data(metric, &values, &containers, &mut push) {
            resources.entry(cgroup).or_default().push(OtlpMetric {
                name: name(metric),
                description: metric.help.to_owned(),
                unit: unit(metric).to_owned(),
                metadata: Vec::new(),
                data: Some(data),
            });
        }
    }
    push.end();
    let resource_metrics = resources.into_iter().map(|(cgroup, metrics)| {
        let mut attributes = of_host(host);
        if let Some(container) = containers.get(&cgroup) {
            attributes.extend(of_container(container));
        }
        resource(attributes, metrics)
    });
    Some(ExportMetricsServiceRequest {
        resource_metrics: resource_metrics.collect(),
    })
}

fn resource(attributes: Vec<KeyValue>, metrics: Vec<OtlpMetric>) -> ResourceMetrics {
    ResourceMetrics {
        resource: Some(Resource {
            attributes,
            ..Resource::default()
        }),
        scope_metrics: vec![ScopeMetrics {
            scope: Some(InstrumentationScope {
                name: PREFIX.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..InstrumentationScope::default()
            }),
            metrics,
            schema_url: String::new(),
        }],
        schema_url: String::new(),
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

fn of_host(host: &str) -> Vec<KeyValue> {
    vec![
        text("service.name", PREFIX),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", host),
        text("host.name", host),
    ]
}

fn of_container(container: &Container) -> Vec<KeyValue> {
    let mut attributes = vec![
        text("container.name", &container.name),
        text("container.runtime.name", &container.runtime.to_string()),
        text("cofferdam.cgroup", &path_text(&container.cgroup_path)),
    ];
    if let Some(id) = &container.id {
        attributes.push(text("container.id", id));
    }
    match container.pod.as_deref().map(|pod| pod.split_once('/')) {
        Some(Some((namespace, name))) => {
            attributes.push(text("k8s.namespace.name", namespace));
            attributes.push(text("k8s.pod.name", name));
        }
        // Unless the runtime says more, a pod is known by its UID.
        Some(None) => {
            let uid = container.pod.as_deref().unwrap_or_default();
            attributes.push(text("k8s.pod.uid", uid));
        }
        None => {}
    }
    attributes
}

/// Name of the text format, without the unit and `_total` that a collector's exporter to Prometheus
/// adds.
fn name(metric: &Metric) -> String {
    match (metric.stem, metric.unit) {
        // "container_packet" alone would be a count of packets.
        (stem @ "container_packet", unit) => format!("{PREFIX}.{stem}_{unit}"),
        (stem, _) => format!("{PREFIX}.{stem}"),
    }
}

/// Unit in UCUM, as OpenTelemetry has it.
fn unit(metric: &Metric) -> &'static str {
    match metric.unit {
        "seconds" => "s",
        "bytes" => "By",
        "ratio" => "1",
        _ if metric.stem.ends_with("packets") => "{packet}",
        _ => "",
    }
}

/// Data points of one metric, by resource: the path of a cgroup, or "" for the host.
fn data(
    metric: &'static Metric,
    values: &Values,
    containers: &ByPath<'_>,
    push: &mut Push<'_>,
) -> BTreeMap<String, Data> {
    let mut numbers: BTreeMap<String, Vec<NumberDataPoint>> = BTreeMap::new();
    for (labels, value) in values.of(metric) {
        let Some(place) = Place::of(metric, labels, containers) else {
            continue;
        };
        let points = numbers.entry(place.cgroup.to_owned()).or_default();
        points.push(NumberDataPoint {
            attributes: place.attributes(),
            // A gauge has no start.
            start_time_unix_nano: match metric.kind {
                Kind::Counter => place.start(push, Count::Sum(*value)),
                Kind::Gauge | Kind::Histogram => 0,
            },
            time_unix_nano: push.unix_ns,
            value: Some(number_data_point::Value::AsDouble(*value)),
            ..NumberDataPoint::default()
        });
    }
    let mut histograms: BTreeMap<String, Vec<HistogramDataPoint>> = BTreeMap::new();
    for (labels, buckets) in values.histograms(metric) {
        let Some(place) = Place::of(metric, labels, containers) else {
            continue;
        };
        let points = histograms.entry(place.cgroup.to_owned()).or_default();
        let start_unix_ns = place.start(push, Count::Histogram(*buckets));
        let times = (start_unix_ns, push.unix_ns);
        points.push(histogram(place.attributes(), buckets, times));
    }
    let cumulative = AggregationTemporality::Cumulative as i32;
    let numbers = numbers.into_iter().map(|(cgroup, data_points)| {
        let data = match metric.kind {
            Kind::Counter => Data::Sum(Sum {
                data_points,
                aggregation_temporality: cumulative,
                is_monotonic: true,
            }),
            Kind::Gauge | Kind::Histogram => Data::Gauge(Gauge { data_points }),
        };
        (cgroup, data)
    });
    let histograms = histograms.into_iter().map(|(cgroup, data_points)| {
        let data = Data::Histogram(Histogram {
            data_points,
            aggregation_temporality: cumulative,
        });
        (cgroup, data)
    });
    numbers.chain(histograms).collect()
}

/// Resource of a series, and the labels that the resource does not express.
struct Place<'a> {
    metric: &'static Metric,
    /// Path of the container's cgroup, "" for the host.
    cgroup: &'a str,
    source: Option<CgroupId>,
    /// Labels that do not name the container.
    labels: &'a [String],
}

impl<'a> Place<'a> {
    /// Returns `None` for a container that no longer exists.
    fn of(metric: &'static Metric, labels: &'a [String], containers: &ByPath<'_>) -> Option<Self> {
        let (cgroup, source, labels) = match metric.labels.starts_with(CONTAINER) {
            true => {
                let (names, rest) = labels.split_at_checked(CONTAINER.len())?;
                let path = names.last()?;
                (path.as_str(), Some(containers.get(path)?.cgroup), rest)
            }
            false => ("", None, labels),
        };
        Some(Place {
            metric,
            cgroup,
            source,
            labels,
        })
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let own = self.metric.labels.len() - self.labels.len();
        let keys = self.metric.labels.iter().skip(own);
        let named = keys.zip(self.labels);
        named.map(|(key, value)| text(key, value)).collect()
    }

    fn start(&self, push: &mut Push<'_>, count: Count) -> u64 {
        let stream = (self.metric.stem, self.labels.to_vec());
        push.start(self.source, stream, count)
    }
}

fn histogram(
    attributes: Vec<KeyValue>,
    buckets: &Buckets,
    (start_time_unix_nano, time_unix_nano): (u64, u64),
) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes,
        start_time_unix_nano,
        time_unix_nano,
        count: buckets.count(),
        sum: Some(in_seconds(buckets).0),
        bucket_counts: buckets.counts.to_vec(),
        explicit_bounds: BOUNDS_NS.iter().map(|ns| f64::from(*ns) / 1e9).collect(),
        ..HistogramDataPoint::default()
    }
}
