//! Reports of an application's own connections, and of others'.

use super::sends::{Pair, make_calls, read_conditions, send};
use super::*;
use crate::abi::{Condition, INFO_PARTS, Parts};
use cofferdam_netstack::{ConnectionInfo, ConnectionOptions};
use std::time::Duration;

/// Report that an application received, if it is complete.
fn report(application: &mut MappedChannel) -> Option<ConnectionInfo> {
    let mut parts = Parts::default();
    read_conditions(application)
        .iter()
        .find_map(|condition| match condition {
            Condition::Info {
                cookie,
                part,
                words,
                ..
            } => parts.take(*cookie, *part, words),
            _ => None,
        })
}

#[test]
fn a_connection_is_reported_as_the_stack_has_it() {
    let mut pair = Pair::new();
    let mut own = [attach_as(&mut pair.engine, 0, "own")];
    let handle = pair.connect(&mut own)[0];
    let [own] = &mut own;
    let options = ConnectionOptions {
        segment_bytes: Some(700),
        ..ConnectionOptions::default()
    };
    // Nothing is acknowledged, because the peer's loop does not run.
    make_calls(own, [Call::Options { handle, options }, send(handle)]);
    turns(&mut pair.engine, 2);
    make_calls(own, [Call::Info { handle }]);
    turns(&mut pair.engine, 1);
    let info = report(own).expect("a report");
    let connection = pair.engine.local(handle).expect("a connection");
    let expected = pair.engine.stack.connection(connection);
    // A report has whole microseconds.
    let micros = |time: Duration| Duration::from_micros(time.as_micros() as u64);
    let expected = expected.map(|expected| ConnectionInfo {
        srtt: expected.srtt.map(micros),
        rttvar: expected.rttvar.map(micros),
        rto: micros(expected.rto),
        ..expected
    });
    assert_eq!(Some(info), expected);
    assert_eq!((info.state, info.flight_bytes), ("ESTABLISHED", 1));
    assert_eq!(info.mss_bytes, 700 - 12, "less the timestamps");

    // A connection that has ended is not reported, and the call is no offence.
    make_calls(own, [Call::Abort { handle }, Call::Info { handle }]);
    turns(&mut pair.engine, 2);
    let conditions = read_conditions(own);
    let is_report = |condition: &Condition| matches!(condition, Condition::Info { .. });
    assert!(
        conditions
            .iter()
            .any(|c| matches!(c, Condition::Dead { .. })),
        "{conditions:?}"
    );
    assert!(conditions.iter().filter(|c| is_report(c)).count() <= INFO_PARTS);
    make_calls(own, [Call::Info { handle }]);
    turns(&mut pair.engine, 2);
    assert_eq!(report(own), None);
    assert_eq!(pair.engine.tally().offences, 0);
}

/// Promise 69.
#[test]
fn a_connection_of_another_application_is_neither_reported_nor_set() {
    let mut pair = Pair::new();
    let mut own = [attach_as(&mut pair.engine, 0, "own")];
    let handle = pair.connect(&mut own)[0];
    let options = ConnectionOptions {
        user_timeout: Some(Duration::from_millis(1)),
        ..ConnectionOptions::default()
    };
    for (offences, call) in (1..).zip([Call::Info { handle }, Call::Options { handle, options }]) {
        let mut curious = attach_as(&mut pair.engine, 1, "curious");
        make_calls(&mut curious, [call]);
        pair.turns();
        assert_eq!(report(&mut curious), None);
        let tally = pair.engine.tally();
        assert_eq!(tally.offences, offences);
        let offence = tally.last_offence.expect("a reason");
        assert!(
            offence.starts_with("curious: ") && offence.contains("connection"),
            "{offence}"
        );
    }
}
