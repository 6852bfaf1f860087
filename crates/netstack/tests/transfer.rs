//! Two stacks talk: whatever the wire does, bytes in are bytes out, in order, and nothing is left.

mod support;

use cofferdam_netstack::*;
use std::time::Duration;
use support::app::Stream;
use support::faults::Faults;
use support::world::World;
use support::{at, config};

/// Sends both ways over a wire and closes; the world and both applications afterwards.
fn transfer(mut world: World, bytes: [u64; 2], piece: usize, v6: bool) -> (World, [Stream; 2]) {
    let mut client = Stream::new(bytes[0], piece, false);
    let mut server = Stream::new(bytes[1], piece, true);
    world.nodes[1]
        .stack
        .listen(at(1, v6, 80), 8, 1)
        .expect("free");
    let connection = world.nodes[0]
        .stack
        .connect(world.now, None, at(1, v6, 80), 1)
        .expect("room");
    client.connection = Some(connection);
    for _ in 0..3600 {
        world.run_for(Duration::from_secs(1), &mut [&mut client, &mut server]);
        if client.dead.is_some() && server.dead.is_some() {
            break;
        }
    }
    (world, [client, server])
}

fn assert_complete(world: &mut World, apps: &mut [Stream; 2]) {
    for side in 0..2 {
        assert_eq!(
            apps[side].dead.map(|dead| dead.1),
            Some(DeadReason::Closed),
            "side {side}: {:?}",
            apps[side]
        );
        assert_eq!(
            (apps[side].acknowledged, apps[side].received),
            (apps[side].total, apps[1 - side].total)
        );
    }
    let [client, server] = apps;
    world.run_for(Duration::from_secs(61), &mut [client, server]);
    world.assert_empty();
}

#[test]
fn a_stream_arrives_whole_and_both_sides_close() {
    for v6 in [false, true] {
        let world = World::new(Faults::default(), 1);
        let (mut world, mut apps) = transfer(world, [1_000_000, 300_000], 5000, v6);
        assert_complete(&mut world, &mut apps);
        let counters = world.nodes[0].stack.counters();
        assert_eq!(
            (
                counters.retransmits,
                counters.malformed,
                counters.bad_checksum
            ),
            (0, 0, 0)
        );
        assert_eq!(world.nodes[1].stack.counters().accepted, 1);
    }
}

#[test]
fn nothing_to_send_opens_and_closes() {
    let (mut world, mut apps) = transfer(World::new(Faults::default(), 1), [0, 0], 1, false);
    assert_complete(&mut world, &mut apps);
}

#[test]
fn loss_and_reordering_change_nothing_but_the_time() {
    for (seed, loss_pct, reorder_pct) in [(1, 1, 0), (2, 5, 10), (3, 20, 20), (4, 0, 50)] {
        let faults = Faults {
            loss_pct,
            reorder_pct,
            duplicate_pct: 5,
            corrupt_pct: 2,
            ..Faults::default()
        };
        let mut configs = [config(0), config(1)];
        configs[0].tcp.congestion = if seed % 2 == 0 {
            Congestion::NewReno
        } else {
            Congestion::Cubic
        };
        configs[1].tcp.sack = seed < 3;
        let world = World::with(faults, seed, configs);
        let (mut world, mut apps) = transfer(world, [200_000, 100_000], 3000, seed == 3);
        assert_complete(&mut world, &mut apps);
        assert!(world.nodes[0].stack.counters().retransmits > 0 || loss_pct == 0);
    }
}
