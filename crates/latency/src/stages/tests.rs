use super::*;
use cofferdam_bpf::latency::End;
use cofferdam_types::NetnsId;
use proptest::prelude::*;
use std::net::Ipv4Addr;

/// A UDP report with these points.
pub fn report(direction: Direction, points_ns: [Option<u32>; 5]) -> Report {
    Report {
        base_ns: 1_000_000,
        points_ns,
        row: 1,
        netns: NetnsId(7),
        ordinal: 1,
        bytes: 92,
        payload_bytes: 64,
        sequence: 0,
        container_ifindex: Some(2),
        host_ifindex: 3,
        cookie: Some(9),
        hardware_ns: None,
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(10, 0, 0, 2).into(),
        source_port: 4000,
        destination_port: 9000,
        segments: 1,
        direction,
        protocol: 17,
        end: End::Device,
        retransmit: false,
        encapsulated: false,
        fragment: false,
        merged: false,
    }
}

/// Promise 19.
#[test]
fn egress_has_its_five_stages() {
    let points = [Some(10), Some(11), Some(31), Some(71), Some(76)];
    let stages = Stages::of(&report(Direction::Egress, points));
    assert_eq!(
        stages.parts_ns,
        [
            (Stage::Stack, 10),
            (Stage::ContainerQdisc, 1),
            (Stage::Veth, 20),
            (Stage::Forward, 40),
            (Stage::HostQdisc, 5)
        ]
    );
    assert_eq!((stages.total_ns, stages.added_ns), (76, Some(61)));
}

#[test]
fn a_start_at_the_queue_has_no_stack_stage() {
    let points = [Some(0), Some(1), Some(3), Some(5), Some(8)];
    let stages = Stages::of(&report(Direction::Egress, points));
    assert_eq!(stages.parts_ns[0], (Stage::ContainerQdisc, 1));
    assert_eq!(stages.total_ns, 8);
}

#[test]
fn ingress_that_no_device_stamped_has_no_added_part() {
    let points = [None, None, None, Some(40), Some(90)];
    let stages = Stages::of(&report(Direction::Ingress, points));
    assert_eq!(stages.parts_ns, [(Stage::Stack, 40), (Stage::Reader, 50)]);
    assert_eq!((stages.total_ns, stages.added_ns), (90, None));
}

proptest! {
    /// Promise 19.
    #[test]
    fn the_stages_add_up(
        steps in proptest::array::uniform5(proptest::option::of(0u32..1_000_000)),
        out in any::<bool>(),
    ) {
        let mut at = 0;
        let points = steps.map(|step| step.map(|s| { at += s; at }));
        let direction = if out { Direction::Egress } else { Direction::Ingress };
        let stages = Stages::of(&report(direction, points));
        prop_assert_eq!(stages.parts_ns.iter().map(|(_, ns)| ns).sum::<u32>(), stages.total_ns);
        prop_assert!(stages.added_ns.unwrap_or(0) <= stages.total_ns);
    }
}
