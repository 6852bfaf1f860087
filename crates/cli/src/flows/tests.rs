use super::text::page;
use super::*;
use cofferdam_flows::{Count, Flow, Reading};
use std::time::{Duration, SystemTime};

fn flow(port: u16, fragment: bool) -> Flow {
    Flow {
        protocol: 17,
        source: "10.0.0.1".parse().unwrap(),
        destination: "10.0.0.2".parse().unwrap(),
        ports: (port > 0).then_some((port, 53)),
        fragment,
    }
}

fn reading() -> Reading {
    let count = |packets, variance| Count {
        packets,
        bytes: packets * 100,
        most_too_many: 0,
        variance,
    };
    Reading {
        length: Duration::from_secs(5),
        flows: vec![
            (flow(4711, false), count(500_000, 1e8)),
            (flow(0, true), count(1000, 0.0)),
        ],
        total: count(502_000, 0.0),
        other: count(1000, 0.0),
        sampled: 2000,
        lost: 0,
        one_in: 256,
        cpu: Duration::ZERO,
        failed: None,
    }
}

fn subject() -> Subject {
    Subject {
        container: "we\u{1b}b".to_owned(),
        cgroup_id: 7,
        ns_per_packet: Some(1000.0),
        senders: [("10.0.0.1".parse().unwrap(), "loadgen".to_owned())].into(),
        ..Subject::default()
    }
}

#[test]
fn flows_are_listed_by_cost_with_their_error() {
    let record = document(&subject(), &reading(), SystemTime::UNIX_EPOCH);
    assert_eq!(record.flows[0].cost_ns, Some(5e8));
    assert_eq!(record.flows[0].packets_error, 19_600);
    let text = page(&record, None);
    assert!(
        text.starts_with("`we\\x1bb` receives 100k packets/s in 2 flows; 1 packet in 256 sampled"),
        "{text}"
    );
    let line = text
        .lines()
        .find(|l| l.starts_with("udp 10.0.0.1:4711 → 10.0.0.2:53"))
        .unwrap();
    for word in ["loadgen", "100k", "±4%", "10.0", "80.0"] {
        assert!(line.split_whitespace().any(|w| w == word), "{word}: {line}");
    }
    assert!(
        text.contains("\nudp fragments 10.0.0.1 → 10.0.0.2"),
        "{text}"
    );
    assert!(
        text.contains("packets × 1000 ns") && text.contains("Not IP: 200 packets/s"),
        "{text}"
    );
    for width in [20, 40, 80] {
        for line in lines(&record, width, 10) {
            assert!(crate::text::width(&line) <= width, "{width}: {line}");
        }
    }
}

/// Promise 15.
#[test]
fn a_silent_container_and_a_shared_namespace_are_mentioned() {
    let mut silent = reading();
    (silent.flows, silent.total, silent.other) = (Vec::new(), Count::default(), Count::default());
    silent.lost = 3;
    let mut pod = subject();
    (pod.ns_per_packet, pod.shared_with) = (None, vec!["side\ncar".to_owned()]);
    let text = page(&document(&pod, &silent, SystemTime::UNIX_EPOCH), None);
    assert!(text.contains("received no packet in 5.0 s"), "{text}");
    assert!(
        text.contains("there is no cost") && text.contains("3 packets of the sample were lost")
    );
    assert!(text.contains("Includes the packets of side car"), "{text}");
}

/// Promise 15.
#[test]
fn sockets_identify_the_packets_in_the_hosts_network() {
    let mut container = crate::fixture::container(1, "web");
    assert_eq!(packet_owner(&container), PacketOwner::Namespace);
    let all = [Arc::new(container.clone()), {
        let mut other = crate::fixture::container(2, "other");
        other.netns = container.netns;
        Arc::new(other)
    }];
    assert_eq!(neighbours(&container, &all), ["other"]);
    container.host_network = true;
    container.descendants = vec![CgroupId(9)];
    let cgroups = [CgroupId(1), CgroupId(9)].into();
    assert_eq!(packet_owner(&container), PacketOwner::Cgroups(cgroups));
    assert_eq!(neighbours(&container, &all), [""; 0]);
    let host = Subject {
        by_sockets: true,
        ..subject()
    };
    let text = page(&document(&host, &reading(), SystemTime::UNIX_EPOCH), None);
    assert!(
        text.contains("packets that its TCP and UDP sockets receive"),
        "{text}"
    );
}

/// Promise 15.
#[test]
fn a_container_without_a_process_is_refused_with_the_reason() {
    let mut container = crate::fixture::container(1, "web");
    container.netns = None;
    let line = open(&container).unwrap_err().line().unwrap();
    assert!(line.contains("has no process"), "{line}");
}
