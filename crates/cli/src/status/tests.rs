use super::*;
use cofferdam_records::diagnosis::CpuLossRecord;
use cofferdam_records::status::{
    AccountingStatusRecord, AgentRecord, ConfigurationRecord, DegradedRecord, MeansRecord,
    NetworkRecord, ReservationRecord, STATUS,
};
use cofferdam_types::Entitlement;

fn enforced() -> PolicyRecord {
    PolicyRecord {
        network_cpu: "enforce".into(),
        cpu: "strict".into(),
        cpus: Some(1.5),
    }
}

/// Status of an agent with one container in each state.
pub(crate) fn report() -> StatusReport {
    StatusReport {
        schema: STATUS.to_owned(),
        time: "2026-11-21T23:00:00.000Z".into(),
        agent: AgentRecord {
            version: "0.1.0".into(),
            pid: 42,
            unit: None,
            uptime_s: 200.0,
            metrics_address: Some("127.0.0.1:9477".into()),
            control_period_s: 0.1,
            last_step_s: 0.001,
            cpu_s: 1.0,
            resident_bytes: 10 << 20,
        },
        configuration: ConfigurationRecord {
            path: "/etc/cofferdam/cofferdam.toml".into(),
            from_file: true,
            loaded: "2026-11-21T22:00:00Z".into(),
            loads: 1,
            refusals: 0,
            refused: None,
            warnings: Vec::new(),
        },
        rules: vec![RuleRecord {
            line: Some(3),
            matches: "web-*".into(),
            policy: enforced(),
            containers: 1,
        }],
        containers: vec![ContainerRecord {
            name: "web-1".into(),
            cgroup_id: 5,
            cgroup_path: Some("/tenants/web-1".into()),
            policy: enforced(),
            network: Some(NetworkRecord {
                means: vec![
                    MeansRecord {
                        means: "napi_thread".into(),
                        in_force: true,
                        failed: false,
                        why: "its device has NAPI".into(),
                    },
                    MeansRecord {
                        means: "ingress_drop".into(),
                        in_force: false,
                        failed: false,
                        why: "not in debt".into(),
                    },
                ],
                debt_ns: 12_300_000,
                forgiven_ns: 0,
                charged_ns: 1,
                returned_ns: 0,
                dropped_rx_packets: 7,
                dropped_tx_packets: 1,
            }),
            reservation: Some(ReservationRecord {
                own_cpus: vec![2],
                slice_cpu: Some(3),
                slice_cpus: Some(0.5),
                lent_cpus: vec![2],
                lendings: 1,
                rewrites: 0,
            }),
            degraded: Vec::new(),
        }],
        diagnosis: Some(DiagnosisRecord {
            interval_s: 1.0,
            counted_s: None,
            containers: vec![CpuLossRecord {
                name: "web-1".into(),
                cgroup_id: 5,
                entitled_ns: 1_500_000_000,
                entitled_by: Entitlement::Reserved,
                got_ns: 900_000_000,
                forced_sharing_ns: 500_000_000,
                phantom_ns: 100_000_000,
                throttled_ns: 0,
                lack_ns: 0,
                neighbour: Some(NeighbourRecord::Container {
                    name: "db-1".into(),
                }),
            }],
            idle_ns: 0,
            left_idle_ns: 0,
            host_ns: 0,
            containers_without_slot: 0,
            mismatches: 0,
            segments_rejected: 0,
            shares: Vec::new(),
            by_cpu: Vec::new(),
        }),
        conditions: Vec::new(),
        harm: None,
        history: None,
        nri: None,
        accounting: Some(AccountingStatusRecord {
            mode: "sampled".into(),
            since: "2026-11-24T03:12:05.000Z".into(),
            why: "quiet".into(),
            window_s: 0.05,
            period_s: 1.0,
        }),
        containers_known: 9,
        degraded: Vec::new(),
        changes_in_force: 4,
        failed_changes: 0,
    }
}

#[test]
fn cpu_time_of_the_start_is_not_a_share() {
    let mut young = report();
    (young.agent.uptime_s, young.agent.cpu_s) = (0.4, 1.2);
    let text = text(&young, None);
    assert!(
        text.contains("1.20 s of CPU time since its start"),
        "{text}"
    );
    assert!(!text.contains("% of a CPU"), "{text}");
}

#[test]
fn the_screen_has_agent_rules_containers_and_means() {
    let text = text(&report(), None);
    for word in [
        "pid 42",
        "0.50% of a CPU",
        "10.0 MiB",
        "http://127.0.0.1:9477/metrics",
        "9 tracked",
        "ledger: sampled since 2026-11-24T03:12:05.000Z: no container is harmed and no \
         client watches, \
         estimated from 50ms in each 1s",
        "4 changes in force",
        "web-*",
        "napi_thread",
        "12.3 ms",
        "strict 1.5",
        "2 0.5 of 3 (1 lent)",
        "lost to others",
        "db-1",
        "All is in force.",
    ] {
        assert!(text.contains(word), "no '{word}' in:\n{text}");
    }
    assert!(
        text.contains("not in debt"),
        "each means has its reason: {text}"
    );
}

#[test]
fn a_problem_is_one_line_and_cannot_control_the_terminal() {
    let mut report = report();
    report.degraded.push(DegradedRecord {
        name: "metrics_address".into(),
        text: "port in use".into(),
    });
    report.containers[0].name = "evil\u{1b}[2J\nname".into();
    report.containers[0].degraded.push(DegradedRecord {
        name: "cpuset_refused".into(),
        text: "the runtime said no".into(),
    });
    let text = text(&report, Some(80));
    assert!(text.contains("  metrics_address: port in use\n"), "{text}");
    assert!(
        text.contains("cpuset_refused: the runtime said no\n"),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}') && !text.contains("All is in force"),
        "{text}"
    );
}

/// Promise 36.
#[test]
fn all_is_in_force_is_printed_only_if_true() {
    let mut failed = report();
    let network = failed.containers[0].network.as_mut().unwrap();
    network.means[1].failed = true;
    network.means[1].why = "Read-only file system".into();
    let shown = text(&failed, None);
    assert!(!shown.contains("All is in force"), "{shown}");
    assert!(
        shown.contains("ingress_drop_failed: Read-only file system"),
        "{shown}"
    );

    let mut waits = report();
    let network = waits.containers[0].network.as_mut().unwrap();
    for means in &mut network.means {
        means.in_force = false;
        means.why = "no container pays for it now".into();
    }
    let shown = text(&waits, None);
    assert!(!shown.contains("All is in force"), "{shown}");
    assert!(
        shown.contains("nothing: no container pays for it now"),
        "{shown}"
    );
    assert!(
        shown.contains("Everything needed now is in force."),
        "{shown}"
    );

    let mut unmatched = report();
    unmatched.rules[0].containers = 0;
    unmatched.containers.clear();
    let shown = text(&unmatched, None);
    assert!(!shown.contains("All is in force"), "{shown}");
    assert!(shown.contains("No container matches: web-*."), "{shown}");

    let mut nothing = report();
    nothing.rules.clear();
    nothing.containers.clear();
    assert!(text(&nothing, None).contains("No rule enforces or reserves"));
}

#[test]
fn a_report_survives_the_round_trip() {
    let report = report();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<StatusReport>(&text).unwrap(), report);
}
