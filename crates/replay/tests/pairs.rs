//! Tests of senders and receivers: each packet that one container sends to another is counted once,
//! for that pair, whatever comes between.

mod common;

use cofferdam_bpf::Counts;
use cofferdam_replay::{Interrupt, Machine, PacketSpec, softirq};
use common::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

const RX: u32 = softirq::NET_RX;

/// Number of packets by sender and receiver.
fn pairs(machine: &Machine) -> BTreeMap<(u32, u32), u64> {
    let pairs = machine.pairs().expect("readable");
    (pairs.into_iter())
        .map(|pair| ((pair.sender, pair.receiver), pair.packets))
        .collect()
}

/// Forwards a packet of A or B from its veth to the other's, over the bridge or directly, or to the
/// card.
fn forward(scene: &Scene<'_>, sender: u32, receiver: Option<u32>, by_bridge: bool, segments: u16) {
    let (machine, veth) = (scene.machine, |row| {
        [scene.veth_a, scene.veth_b][(row - A) as usize]
    });
    let large = |p: &mut PacketSpec<'_>| p.segments = segments;
    machine.netif_receive_skb(scene.packet_with(veth(sender), large));
    machine.pass(100);
    if by_bridge {
        machine.net_dev_queue(scene.packet_with(scene.bridge, large));
    }
    let to = receiver.map_or(scene.card, veth);
    machine.net_dev_queue(scene.packet_with(to, large));
    machine.pass(100);
}

/// Promise 3.
#[test]
fn a_packet_counts_for_the_pair_of_its_interfaces() {
    let machine = Machine::new(2);
    let scene = Scene::new(&machine);
    for cpu in 0..2 {
        machine.on(cpu);
        machine.softirq_entry(RX);
        forward(&scene, A, Some(B), false, 0);
        forward(&scene, A, Some(B), true, 10); // a super-packet of ten
        forward(&scene, B, Some(A), false, 0);
        forward(&scene, A, None, false, 0); // to the outside: no pair
        forward(&scene, A, Some(A), false, 0); // to itself: none either
        // From outside: its owner is B, and no container of this host sent it.
        scene.receive(scene.card, 100);
        machine.net_dev_queue(scene.packet(scene.veth_b));
        machine.napi_poll();
        machine.softirq_exit(RX);
        assert_at_rest(&machine);
    }
    assert_eq!(pairs(&machine), [((A, B), 22), ((B, A), 2)].into());
}

/// Packets sent in process context are counted when the softirq that they raise takes them out of
/// the sender's interface, and not before.
#[test]
fn a_sent_packet_is_counted_when_it_is_received() {
    let machine = Machine::new(1);
    let scene = Scene::new(&machine);
    machine.run_as(cgroup_of(A));
    machine.net_dev_queue(scene.packet(scene.in_a));
    assert_eq!(pairs(&machine), BTreeMap::new());
    machine.softirq_entry(RX);
    forward(&scene, A, Some(B), false, 0);
    machine.softirq_exit(RX);
    assert_eq!(pairs(&machine), [((A, B), 1)].into());
}

/// Possible next event in a softirq.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Packet from the card for B.
    Receive,
    Poll,
    /// Packet of `sender`, to the card without a receiver.
    Forward {
        sender: u32,
        receiver: Option<u32>,
        by_bridge: bool,
        segments: u16,
    },
    Interrupt(Interrupt),
}

fn step() -> impl Strategy<Value = Step> {
    let row = A..=B;
    let forward = (
        row.clone(),
        prop::option::weighted(0.75, row),
        any::<bool>(),
        (0..3_u16).prop_map(|n| n * 4),
    );
    let interrupt = (0..6_u32, any::<bool>()).prop_map(|(after, network)| Interrupt {
        after,
        ns: 50,
        network,
    });
    prop_oneof![
        1 => Just(Step::Receive),
        1 => Just(Step::Poll),
        3 => forward.prop_map(|(sender, receiver, by_bridge, segments)| Step::Forward {
            sender,
            receiver,
            by_bridge,
            segments,
        }),
        1 => interrupt.prop_map(Step::Interrupt),
    ]
}

/// Softirqs, each with its CPU.
fn history() -> impl Strategy<Value = Vec<(u32, Vec<Step>)>> {
    prop::collection::vec((0..2_u32, prop::collection::vec(step(), 0..40)), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        // Use equal sequences in each run.
        rng_seed: RngSeed::Fixed(4),
        ..ProptestConfig::default()
    })]

    /// With interrupts at random places, no packet is lost and none invented.
    /// Promise 3.
    #[test]
    fn pairs_are_exact_over_thousands_of_histories(history in history()) {
        let machine = Machine::new(2);
        let scene = Scene::new(&machine);
        let mut expected: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (cpu, steps) in history {
            machine.on(cpu);
            machine.softirq_entry(RX);
            for step in steps {
                match step {
                    Step::Receive => scene.receive(scene.in_b, 100),
                    Step::Poll => machine.napi_poll(),
                    Step::Interrupt(interrupt) => machine.interrupt(Some(interrupt)),
                    Step::Forward { sender, receiver, by_bridge, segments } => {
                        forward(&scene, sender, receiver, by_bridge, segments);
                        if let Some(receiver) = receiver.filter(|to| *to != sender) {
                            let packets = u64::from(segments.max(1));
                            *expected.entry((sender, receiver)).or_default() += packets;
                        }
                    }
                }
            }
            machine.interrupt(None);
            machine.softirq_exit(RX);
        }
        prop_assert_eq!(pairs(&machine), expected);
    }
}
