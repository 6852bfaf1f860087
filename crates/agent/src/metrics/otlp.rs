//! The metrics as a request of the OpenTelemetry protocol.
//!
//! The host is one resource, and so is each container, with the attributes of the semantic
//! conventions (`host.name`, `container.id`, `k8s.pod.name`, …): <https://opentelemetry.io/docs/specs/semconv/resource/>.
//! Temporality is cumulative since the agent's start, as in the text format. A container has series
//! only where it has them there, so the number of series has the same bound.

use super::collect;
use super::table::{ALL, CONTAINER, Kind, Metric, PREFIX};
use super::values::Values;
use super::{Buckets, in_seconds};
use crate::latency::BOUNDS_NS;
use crate::view::View;
use cofferdam_types::Container;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as OtlpMetric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time of a reading, as every data point carries it.
#[derive(Clone, Copy, Debug)]
struct Times {
    start_unix_nano: u64,
    unix_nano: u64,
}

/// Everything that `view` shows of the host called `host`, without the counters of the agent's own
/// clients.
pub(crate) fn request(view: &View, host: &str, now: SystemTime) -> ExportMetricsServiceRequest {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let unix = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let times = Times {
        start_unix_nano: nanoseconds(unix.saturating_sub(view.started.elapsed())),
        unix_nano: nanoseconds(unix),
    };
    let values = collect::values(view, &[], None);
    // By the path of the cgroup, which is unique; the host's own series are under "".
    let mut resources: BTreeMap<String, Vec<OtlpMetric>> = BTreeMap::new();
    for metric in ALL {
        for (cgroup, data) in data(metric, &values, times) {
            resources.entry(cgroup).or_default().push(OtlpMetric {
                name: format!("{PREFIX}.{}", metric.stem),
                description: metric.help.to_owned(),
                unit: unit(metric).to_owned(),
                metadata: Vec::new(),
                data: Some(data),
            });
        }
    }
    let containers = view.snapshot.containers.iter();
    let containers: HashMap<String, &Container> = containers
        .map(|c| {
            (
                c.container.cgroup_path.to_string_lossy().into_owned(),
                &*c.container,
            )
        })
        .collect();
    let resource_metrics = resources.into_iter().map(|(cgroup, metrics)| {
        let mut attributes = of_host(host);
        if let Some(container) = containers.get(&cgroup) {
            attributes.extend(of_container(container));
        } else if !cgroup.is_empty() {
            // It has ended since; its name is in no list.
            attributes.push(text("cofferdam.cgroup", &cgroup));
        }
        resource(attributes, metrics)
    });
    ExportMetricsServiceRequest {
        resource_metrics: resource_metrics.collect(),
    }
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
        text("cofferdam.cgroup", &container.cgroup_path.to_string_lossy()),
    ];
    if let Some(id) = &container.id {
        attributes.push(text("container.id", id));
    }
    match container.pod.as_deref().map(|pod| pod.split_once('/')) {
        Some(Some((namespace, name))) => {
            attributes.push(text("k8s.namespace.name", namespace));
            attributes.push(text("k8s.pod.name", name));
        }
        // Where the runtime does not say more, a pod is known by its UID.
        Some(None) => {
            let uid = container.pod.as_deref().unwrap_or_default();
            attributes.push(text("k8s.pod.uid", uid));
        }
        None => {}
    }
    attributes
}

/// In UCUM, as OpenTelemetry has it.
fn unit(metric: &Metric) -> &'static str {
    match metric.unit {
        "seconds" => "s",
        "bytes" => "By",
        "ratio" => "1",
        _ => "",
    }
}

/// The data points of one metric, by resource.
fn data(metric: &'static Metric, values: &Values, times: Times) -> BTreeMap<String, Data> {
    let mut numbers: BTreeMap<String, Vec<NumberDataPoint>> = BTreeMap::new();
    for (labels, value) in values.of(metric) {
        let (cgroup, attributes) = attributes(metric, labels);
        numbers.entry(cgroup).or_default().push(NumberDataPoint {
            attributes,
            start_time_unix_nano: times.start_unix_nano,
            time_unix_nano: times.unix_nano,
            value: Some(number_data_point::Value::AsDouble(*value)),
            ..NumberDataPoint::default()
        });
    }
    let mut histograms: BTreeMap<String, Vec<HistogramDataPoint>> = BTreeMap::new();
    for (labels, buckets) in values.histograms(metric) {
        let (cgroup, attributes) = attributes(metric, labels);
        let points = histograms.entry(cgroup).or_default();
        points.push(histogram(attributes, buckets, times));
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

/// The cgroup that a series belongs to, empty for the host, and the labels that its resource does not
/// already say.
fn attributes(metric: &'static Metric, labels: &[String]) -> (String, Vec<KeyValue>) {
    let own = metric.labels.starts_with(CONTAINER);
    let named = metric.labels.iter().zip(labels);
    let rest = named.skip(if own { CONTAINER.len() } else { 0 });
    let attributes = rest.map(|(key, value)| text(key, value)).collect();
    let cgroup = own.then(|| labels[CONTAINER.len() - 1].clone());
    (cgroup.unwrap_or_default(), attributes)
}

fn histogram(attributes: Vec<KeyValue>, buckets: &Buckets, times: Times) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes,
        start_time_unix_nano: times.start_unix_nano,
        time_unix_nano: times.unix_nano,
        count: buckets.count(),
        sum: Some(in_seconds(buckets).0),
        bucket_counts: buckets.counts.to_vec(),
        explicit_bounds: BOUNDS_NS.iter().map(|ns| f64::from(*ns) / 1e9).collect(),
        ..HistogramDataPoint::default()
    }
}
