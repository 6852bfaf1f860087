//! Two stacks exchange streams: under any faults of the wire the bytes arrive in order, and no
//! state is left.

mod support;

use cofferdam_netstack::*;
use proptest::prelude::*;
use std::time::Duration;
use support::app::Stream;
use support::faults::Faults;
use support::transfer::{assert_complete, dial, transfer};
use support::world::World;
use support::{at, config};

/// Promise 51.
/// Promise 56.
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
        // The other side of this transfer has no segmentation.
        assert!(world.nodes[0].cuts > 20, "{}", world.nodes[0].cuts);
        assert_eq!(world.nodes[1].cuts, 0);
    }
}

#[test]
fn an_empty_stream_opens_and_closes() {
    let (mut world, mut apps) = transfer(World::new(Faults::default(), 1), [0, 0], 1, false);
    assert_complete(&mut world, &mut apps);
}

/// Promise 56.
#[test]
fn loss_and_reordering_change_nothing_but_the_time() {
    for (seed, loss_pct, reorder_pct) in [(1, 1, 0), (2, 5, 10), (13, 20, 20), (4, 0, 50)] {
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
        let (mut world, mut apps) = transfer(world, [200_000, 100_000], 3000, seed == 13);
        assert_complete(&mut world, &mut apps);
        assert!(world.nodes[0].stack.counters().retransmits > 0 || loss_pct == 0);
    }
}

/// A timer that is no longer needed, for an acknowledgement or a retransmission, does not wake a
/// sleeping caller.
/// Promise 54.
#[test]
fn a_sleeping_caller_is_not_woken_for_old_data() {
    let mut world = World::new(Faults::default(), 3);
    let mut apps = [false, true].map(|server| Stream::new(2000, 100, server));
    let [client, server] = &mut apps;
    (client.close_after, server.close_after) = (u64::MAX, u64::MAX);
    dial(&mut world, client, false);
    world.run_for(Duration::from_millis(2), &mut [client, server]);
    assert_eq!(apps.each_ref().map(|app| app.acknowledged), [2000, 2000]);
    let stack = &mut world.nodes[1].stack;
    let second = world.now + Duration::from_secs(1);
    assert!(stack.poll_at() < Some(second), "poll_at may be early");
    // Only the neighbour's timer is left.
    assert!(stack.sleep_until() > Some(second));
    // A timer of the application does wake the caller.
    let at = world.now + Duration::from_millis(7);
    stack.set_timer(at, 1).expect("room");
    let until = stack.sleep_until().expect("armed").since(world.now);
    assert!((7000..7020).contains(&until.as_micros()), "{until:?}");
}

/// A flow group moves during a transfer, with data out of order, unread and unacknowledged; neither
/// side notices.
/// Promise 54.
#[test]
fn connections_continue_when_their_flow_group_moves() {
    let faults = Faults {
        loss_pct: 5,
        reorder_pct: 20,
        ..Faults::default()
    };
    let mut world = World::new(faults, 9);
    let mut client = Stream::new(1_500_000, 3000, false);
    let mut server = Stream::new(1_500_000, 3000, true);
    dial(&mut world, &mut client, false);
    let mut moves = 0;
    for turn in 0..10_000 {
        world.run_for(Duration::from_millis(1), &mut [&mut client, &mut server]);
        if client.dead.is_some() && server.dead.is_some() {
            break;
        }
        let old = client
            .connection
            .and_then(|id| world.nodes[0].stack.connection(id));
        if let (0, Some(info)) = (turn % 5, old) {
            let mut other = Stack::new(config(0), world.now).expect("settings that work");
            let number = usize::from(info.flow_group);
            assert_eq!(world.nodes[0].stack.groups()[number].connections, 1);
            let group = world.nodes[0].stack.take_group(info.flow_group);
            assert_eq!(group.len(), 1);
            assert_eq!(world.nodes[0].stack.groups()[number].connections, 0);
            assert_eq!(
                world.nodes[0].stack.usage().chunks,
                0,
                "the ranges went along"
            );
            let handles = other.put_group(world.now, group).expect("room");
            assert_eq!(other.groups()[number].connections, 1);
            assert_eq!(Some(handles[0].0), client.connection);
            client.connection = Some(handles[0].1);
            world.nodes[0].stack = other;
            moves += 1;
        }
    }
    assert!(moves > 5, "{moves}");
    let mut apps = [client, server];
    assert_complete(&mut world, &mut apps);
}

/// Promise 54.
#[test]
fn a_group_that_does_not_fit_is_returned() {
    let mut world = World::new(Faults::default(), 9);
    let (mut client, mut server) = (
        Stream::new(5_000_000, 5000, false),
        Stream::new(0, 10, true),
    );
    dial(&mut world, &mut client, false);
    world.run_for(Duration::from_millis(1), &mut [&mut client, &mut server]);
    let id = server.connection.expect("accepted");
    let group = world.nodes[1]
        .stack
        .connection(id)
        .expect("open")
        .flow_group;
    let taken = world.nodes[1].stack.take_group(group);
    assert_eq!(
        world.nodes[1].stack.sendv(world.now, id, &[]),
        Err(SendError::Gone),
        "the old handle is dead"
    );
    let mut small = config(1);
    small.limits.connections = 1;
    let mut full = Stack::new(small, world.now).expect("settings that work");
    full.connect(world.now, None, at(0, false, 9), 1)
        .expect("room");
    let taken = full.put_group(world.now, taken).expect_err("no room");
    assert_eq!(taken.len(), 1);
    let now = world.now;
    assert_eq!(
        world.nodes[1]
            .stack
            .put_group(now, taken)
            .map(|handles| handles.len())
            .ok(),
        Some(1)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Under any faults and with any settings the bytes arrive in order. After close and TIME_WAIT
    /// no state and no buffer is left.
    /// Promise 56.
    #[test]
    fn a_stream_arrives_unchanged_under_any_faults(
        seed in 1u64..1 << 40,
        faults in (0u32..25, 0u32..20, 0u32..10, 0u32..40, 10u64..50_000, 1u64..30_000),
        bytes in (0u64..120_000, 0u64..60_000),
        piece in 1usize..9000,
        switches in any::<[bool; 10]>(),
        windows in (2u32..200, 2u16..200),
        v6 in any::<bool>(),
    ) {
        let (loss_pct, duplicate_pct, corrupt_pct, reorder_pct, delay_us, jitter_us) = faults;
        let faults = Faults {
            loss_pct, duplicate_pct, corrupt_pct, reorder_pct,
            delay: Duration::from_micros(delay_us), jitter: Duration::from_micros(jitter_us),
            ..Faults::default()
        };
        let mut configs = [config(0), config(1)];
        for (side, settings) in configs.iter_mut().enumerate() {
            let tcp = &mut settings.tcp;
            tcp.sack = switches[side];
            tcp.timestamps = switches[2 + side];
            tcp.window_scaling = switches[4 + side];
            tcp.nagle = switches[6 + side];
            tcp.congestion = match switches[8 + side] {
                true => Congestion::NewReno,
                false => Congestion::Cubic,
            };
            tcp.receive_window_bytes = windows.0 * 2048;
            tcp.receive_buffers = windows.1;
            // With a quarter of the frames lost in both directions, fifteen consecutive losses do
            // happen.
            (tcp.data_retries, tcp.syn_retries, tcp.syn_ack_retries) = (60, 60, 60);
            tcp.max_rto = Duration::from_secs(2);
        }
        // The pieces are large enough for the number of ranges.
        let piece = piece.max(bytes.0.max(bytes.1) as usize / 1500);
        let world = World::with(faults, seed, configs);
        let (mut world, mut apps) = transfer(world, [bytes.0, bytes.1], piece, v6);
        assert_complete(&mut world, &mut apps);
    }
}
