//! An address that several sessions of one application share.

use super::sends::{LIMIT, Pair, at, connect, make_calls, read_conditions};
use super::*;
use crate::abi::{Condition, Refusal};
use std::time::Instant;

const GROUP: u64 = 7;

fn listen(group: u64, is_standby: bool) -> Call {
    Call::Listen {
        local: at(0),
        backlog: 64,
        cookie: 0,
        sharing: Sharing { group, is_standby },
    }
}

/// Makes a session listen. Returns the dataplane's answer.
fn answer(pair: &mut Pair, session: &mut MappedChannel, call: Call) -> Result<u64, Refusal> {
    make_calls(session, [call]);
    turns(&mut pair.engine, 1);
    let found = read_conditions(session)
        .into_iter()
        .find_map(|condition| match condition {
            Condition::Bound { result, .. } => Some(result),
            _ => None,
        });
    found.expect("an answer")
}

/// Makes the peer connect `count` times. Returns the number of knocks of each session.
fn knocks(pair: &mut Pair, sessions: &mut [&mut MappedChannel], count: usize) -> Vec<usize> {
    make_calls(&mut pair.server, vec![connect(0); count]);
    let (mut knocks, until) = (vec![0; sessions.len()], Instant::now() + LIMIT);
    while knocks.iter().sum::<usize>() < count {
        assert!(Instant::now() < until, "{knocks:?}");
        pair.turns();
        for (session, knocks) in sessions.iter_mut().zip(&mut knocks) {
            for condition in read_conditions(session) {
                if let Condition::Knock { handle, .. } = condition {
                    *knocks += 1;
                    make_calls(session, [Call::Accept { handle, cookie: 0 }]);
                }
            }
        }
    }
    knocks
}

/// Promise 54.
#[test]
fn sessions_of_a_group_get_connections_in_turn() {
    let mut pair = Pair::new();
    let session = |pair: &mut Pair| attach_as(&mut pair.engine, 0, "web");
    let mut first = session(&mut pair);
    assert!(answer(&mut pair, &mut first, listen(GROUP, true)).is_ok());
    assert_eq!(knocks(&mut pair, &mut [&mut first], 3), [3], "it is alone");

    let (mut second, mut third) = (session(&mut pair), session(&mut pair));
    let bound = answer(&mut pair, &mut second, listen(GROUP, false)).expect("an address");
    assert!(answer(&mut pair, &mut third, listen(GROUP, false)).is_ok());
    let mut all = [&mut first, &mut second, &mut third];
    assert_eq!(knocks(&mut pair, &mut all, 10), [0, 5, 5]);

    // One session releases the address; the others keep it.
    make_calls(&mut second, [Call::Unbind { handle: bound }]);
    let mut all = [&mut first, &mut second, &mut third];
    assert_eq!(knocks(&mut pair, &mut all, 4), [0, 0, 4]);

    // The first listener ends, and then the last one: nobody listens any more.
    for (ended, mut session) in (1..).zip([first, third]) {
        session.first().push(Entry {
            kind: 999,
            ..Entry::default()
        });
        session.first().publish();
        let until = Instant::now() + LIMIT;
        while pair.engine.tally().ended < ended {
            assert!(Instant::now() < until, "it does not end");
            pair.turns();
        }
        let again = answer(&mut pair, &mut second, listen(0, false));
        match ended {
            1 => assert_eq!(again, Err(Refusal::InUse), "the other has it"),
            _ => assert!(again.is_ok(), "it is free: {again:?}"),
        }
    }
}

/// Promise 54.
#[test]
fn only_a_group_of_one_application_shares_an_address() {
    let mut pair = Pair::new();
    let mut owner = attach_as(&mut pair.engine, 0, "web");
    assert!(answer(&mut pair, &mut owner, listen(GROUP, false)).is_ok());
    for (client, group) in [(0, 0), (0, GROUP + 1), (1, GROUP)] {
        let mut other = attach_as(&mut pair.engine, client, "other");
        let refused = answer(&mut pair, &mut other, listen(group, false));
        assert_eq!(refused, Err(Refusal::InUse), "{client} {group}");
    }
    assert_eq!(knocks(&mut pair, &mut [&mut owner], 2), [2]);
}
