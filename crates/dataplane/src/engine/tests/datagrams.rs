//! Datagrams, and the addresses that applications may send them from.

use super::sends::{LIMIT, Pair, at, make_calls, read_conditions};
use super::*;
use crate::abi::{Condition, Refusal};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

fn bind(local: SocketAddr) -> Call {
    Call::UdpBind { local, cookie: 7 }
}

fn any(port: u16) -> SocketAddr {
    ([0, 0, 0, 0], port).into()
}

fn bound(application: &mut MappedChannel) -> Result<u64, Refusal> {
    let conditions = read_conditions(application);
    let answer = conditions
        .into_iter()
        .find_map(|condition| match condition {
            Condition::Bound { result, .. } => Some(result),
            _ => None,
        });
    answer.expect("an answer")
}

/// Promise 70.
#[test]
fn a_source_that_is_not_the_dataplanes_sends_nothing() {
    let mut pair = Pair::new();
    let mut own = attach_as(&mut pair.engine, 0, "own");
    make_calls(&mut own, [bind(any(2000))]);
    make_calls(&mut pair.server, [bind(any(1000))]);
    pair.turns();
    let handle = bound(&mut own).expect("the address");
    let _ = read_conditions(&mut pair.server);
    let here = at(0).ip();
    let sources: [(Option<IpAddr>, bool); 6] = [
        (None, true),
        (Some(here), true),
        (Some([10, 0, 0, 77].into()), false),
        (Some(at(1).ip()), false),
        (Some([224, 0, 0, 1].into()), false),
        (Some(IpAddr::from([0xfd_u8; 16])), false),
    ];
    for (token, (source, is_sent)) in (0..).zip(sources) {
        let refused = pair.engine.tally().datagrams_refused;
        make_calls(
            &mut own,
            [Call::UdpSend {
                handle,
                remote: at(1),
                source,
                offset: 0,
                len: 5,
                token,
            }],
        );
        let until = Instant::now() + LIMIT;
        let (mut arrived, mut returned) = (None, false);
        while !returned || (is_sent && arrived.is_none()) {
            assert!(Instant::now() < until, "{source:?}: {arrived:?} {returned}");
            pair.turns();
            returned |=
                read_conditions(&mut own).contains(&Condition::UdpSent { cookie: 7, token });
            arrived = arrived.or_else(|| {
                read_conditions(&mut pair.server).into_iter().find_map(
                    |condition| match condition {
                        Condition::UdpRecv { remote, local, .. } => Some((remote, local)),
                        _ => None,
                    },
                )
            });
        }
        let from = (SocketAddr::new(here, 2000), at(1).ip());
        assert_eq!(arrived, is_sent.then_some(from), "{source:?}");
        let refused = pair.engine.tally().datagrams_refused - refused;
        assert_eq!(refused, u64::from(!is_sent), "{source:?}");
    }
}
