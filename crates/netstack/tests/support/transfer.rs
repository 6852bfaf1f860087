//! Transfer in both directions between two nodes, from open to close.

use super::app::Stream;
use super::at;
use super::world::World;
use cofferdam_netstack::*;
use std::time::Duration;

/// Opens a connection of `client` from node 0 to port 80 of node 1, which listens there.
pub fn dial(world: &mut World, client: &mut Stream, v6: bool) {
    world.nodes[1]
        .stack
        .listen(at(1, v6, 80), 8, 1)
        .expect("free");
    let connection = world.nodes[0]
        .stack
        .connect(world.now, None, at(1, v6, 80), 1)
        .expect("room");
    client.connection = Some(connection);
}

/// Sends in both directions over a wire and closes. Returns the world and both applications.
pub fn transfer(mut world: World, bytes: [u64; 2], piece: usize, v6: bool) -> (World, [Stream; 2]) {
    let mut client = Stream::new(bytes[0], piece, false);
    let mut server = Stream::new(bytes[1], piece, true);
    dial(&mut world, &mut client, v6);
    for _ in 0..3600 {
        world.run_for(Duration::from_secs(1), &mut [&mut client, &mut server]);
        if client.dead.is_some() && server.dead.is_some() {
            break;
        }
    }
    (world, [client, server])
}

/// Asserts that all data arrived, both sides closed, and no state is left.
pub fn assert_complete(world: &mut World, apps: &mut [Stream; 2]) {
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
