//! Memory of connections whose peers acknowledge nothing.

use super::sends::{LIMIT, at, make_calls, node_with, read_conditions};
use super::*;
use crate::abi::Condition;
use crate::session::{Connection, Event, Session};
use std::collections::HashMap;
use std::time::Instant;

/// Connections that one of two applications may have.
const CONNECTIONS: usize = 48;
/// Data that a server sends on each connection.
static PAGE: [u8; 200_000] = [7; 200_000];
/// Bytes that each connection must get.
const FLOOR: usize = 2048;

/// A session with connections to a dataplane that has accepted them and then stops.
fn session(area_bytes: u32) -> (Engine<Pipe>, Engine<Pipe>, Session, Vec<Connection>) {
    let (one, other) = pipe(1500).expect("a pipe");
    let (mut engine, mut peer) = (node_with(one, 0, area_bytes), node_with(other, 1, 1 << 20));
    let mut server = attach(&mut peer, "server");
    make_calls(
        &mut server,
        [Call::Listen {
            local: at(1),
            backlog: 64,
            cookie: 0,
            sharing: Sharing::default(),
        }],
    );
    let mut session = Session::new(attach(&mut engine, "client"), None);
    for _ in 0..CONNECTIONS {
        session.connect(at(1));
    }
    session.flush();
    let (mut open, until) = (Vec::new(), Instant::now() + LIMIT);
    while open.len() < CONNECTIONS {
        assert!(Instant::now() < until, "{} are open", open.len());
        turns(&mut engine, 1);
        turns(&mut peer, 1);
        for condition in read_conditions(&mut server) {
            if let Condition::Knock { handle, .. } = condition {
                make_calls(&mut server, [Call::Accept { handle, cookie: 0 }]);
            }
        }
        while let Some(event) = session.next_event() {
            if let Event::Connected { connection, .. } = event {
                open.push(connection);
            }
        }
    }
    (engine, peer, session, open)
}

/// 66 such peers took all of 16 MiB, so that no other peer was served.
/// Promise 70.
#[test]
fn peers_that_acknowledge_nothing_leave_each_connection_its_minimum() {
    let (mut engine, _peer, mut session, open) = session(1 << 20);
    for connection in open {
        let sent = session.send(connection, &PAGE);
        assert!(sent >= FLOOR, "{sent} bytes");
        session.flush();
        turns(&mut engine, 1);
    }
}

/// Promise 70.
#[test]
fn connections_without_progress_are_reset_for_others_memory() {
    // The memory is enough for the minimum of half of the connections.
    let (mut engine, _peer, mut session, open) = session(64 << 10);
    let mut sent: HashMap<Connection, usize> = HashMap::new();
    for connection in &open {
        let bytes = session.send(*connection, &PAGE);
        sent.insert(*connection, bytes);
    }
    let without = sent.values().filter(|bytes| **bytes == 0).count();
    assert!(without > CONNECTIONS / 3, "{without} have no memory");
    let (mut reset, until) = (0, Instant::now() + LIMIT);
    while sent.values().any(|bytes| *bytes == 0) {
        assert!(Instant::now() < until, "{reset} were reset: {sent:?}");
        session.flush();
        turns(&mut engine, 1);
        while let Some(event) = session.next_event() {
            match event {
                Event::Sent { connection, .. } => {
                    let bytes = session.send(connection, &PAGE);
                    *sent.entry(connection).or_default() += bytes;
                }
                Event::Dead { connection, .. } => {
                    assert!(sent[&connection] > 0, "it held nothing");
                    reset += 1;
                }
                _ => {}
            }
        }
    }
    assert!(
        reset >= without / 2 && reset < CONNECTIONS,
        "{reset} of {CONNECTIONS}"
    );
}
