//! A flow group without room at its new core.

use super::*;

/// 24 connections move to a core with room for 20.
/// Promise 54.
#[test]
fn connections_beyond_the_new_cores_room_end_and_are_counted() {
    cofferdam_lab::fixtures::time_limit(std::time::Duration::from_secs(60), || {
        let room = Room {
            connections: Some(20),
            ..Room::default()
        };
        let mut world = World::new(5, room);
        world.run_until_all_stream();
        world.streams.application.most_lost = 24;
        for group in world.groups() {
            if world.hub.owner(group) != 1 {
                assert!(world.hub.order(1, Order::Fetch(group)));
                world.run_until("the move", |w| w.hub.owner(group) == 1);
            }
        }
        let sum = world.sum();
        let lost = sum.connections_lost;
        // The last group may have been larger than the remaining room.
        assert!((4..24).contains(&lost), "{lost}");
        assert_eq!(sum.applications[0].connections as u64, 24 - lost);
        world.streams.application.most_lost = lost;
        let of = |streams: &Streams| -> Map<u64, usize> {
            let open = streams.open.values();
            open.map(|(number, _, received)| (*number, *received))
                .collect()
        };
        let before = of(&world.streams.application);
        world.run_until("the others' data", |w| {
            let now = of(&w.streams.application);
            let goes_on = now.iter().filter(|(n, r)| **r > before[*n] + 50_000);
            goes_on.count() as u64 == 24 - lost
        });
        world.end_streams();
        world.run_until("the others' ends", |w| {
            w.streams.application.ended == 24 - lost
        });
        // Connections that have sent data know already; a FIN is answered as well.
        let EventLoop {
            session,
            application,
        } = &mut world.streams;
        for connection in application.open.keys() {
            session.close(*connection);
        }
        world.run_until("the lost ones' ends", |w| {
            w.streams.application.open.is_empty()
        });
        assert_eq!(world.streams.application.lost, lost);
        assert_eq!(world.nothing_is_left().connections_lost, lost);
    });
}
