//! Start times over random histories of containers, clocks, rules and agents.

use super::*;
use crate::latency::{FlowTotals, LatencyView, MeasuredContainer};
use crate::metrics::tests::{container, full};
use cofferdam_latency::{Class, Counts, Direction};
use cofferdam_types::{CgroupId, ContainerLedger, ContainerStatus, EnforcementStatus, Snapshot};
use cofferdam_types::{NetworkEnforcement, Runtime};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PATHS: usize = 3;

/// Event on the host before a push.
#[derive(Clone, Debug)]
enum Event {
    /// Time passes, milliseconds, and every count grows.
    Pass(u64),
    /// The host's clock is set by this many seconds.
    SetClock(i64),
    /// A container starts at a path and replaces the one there.
    Start(usize),
    End(usize),
    /// The container there gets a rule, or loses it. Counts of the enforcement begin with the rule.
    SwitchRule(usize),
    /// Sets the number of containers that have series of their own.
    Limit(u32),
    RestartAgent,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1_u64..5000).prop_map(Event::Pass),
        1 => (-7200_i64..7200).prop_map(Event::SetClock),
        2 => (0..PATHS).prop_map(Event::Start),
        1 => (0..PATHS).prop_map(Event::End),
        1 => (0..PATHS).prop_map(Event::SwitchRule),
        1 => (0_u32..4).prop_map(Event::Limit),
        1 => Just(Event::RestartAgent),
    ]
}

#[derive(Clone, Debug)]
struct Tenant {
    id: u64,
    used_ns: u64,
    /// Number of the rule, and the time charged under it.
    rule: Option<(u64, u64)>,
}

/// Host, and the agent on it.
struct Host {
    base: View,
    wall: SystemTime,
    at: Instant,
    tenants: [Option<Tenant>; PATHS],
    /// Containers that ended since the last push, and those of the last push.
    ended: Vec<(usize, Tenant)>,
    ended_last: Vec<(usize, Tenant)>,
    next: u64,
    agent: u64,
    started: Instant,
    host_steps: u64,
    exported: u32,
    streams: Streams,
}

impl Host {
    fn new() -> Host {
        let at = Instant::now();
        Host {
            base: full(0),
            wall: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            at,
            tenants: [const { None }; PATHS],
            ended: Vec::new(),
            ended_last: Vec::new(),
            next: 1,
            agent: 0,
            started: at,
            host_steps: 0,
            exported: 10,
            streams: Streams::default(),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.at += time;
        self.wall += time;
        self.host_steps += 1;
        let grown_ns = u64::try_from(time.as_nanos()).unwrap() / 2;
        for tenant in self.tenants.iter_mut().flatten() {
            tenant.used_ns += grown_ns / tenant.id;
            if let Some((_, charged_ns)) = &mut tenant.rule {
                *charged_ns += grown_ns;
            }
        }
    }

    fn happen(&mut self, event: &Event, last_unix_ns: u64) {
        match *event {
            Event::Pass(ms) => self.pass(Duration::from_millis(ms)),
            Event::SetClock(seconds) if seconds < 0 => {
                self.wall -= Duration::from_secs(seconds.unsigned_abs());
            }
            Event::SetClock(seconds) => self.wall += Duration::from_secs(seconds.unsigned_abs()),
            Event::Start(path) => {
                self.end(path);
                let id = self.next;
                self.next += 1;
                self.tenants[path] = Some(Tenant {
                    id,
                    used_ns: 0,
                    rule: None,
                });
            }
            Event::End(path) => self.end(path),
            Event::SwitchRule(path) => {
                // A restart between two pushes cannot be distinguished from a stream that
                // continued.
                self.exported = 10;
                self.next += 1;
                let number = self.next;
                if let Some(tenant) = &mut self.tenants[path] {
                    tenant.rule = match tenant.rule {
                        Some(_) => None,
                        None => Some((number, 0)),
                    };
                }
            }
            Event::Limit(containers) => self.exported = containers,
            Event::RestartAgent => {
                self.streams = Streams::default();
                self.agent += 1;
                self.started = self.at;
                self.host_steps = 0;
                self.ended.clear();
                for tenant in self.tenants.iter_mut().flatten() {
                    tenant.used_ns = 0;
                    tenant.rule = tenant.rule.map(|(number, _)| (number, 0));
                }
                // No agent remembers that the clock was set back between two agents.
                let last = UNIX_EPOCH + Duration::from_nanos(last_unix_ns);
                self.wall = self.wall.max(last);
            }
        }
        self.pass(Duration::from_millis(1));
    }

    fn end(&mut self, path: usize) {
        if let Some(tenant) = self.tenants[path].take() {
            self.ended.push((path, tenant));
        }
    }

    fn push(&mut self) -> ExportMetricsServiceRequest {
        self.ended_last = std::mem::take(&mut self.ended);
        let ended = self.ended_last.iter().map(|(path, t)| ledger(*path, t));
        let there = self.tenants.iter().enumerate();
        let there = there.filter_map(|(path, tenant)| Some((path, tenant.as_ref()?)));
        let live: Vec<ContainerLedger> = there.clone().map(|(path, t)| ledger(path, t)).collect();
        let enforced = there.filter_map(|(path, tenant)| {
            let (_, charged_ns) = tenant.rule?;
            Some(ContainerStatus {
                cgroup: CgroupId(tenant.id),
                name: format!("c{path}"),
                network: Some(NetworkEnforcement {
                    charged_ns,
                    ..self.base.enforcement.containers[0].network.clone()?
                }),
                ..self.base.enforcement.containers[0].clone()
            })
        });
        let view = View {
            enforcement: Arc::new(EnforcementStatus {
                containers: enforced.collect(),
                ..(*self.base.enforcement).clone()
            }),
            snapshot: Arc::new(Snapshot {
                uptime: self.at - self.started,
                containers: ended.chain(live).collect(),
                ..(*self.base.snapshot).clone()
            }),
            started: self.started,
            steps: self.host_steps,
            exported: self.exported,
            ..self.base.clone()
        };
        let moment = Moment {
            wall: self.wall,
            at: self.at,
        };
        request(&view, "node-1", &mut self.streams, moment).expect("the latest")
    }

    /// Identity of the counter behind the stream `name` at `path`: while it stays, the count only
    /// grows.
    fn counted(&self, path: &str, name: &str) -> Option<(u64, u64, u64)> {
        let at = path
            .strip_prefix("/t/")
            .map(|n| n.parse::<usize>().unwrap());
        let Some(path) = at else {
            return Some((self.agent, 0, 0));
        };
        let ended = self.ended_last.iter().rfind(|(at, _)| *at == path);
        let tenant = self.tenants[path].as_ref().or(ended.map(|(_, t)| t))?;
        let of_rule = ["enforcement", "reservation"];
        let rule = match of_rule.iter().any(|word| name.contains(word)) {
            true => tenant.rule?.0,
            false => 0,
        };
        Some((self.agent, tenant.id, rule))
    }
}

fn ledger(path: usize, tenant: &Tenant) -> ContainerLedger {
    let mut entry = container(tenant.id, &format!("c{path}"));
    entry.container = Arc::new(Container {
        cgroup_path: PathBuf::from(format!("/t/{path}")),
        runtime: Runtime::Plain,
        ..(*entry.container).clone()
    });
    entry.ledger.cpu_usage_ns = tenant.used_ns;
    entry
}

/// Cumulative point.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    start: u64,
    time: u64,
    value: f64,
}

/// Cgroup path, name and attributes: the identity of a stream for a consumer.
type Identity = (String, String, String);

fn points(request: &ExportMetricsServiceRequest) -> Vec<(Identity, Point)> {
    let mut all = Vec::new();
    for resource in &request.resource_metrics {
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        let path = attributes.iter().find(|a| a.key == "cofferdam.cgroup");
        let path = path.map(|a| match &a.value.as_ref().unwrap().value {
            Some(Value::StringValue(path)) => path.clone(),
            other => panic!("{other:?}"),
        });
        let path = path.unwrap_or_default();
        for metric in resource.scope_metrics.iter().flat_map(|s| &s.metrics) {
            let mut add = |attributes: &[KeyValue], start, time, value| {
                let identity = (path.clone(), metric.name.clone(), format!("{attributes:?}"));
                all.push((identity, Point { start, time, value }));
            };
            match metric.data.as_ref().unwrap() {
                Data::Sum(sum) => {
                    for p in &sum.data_points {
                        let Some(number_data_point::Value::AsDouble(value)) = p.value else {
                            panic!("{p:?}");
                        };
                        let (start, time) = (p.start_time_unix_nano, p.time_unix_nano);
                        add(&p.attributes, start, time, value);
                    }
                }
                Data::Histogram(histogram) => {
                    for p in &histogram.data_points {
                        let (start, time) = (p.start_time_unix_nano, p.time_unix_nano);
                        add(&p.attributes, start, time, p.count as f64);
                    }
                }
                Data::Gauge(gauge) => {
                    assert!(
                        gauge
                            .data_points
                            .iter()
                            .all(|p| p.start_time_unix_nano == 0)
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }
    all
}

/// Last point of a stream, with the identity of its counter.
type LastPoint = (Point, Option<(u64, u64, u64)>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Promise 22.
    #[test]
    fn a_start_moves_only_when_a_count_begins_again(
        events in proptest::collection::vec(event(), 1..40)
    ) {
        let mut host = Host::new();
        host.pass(Duration::from_secs(1));
        let mut seen: HashMap<Identity, LastPoint> = HashMap::new();
        let mut last_unix_ns = 0;
        for event in &events {
            host.happen(event, last_unix_ns);
            let all = points(&host.push());
            prop_assert!(!all.is_empty());
            let mut now = std::collections::HashSet::new();
            for (identity, point) in all {
                prop_assert!(now.insert(identity.clone()), "twice: {identity:?}");
                prop_assert!(point.time > point.start && point.time > last_unix_ns);
                let counted = host.counted(&identity.0, &identity.1);
                if let Some((before, counted_before)) = seen.get(&identity) {
                    let same = counted == *counted_before;
                    prop_assert_eq!(same, point.start == before.start, "{:?}: {:?}, {:?}",
                        identity, before, point);
                    prop_assert!(same || point.start >= before.time);
                    prop_assert!(!same || point.value >= before.value);
                }
                seen.insert(identity, (point, counted));
            }
            last_unix_ns = seen.values().map(|(p, _)| p.time).max().unwrap();
        }
    }
}

/// Promise 22.
#[test]
fn a_histogram_that_begins_again_has_a_later_start() {
    let mut streams = Streams::default();
    let begin = Instant::now();
    let mut push = |seconds: u64, packets: u64| {
        let mut buckets = Buckets::default();
        buckets.add(30_000, packets);
        let flow = FlowTotals {
            total: buckets,
            ..FlowTotals::default()
        };
        let measured = MeasuredContainer {
            container: container(1, "web-1").container,
            counts: Counts::default(),
            flows: [((Direction::Egress, Class::Udp), flow)].into(),
        };
        let view = View {
            latency: Arc::new(LatencyView {
                containers: vec![measured],
                memory_bytes: 1,
                ..LatencyView::default()
            }),
            ..full(1)
        };
        let moment = Moment {
            wall: UNIX_EPOCH + Duration::from_secs(seconds),
            at: begin + Duration::from_secs(seconds),
        };
        let request = request(&view, "node-1", &mut streams, moment).expect("the latest");
        let points = points(&request).into_iter();
        let mut points = points.filter(|(i, _)| i.1 == "cofferdam.container_latency");
        points.next().expect("one").1
    };
    let (first, second, third) = (push(100, 5), push(110, 9), push(120, 2));
    assert_eq!((first.start, second.start), (first.start, first.start));
    assert_eq!(third.start, second.time);
}

/// Promise 22.
#[test]
fn a_request_of_an_older_view_is_not_made() {
    let mut streams = Streams::default();
    let (view, now) = (full(1), Moment::now());
    assert!(request(&view, "node-1", &mut streams, now).is_some());
    assert!(request(&view, "node-1", &mut streams, now).is_none());
}
