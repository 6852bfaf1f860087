use super::*;
use crate::metrics::table::{ALL, Metric};
use crate::metrics::tests::full;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, metric::Data};
use prost::Message;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;

const SECOND: Duration = Duration::from_secs(1);
/// Longest wait for something that comes at once on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request as a collector sees it.
struct ReceivedRequest {
    head: Vec<String>,
    body: Vec<u8>,
}

fn read_request(stream: &TcpStream) -> ReceivedRequest {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let length = head.iter().find_map(|l| l.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    ReceivedRequest { head, body }
}

fn answer(mut stream: &TcpStream, status: &str, body: &[u8]) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nLocation: http://192.0.2.1/\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
}

/// Starts a collector that gives these answers, one after the other. Returns the requests that it
/// receives.
fn collector(answers: Vec<(&'static str, Vec<u8>)>) -> (SocketAddr, Receiver<ReceivedRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (received, all) = channel();
    std::thread::spawn(move || {
        for (status, body) in answers {
            let (stream, _) = listener.accept().unwrap();
            received.send(read_request(&stream)).unwrap();
            answer(&stream, status, &body);
        }
    });
    (address, all)
}

fn to(address: SocketAddr) -> Option<OtlpConfig> {
    Some(OtlpConfig {
        endpoint: format!("http://{address}").parse().unwrap(),
        interval: SECOND,
    })
}

fn wait(otlp: &Otlp, what: impl Fn(PushCounts) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !what(otlp.counts()) {
        assert!(Instant::now() < until, "{:?}", otlp.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn attribute(resource: &ResourceMetrics, key: &str) -> Option<String> {
    let all = &resource.resource.as_ref()?.attributes;
    let value = all.iter().find(|a| a.key == key)?.value.clone()?;
    Some(format!("{:?}", value.value?))
}

/// Promise 22.
#[test]
fn a_request_has_every_metric_with_its_resource() {
    let request = request(&full(3), "node-1", &mut Streams::default(), Moment::now());
    let request = request.expect("the first");
    let bytes = request.encode_to_vec();
    let request = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
    let metrics = request.resource_metrics.iter().flat_map(|resource| {
        let metrics = resource.scope_metrics.iter().flat_map(|s| &s.metrics);
        metrics.map(move |metric| (resource, metric))
    });
    let metrics: Vec<_> = metrics.collect();
    let clients = |m: &&Metric| {
        [
            "requests",
            "timeouts",
            "scrapes",
            "refused_connections",
            "refused_requests",
        ]
        .iter()
        .any(|s| m.stem == format!("agent_{s}"))
    };
    for metric in ALL.iter().filter(|m| !clients(m)) {
        let name = match metric.stem {
            "container_packet" => "cofferdam.container_packet_bytes".to_owned(),
            stem => format!("cofferdam.{stem}"),
        };
        let found = metrics.iter().find(|(_, m)| m.name == name);
        let (resource, found) = found.unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(found.description, metric.help);
        let of_container = metric.labels.contains(&"cgroup");
        assert_eq!(
            attribute(resource, "cofferdam.cgroup").is_some(),
            of_container
        );
        assert!(attribute(resource, "host.name").unwrap().contains("node-1"));
    }
    let (_, usage) = metrics
        .iter()
        .find(|(_, m)| m.name == "cofferdam.container_cpu_usage")
        .unwrap();
    assert_eq!(usage.unit, "s");
    let Some(Data::Sum(sum)) = &usage.data else {
        panic!("{usage:?}");
    };
    assert!(sum.is_monotonic && sum.data_points[0].attributes.is_empty());
    assert!(sum.data_points[0].start_time_unix_nano < sum.data_points[0].time_unix_nano);
    // Each container has one resource: no series comes twice.
    let resources = request.resource_metrics.iter();
    let cgroups: HashSet<_> = resources
        .map(|r| attribute(r, "cofferdam.cgroup"))
        .collect();
    assert_eq!(cgroups.len(), request.resource_metrics.len());
}

/// Promise 22.
#[test]
fn a_collector_receives_one_request_when_it_is_due() {
    let (address, received) = collector(vec![("200 OK", Vec::new())]);
    let mut otlp = Otlp::default();
    assert!(!otlp.is_due(Instant::now()));
    otlp.switch(&to(address));
    let now = Instant::now();
    assert!(otlp.is_due(now));
    otlp.send(Arc::new(full(2)), now);
    assert!(!otlp.is_due(now) && otlp.is_due(now + SECOND));
    let received = received.recv_timeout(PATIENCE).unwrap();
    assert_eq!(received.head[0], "post /v1/metrics http/1.1");
    let kind = "content-type: application/x-protobuf".to_owned();
    assert!(received.head.contains(&kind), "{:?}", received.head);
    let request = ExportMetricsServiceRequest::decode(&received.body[..]).unwrap();
    assert!(request.resource_metrics.len() >= 3);
    wait(&otlp, |sent| sent.requests == 1);
    assert_eq!(otlp.degraded(), None);
    // Counts outlast the collector to which they were sent.
    otlp.switch(&None);
    assert_eq!(otlp.counts().requests, 1);
    assert!(!otlp.is_due(now + PATIENCE));
}

/// Promise 22.
#[test]
fn a_refusal_of_the_collector_is_reported_and_retried() {
    let partial = ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess {
            rejected_data_points: 7,
            error_message: "too\x1b[2J many".to_owned(),
        }),
    };
    let (address, _heard) = collector(vec![
        ("503 Service Unavailable", b"full".to_vec()),
        ("302 Found", Vec::new()),
        ("200 OK", partial.encode_to_vec()),
        ("200 OK", Vec::new()),
    ]);
    let mut otlp = Otlp::default();
    otlp.switch(&to(address));
    let view = Arc::new(full(1));
    for (failures, expected) in [
        (1, "answers 503: full"),
        (2, "answers 302"),
        (3, "rejects 7 data points: too [2J many"),
    ] {
        otlp.send(view.clone(), Instant::now());
        wait(&otlp, |sent| sent.failures == failures);
        let degraded = otlp.degraded().unwrap();
        assert_eq!(degraded.name, "otlp_unavailable");
        assert!(degraded.text.contains(expected), "{}", degraded.text);
        assert!(degraded.text.contains(&address.to_string()));
    }
    otlp.send(view, Instant::now());
    wait(&otlp, |sent| sent.requests == 1);
    assert_eq!(otlp.degraded(), None);
}

/// Promise 22.
#[test]
fn an_unreachable_collector_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut otlp = Otlp::default();
    otlp.switch(&to(address));
    otlp.send(Arc::new(full(1)), Instant::now());
    wait(&otlp, |sent| sent.failures == 1);
    let text = otlp.degraded().unwrap().text;
    assert!(text.contains("refused"), "{text}");
}

/// The control loop queues the view and continues, whatever the collector does.
/// Promise 22.
#[test]
fn a_silent_collector_costs_one_queued_view() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut otlp = Otlp::default();
    otlp.switch(&to(listener.local_addr().unwrap()));
    let view = Arc::new(full(1));
    otlp.send(view.clone(), Instant::now());
    let (_stream, _) = listener.accept().unwrap();
    otlp.send(view.clone(), Instant::now());
    otlp.send(view.clone(), Instant::now());
    assert_eq!(otlp.counts().failures, 1);
    assert!(otlp.degraded().unwrap().text.contains("has not answered"));
    // The references of this test, of the queued view, and at most of the one that is being read.
    assert!(Arc::strong_count(&view) <= 3);
}
