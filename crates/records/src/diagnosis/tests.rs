use super::*;

fn container(id: u64, name: &str) -> Arc<Container> {
    Arc::new(Container::plain(CgroupId(id), format!("/{name}"), name))
}

fn diagnosed(id: u64, name: &str, neighbour: Option<Neighbour>) -> DiagnosedContainer {
    DiagnosedContainer {
        container: container(id, name),
        loss: CpuLoss {
            entitled_ns: 10,
            got_ns: 4,
            forced_sharing_ns: 3,
            phantom_ns: 1,
            throttled_ns: 1,
            lack_ns: 1,
        },
        entitlement: Entitlement::Quota,
        time: ScheduleTime {
            run_ns: 4,
            ..ScheduleTime::default()
        },
        neighbour,
    }
}

fn share(victim: u64, neighbour: Option<CgroupId>) -> LossShare {
    LossShare {
        victim: CgroupId(victim),
        neighbour,
        cpu: CpuId(7),
        ns: 2,
    }
}

fn interval() -> ScheduleInterval {
    ScheduleInterval {
        length: Duration::from_millis(1500),
        counted: Duration::from_millis(300),
        cpus: 0,
        idle_ns: 5,
        left_idle_ns: 4,
        host_ns: 3,
        containers: vec![
            diagnosed(1, "web", Some(Neighbour::Host)),
            diagnosed(2, "db", Some(Neighbour::Container("host".to_owned()))),
            diagnosed(3, "host", None),
        ],
        shares: vec![share(1, None), share(2, Some(CgroupId(3)))],
        unused: vec![UnusedTime {
            cpu: CpuId(7),
            idle_ns: 1,
            host_ns: 2,
        }],
        health: DiagnosisHealth {
            containers_without_slot: 2,
            mismatches: 1,
            segments_rejected: 6,
        },
    }
}

/// A container named `host` is not confused with the host.
/// Promise 12.
#[test]
fn an_interval_survives_json() {
    let interval = interval();
    let containers: Vec<_> = interval
        .containers
        .iter()
        .map(|c| c.container.clone())
        .collect();
    let record = DiagnosisRecord::new(&interval, &interval.containers);
    let text = serde_json::to_string(&record).unwrap();
    assert!(text.contains(r#""entitled_by":"quota""#), "{text}");
    assert!(text.contains(r#""neighbour":{"kind":"host"}"#), "{text}");
    assert!(
        text.contains(r#""neighbour":{"kind":"container","name":"host"}"#),
        "{text}"
    );
    let parsed: DiagnosisRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed, record);
    assert_eq!(parsed.interval(&containers), interval);
}

#[test]
fn an_untracked_container_is_left_out() {
    let record = DiagnosisRecord::new(&interval(), &interval().containers);
    let one = record.interval(&[container(2, "db")]);
    assert_eq!(one.containers.len(), 1);
    assert_eq!(one.containers[0].container.name, "db");
}
