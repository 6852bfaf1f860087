//! The details of one container.

use super::*;
use crate::top::inspection::{AgentPart, Flows, Inspection, Process, Processes};
use cofferdam_records::flows::{FlowRecord, FlowsRecord};
use cofferdam_records::status::{
    ContainerRecord, MeansRecord, NetworkRecord, PolicyRecord, ReservationRecord,
};
use proptest::prelude::*;

/// Details of `web-3` with every possible content.
fn detailed() -> State {
    let mut state = State::new(SECOND, Selection::default());
    state.agent = Some(Agent::NotRunning(Start::Service));
    for _ in 0..70 {
        state.take(busy(), None);
    }
    state.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
    let flow = |port| FlowRecord {
        protocol: "udp".to_owned(),
        source: "10.0.0.7".to_owned(),
        source_port: Some(port),
        destination: "10.0.0.2".to_owned(),
        destination_port: Some(9000),
        fragments: false,
        sender: Some("cache".to_owned()),
        packets: 650_000,
        packets_error: 13_000,
        packets_at_most_too_many: 0,
        bytes: 65_000_000,
        cost_ns: Some(4e8),
    };
    state.inspection = Some(Inspection {
        processes: Ok(Processes {
            shown: (0..60)
                .map(|i| Process {
                    pid: 4000 + i,
                    command: format!("nginx: worker {i}"),
                    cpu_pct: Some(f64::from(i)),
                    threads: 4,
                })
                .collect(),
            more: true,
        }),
        agent: AgentPart::By(Box::new(managed())),
        flows: Flows::On(Box::new(FlowsRecord {
            schema: String::new(),
            time: String::new(),
            interval_s: 1.0,
            container: "web-3".to_owned(),
            cgroup_id: 12,
            shared_with: Vec::new(),
            by_sockets: false,
            ns_per_packet: Some(614.0),
            sampled_one_in: 256,
            sampled_packets: 2600,
            lost_packets: 0,
            packets: 660_000,
            other_packets: 0,
            flows_seen: 60,
            flows: (0..60).map(flow).collect(),
        })),
    });
    state
}

fn managed() -> ContainerRecord {
    ContainerRecord {
        name: "web-3".to_owned(),
        cgroup_id: 12,
        cgroup_path: None,
        policy: PolicyRecord {
            network_cpu: "enforce".to_owned(),
            cpu: "strict".to_owned(),
            cpus: Some(1.5),
        },
        network: Some(NetworkRecord {
            means: vec![MeansRecord {
                means: "napi_thread".to_owned(),
                in_force: true,
                failed: false,
                why: String::new(),
            }],
            debt_ns: 1_200_000_000,
            forgiven_ns: 0,
            charged_ns: 9_000_000_000,
            returned_ns: 0,
            dropped_rx_packets: 77,
            dropped_tx_packets: 0,
        }),
        reservation: Some(ReservationRecord {
            own_cpus: vec![1],
            slice_cpu: Some(0),
            slice_cpus: Some(0.5),
            lent_cpus: vec![1],
            lendings: 3,
            rewrites: 0,
        }),
        degraded: Vec::new(),
    }
}

/// Promise 13.
#[test]
fn details_show_past_harm_senders_agent_processes_and_flows() {
    let mut state = detailed();
    for (width, height) in [(120, 120), (200, 90), (80, 140)] {
        let text = screen(&state, width, height).join("\n");
        for words in [
            "web-3",
            "plain · cgroup /tenants/web-3",
            "owed +33.0%",
            "700k/s received",
            "max   43.0%",
            "packets/s",
            "harms      db-1 31.0%",
            "harmed by  nobody",
            "cache 650k/s",
            "a container that is gone 10/s",
            "network CPU: enforce · CPU: strict",
            "napi_thread in force",
            "debt 1.2 s",
            "CPUs of its own: 1 · 0.5 of CPU 0 · lent now: 1",
            "nginx: worker 0",
            "10 and more",
            "1 packet in 256 sampled",
            "udp 10.0.0.7:0 → 10.0.0.2:9000 (cache)",
        ] {
            assert!(text.contains(words), "{width}: {words}:\n{text}");
        }
    }
    // The loss is that of the victim.
    state.view = View::Details(11);
    let text = screen(&state, 120, 60).join("\n");
    for words in [
        "db-1 got 0.62 of 1.00 CPUs",
        "lost",
        "31.0%",
        "harmed by  web-3 31.0%",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    state.view = View::Details(4711);
    assert!(
        screen(&state, 80, 24)
            .join(" ")
            .contains("This container is gone")
    );
    // A replay has neither processes nor flows, and the screen says that.
    state.view = View::Details(12);
    (state.agent, state.inspection) = (None, None);
    let text = screen(&state, 80, 40).join("\n");
    assert!(text.contains("The past has no processes"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Promise 13.
    #[test]
    fn no_size_of_the_details_panics(
        width in 0_u16..220,
        height in 0_u16..70,
        scroll in 0_usize..200,
    ) {
        let mut state = detailed();
        state.scroll = scroll;
        screen(&state, width, height);
    }
}
