use super::table::{ALL, CONTAINER, Kind, Metric};
use super::*;
use crate::latency::{Buckets, FlowTotals, LatencyView, MeasuredContainer};
use crate::losses::LossView;
use crate::recorder::HistoryView;
use crate::view::Cost;
use cofferdam_latency::{Class, Counts, Direction, Miss};
use cofferdam_records::status::NriRecord;
use cofferdam_records::status::{
    AccountingStatusRecord, ConfigurationRecord, PolicyRecord, RuleRecord,
};
use cofferdam_types::{
    CgroupId, Container, ContainerLedger, ContainerStatus, CpuId, CpuLoss, CpuPolicy, CpuTime,
    DiagnosisHealth, EnforcementStatus, Health, Ledger, Means, MeansState, NetworkCpu,
    NetworkEnforcement, Policy, Reason, ReservationState, Runtime, ScheduleInterval, Snapshot,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const MS: u64 = 1_000_000;

pub(crate) fn container(id: u64, name: &str) -> ContainerLedger {
    ContainerLedger {
        container: Arc::new(Container {
            pod: Some("shop/front".into()),
            ..Container::plain(CgroupId(id), format!("/tenants/{id}"), name)
        }),
        ledger: Ledger {
            caused_rx_ns: id * 4 * MS,
            caused_tx_ns: 3 * MS,
            caused_hardirq_ns: 2 * MS,
            rx_packets: 5,
            rx_bytes: 500,
            tx_packets: 6,
            tx_bytes: 600,
            charged_network_ns: MS,
            charged_other_ns: MS,
            cpu_usage_ns: 9 * MS,
        },
        caused_by_cpu_ns: vec![1],
        charged_by_cpu_ns: vec![1],
        interruptions_by_cpu: vec![1],
        received_from: Default::default(),
    }
}

fn degraded(name: &str) -> Degradation {
    Degradation {
        name: name.into(),
        text: "words".into(),
    }
}

/// Latency view of one container whose packets took 30 µs each.
fn latency() -> LatencyView {
    let mut buckets = Buckets::default();
    buckets.add(30_000, 4);
    let flow = FlowTotals {
        total: buckets,
        added: buckets,
        stages_ns: [5_000; 6],
    };
    LatencyView {
        containers: vec![MeasuredContainer {
            container: container(1, "web-1").container,
            counts: Counts {
                packets: [[5; 4]; 2],
                reports: [[4; 4]; 2],
                misses: [[1; Miss::COUNT]; 2],
            },
            flows: BTreeMap::from([((Direction::Egress, Class::Udp), flow)]),
        }],
        not_measured: 1,
        reports_lost: 1,
        reports_rejected: 1,
        memory_bytes: 1,
    }
}

/// Cgroup of the host.
fn service(cgroup: u64) -> ContainerLedger {
    let mut entry = container(cgroup, "/ssh.service");
    entry.container = Arc::new(Container {
        runtime: Runtime::Host,
        ..(*entry.container).clone()
    });
    entry
}

/// View in which every metric has a value.
pub(crate) fn full(containers: u64) -> View {
    let time = CpuTime {
        softirq_ns: 9 * MS,
        network_softirq_ns: 8 * MS,
        hardirq_ns: 7 * MS,
        napi_thread_ns: 6 * MS,
        drain_ns: 5 * MS,
        attributed_ns: 4 * MS,
        charged_ns: 3 * MS,
        charged_nobody_ns: 2 * MS,
        charged_host_ns: MS,
        interruptions: 5,
    };
    let health = Health {
        containers_without_slot: 1,
        events_lost: 2,
        containers_gone: 3,
        cpu_hotplugs: 4,
        segments_rejected: 5,
        markers_missed: 6,
        softirqs_unseen: 7,
        cpu_usage_unreadable: 8,
    };
    let policy = Policy {
        network_cpu: NetworkCpu::Enforce,
        cpu: CpuPolicy::Strict("1.5".parse().unwrap()),
    };
    let status = ContainerStatus {
        cgroup: CgroupId(1),
        name: "web-1".into(),
        policy,
        network: Some(NetworkEnforcement {
            means: Means::ALL
                .iter()
                .map(|m| MeansState {
                    means: *m,
                    in_force: true,
                    failed: false,
                    why: String::new(),
                })
                .collect(),
            debt_ns: MS,
            forgiven_ns: MS,
            charged_ns: MS,
            returned_ns: MS,
            dropped_rx_packets: 1,
            dropped_tx_packets: 1,
        }),
        reservation: Some(ReservationState {
            own_cpus: vec![CpuId(2)],
            slice: Some((CpuId(3), 500)),
            lent_cpus: vec![CpuId(2)],
            lendings: 1,
            rewrites: 1,
        }),
        degraded: vec![degraded("cpuset_refused"), degraded("cpuset_refused")],
    };
    View {
        snapshot: Arc::new(Snapshot {
            time: SystemTime::now(),
            uptime: Duration::from_secs(1),
            cpus: vec![(CpuId(0), time)],
            containers: (1..=containers)
                .map(|i| container(i, "web-1"))
                .chain([service(containers + 1)])
                .collect(),
            unattributed_ns: Reason::ALL.iter().map(|r| (*r, MS)).collect(),
            health,
            sampling: None,
        }),
        enforcement: Arc::new(EnforcementStatus {
            containers: vec![status],
            degraded: vec![degraded("no_napi")],
            changes_in_force: 3,
            failed_changes: 1,
            last_step: Duration::from_millis(1),
        }),
        conditions: Vec::new(),
        recent: Arc::default(),
        losses: Arc::new(LossView {
            interval: Some(ScheduleInterval {
                length: Duration::from_secs(1),
                counted: Duration::from_secs(1),
                cpus: 1,
                idle_ns: 0,
                left_idle_ns: 0,
                host_ns: 0,
                containers: Vec::new(),
                shares: Vec::new(),
                unused: Vec::new(),
                health: DiagnosisHealth {
                    containers_without_slot: 1,
                    mismatches: 1,
                    segments_rejected: 1,
                },
            }),
            totals: HashMap::from([(
                CgroupId(1),
                CpuLoss {
                    entitled_ns: 10 * MS,
                    got_ns: 4 * MS,
                    forced_sharing_ns: 3 * MS,
                    phantom_ns: MS,
                    throttled_ns: MS,
                    lack_ns: MS,
                },
            )]),
        }),
        latency: Arc::new(latency()),
        nri: Some(NriRecord {
            socket: "/run/nri/nri.sock".into(),
            connected: true,
            runtime: Some("containerd".into()),
            version: Some("2".into()),
            sessions: 2,
            pods: 3,
            containers: 4,
            answers: 9,
            late_answers: 1,
            slowest_answer_s: 0.004,
            malformed: 1,
        }),
        history: HistoryView {
            bytes: 1,
            frames: 1,
            dropped: 1,
            delayed: 1,
            error: Some("full".into()),
            ..HistoryView::default()
        },
        rules: Arc::new(vec![RuleRecord {
            line: Some(1),
            matches: "x".into(),
            policy: PolicyRecord::new(&policy),
            containers: 0,
        }]),
        paths: Arc::default(),
        configuration: Arc::new(ConfigurationRecord {
            path: "/x".into(),
            from_file: true,
            loaded: String::new(),
            loads: 1,
            refusals: 1,
            refused: None,
            warnings: Vec::new(),
        }),
        accounting: AccountingStatusRecord {
            mode: "sampled".into(),
            since: String::new(),
            why: "quiet".into(),
            window_s: 0.05,
            period_s: 1.0,
        },
        degraded: vec![degraded("configuration_refused")],
        started: Instant::now().checked_sub(Duration::from_secs(5)).unwrap(),
        unit: None,
        control_period: Duration::from_millis(100),
        last_step: Duration::from_millis(1),
        steps: 1,
        failed_readings: 1,
        cost: Cost {
            cpu: Duration::from_secs(1),
            resident_bytes: 1,
        },
        sent: crate::otlp::PushCounts {
            requests: 3,
            failures: 1,
        },
        exported: 2,
    }
}

fn served(containers: u64) -> String {
    let traffic = Traffic {
        requests: 1,
        refused_requests: 1,
        refused_connections: 1,
        timeouts: 1,
        scrapes: 1,
    };
    text(&full(containers), &[degraded("metrics_address")], traffic)
}

/// Value of the first series of `metric`.
fn value(text: &str, metric: &Metric) -> Option<f64> {
    let name = match metric.kind {
        Kind::Histogram => metric.name() + "_sum",
        _ => metric.name(),
    };
    let line = text.lines().find(|l| {
        l.strip_prefix(name.as_str())
            .is_some_and(|r| r.starts_with(['{', ' ']))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Promise 22.
#[test]
fn every_metric_is_set_somewhere() {
    let text = served(3);
    for metric in ALL {
        let value = value(&text, metric);
        assert!(
            value.is_some_and(|v| v != 0.0),
            "{}: {value:?}",
            metric.name()
        );
    }
}

/// Promise 22.
#[test]
fn every_metric_is_documented_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, list) = page.split_once("\n## ").unwrap();
    // An item of the list on one line.
    let list = list.replace("\n  ", " ");
    let rows: HashSet<&str> = list
        .lines()
        .filter_map(|l| {
            l.strip_prefix("- `cofferdam_")
                .map(|_| &l[3..])?
                .split('`')
                .next()
        })
        .collect();
    let names: HashSet<String> = ALL.iter().map(|m| m.name()).collect();
    for metric in ALL {
        let name = metric.name();
        let row = list.lines().find(|l| l.starts_with(&format!("- `{name}`")));
        let row = row.unwrap_or_else(|| panic!("no row for {name}"));
        assert!(row.contains(metric.help), "{name}: another meaning");
        for label in metric.labels {
            assert!(
                row.contains(&format!("`{label}`")),
                "{name}: no label {label}"
            );
        }
    }
    for row in rows {
        assert!(names.contains(row), "{row} is documented and not served");
    }
}

/// Promise 22.
#[test]
fn the_text_is_openmetrics_and_no_series_comes_twice() {
    let text = served(3);
    assert!(text.ends_with("# EOF\n"));
    let (rest, families) = nom_openmetrics::parser::openmetrics(&text).unwrap();
    assert_eq!(rest, "");
    assert_eq!(families.len(), ALL.len());
    let mut seen = HashSet::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        assert!(seen.insert(series.to_owned()), "twice: {series}");
    }
}

/// Promise 9.
#[test]
fn a_path_that_two_containers_had_is_one_series() {
    let mut view = full(0);
    let at_path = |id: u64, usage_ns: u64| {
        let mut entry = container(id, "web-1");
        entry.container = Arc::new(Container {
            cgroup_path: "/tenants/web".into(),
            ..(*entry.container).clone()
        });
        entry.ledger.cpu_usage_ns = usage_ns;
        entry
    };
    // Containers that ended since the last reading come first.
    let mut snapshot = Snapshot::clone(&view.snapshot);
    snapshot.containers = vec![at_path(8, 900 * MS), at_path(9, 5 * MS)];
    view.snapshot = Arc::new(snapshot);
    let text = text(&view, &[], Traffic::default());
    let usage = text
        .lines()
        .filter(|l| l.starts_with("cofferdam_container_cpu_usage_seconds_total{"));
    let values: Vec<&str> = usage.filter_map(|l| l.rsplit(' ').next()).collect();
    assert_eq!(values, ["0.005"]);
}

/// Promise 22.
#[test]
fn names_keep_to_the_conventions() {
    let mut names = HashSet::new();
    for metric in ALL {
        let name = metric.name();
        assert!(names.insert(name.clone()), "{name} twice");
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b))
        );
        assert!(
            ["", "seconds", "bytes", "ratio"].contains(&metric.unit),
            "{name}"
        );
        assert_eq!(
            name.ends_with("_total"),
            metric.kind == Kind::Counter,
            "{name}"
        );
        let first = metric.labels.iter().take(3).copied();
        if metric.labels.contains(&"container") {
            assert!(first.eq(CONTAINER.iter().copied()), "{name}");
        }
    }
}

/// Promise 22.
#[test]
fn containers_beyond_the_limit_are_counted_and_the_enforced_stay() {
    let text = served(100);
    let not = table::ALL
        .iter()
        .find(|m| m.stem == "containers_not_exported")
        .unwrap();
    // The cgroup of the host is left out too, although it causes even more.
    assert_eq!(value(&text, not), Some(99.0));
    // The one that caused most among the others stays.
    let exported: HashSet<&str> = text
        .lines()
        .filter(|l| l.starts_with("cofferdam_container_owed_seconds{"))
        .filter_map(|l| l.split("cgroup=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(exported, HashSet::from(["/tenants/1", "/tenants/100"]));
}

/// Promise 22.
#[test]
fn histograms_are_cumulative_and_end_in_infinity() {
    let text = served(1);
    let of = |part: &str| -> Vec<f64> {
        let start = format!("cofferdam_container_latency_seconds_{part}{{");
        text.lines()
            .filter(|l| l.starts_with(&start))
            .filter_map(|l| l.rsplit(' ').next()?.parse().ok())
            .collect()
    };
    // 30 µs is above 20 µs, the third bound, and below 50 µs.
    let mut expected = vec![0.0; 3];
    expected.extend([4.0; 10]);
    assert_eq!(of("bucket"), expected);
    assert_eq!(of("count"), [4.0]);
    assert_eq!(of("sum"), [0.000_12]);
    assert!(text.contains("le=\"+Inf\""));
}

#[test]
fn a_name_cannot_break_the_text() {
    let mut view = full(1);
    let mut snapshot = Snapshot::clone(&view.snapshot);
    snapshot.containers[0] = container(1, "a\"b\\c\nd 1\n# EOF");
    view.snapshot = Arc::new(snapshot);
    let text = text(&view, &[], Traffic::default());
    assert_eq!(text.matches("\n# EOF\n").count(), 1);
    let (rest, _) = nom_openmetrics::parser::openmetrics(&text).unwrap();
    assert_eq!(rest, "");
}
