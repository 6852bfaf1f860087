//! Choice of local ports by the stack.

use crate::NOW;
use crate::support::{config, ip};
use cofferdam_netstack::*;
use std::collections::HashSet;
use std::net::SocketAddr;

/// Number of ports for connections that specify none.
const PORTS: u32 = 16_384;
/// Number of ports that one part of a search examines.
const PART: u32 = 1000;

fn stack() -> Stack {
    let mut settings = config(0);
    settings.limits.connections = PORTS + 100;
    Stack::new(settings, NOW).expect("a stack")
}

fn remote(port: u16) -> SocketAddr {
    (ip(1, false), port).into()
}

fn local_port(stack: &Stack, connection: ConnectionId) -> u16 {
    let info = stack.connection(connection).expect("a connection");
    info.local.port()
}

/// Searches in parts. Returns the result and the number of parts.
fn search(stack: &mut Stack) -> (Result<ConnectionId, ConnectError>, u32) {
    let mut search = PortSearch::default();
    for parts in 1.. {
        search.most = PART;
        match stack.connect_by(NOW, remote(80), 0, &mut search) {
            Ok(None) => assert_eq!(search.most, 0, "it stopped early"),
            Ok(Some(connection)) => return (Ok(connection), parts),
            Err(error) => return (Err(error), parts),
        }
    }
    unreachable!("the loop has no end");
}

/// Promise 70.
#[test]
fn a_partial_search_finds_the_last_free_port() {
    let mut stack = stack();
    let all: Vec<ConnectionId> = (0..PORTS)
        .map(|_| stack.connect(NOW, None, remote(80), 0).expect("a port"))
        .collect();
    let ports: HashSet<u16> = all.iter().map(|one| local_port(&stack, *one)).collect();
    assert_eq!(ports.len() as u32, PORTS);
    let (outcome, parts) = search(&mut stack);
    assert_eq!(outcome, Err(ConnectError::InUse(remote(80))));
    assert_eq!(parts, PORTS.div_ceil(PART));
    // Another destination has its own order of ports.
    stack
        .connect(NOW, None, remote(81), 0)
        .expect("another order");
    for lost in [all[7], all[9000]] {
        let port = local_port(&stack, lost);
        stack.abort(NOW, lost).expect("it is there");
        while stack.poll_event().is_some() {}
        let (found, parts) = search(&mut stack);
        assert_eq!(local_port(&stack, found.expect("the free port")), port);
        assert!(parts <= PORTS.div_ceil(PART));
    }
}
