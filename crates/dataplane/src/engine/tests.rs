//! The loop against hostile applications. `tests/` has the honest ones, over devices.

mod budget;
mod datagrams;
mod eviction;
mod lending;
mod ownership;
mod reports;
mod sends;
mod sharing;
mod turns;
mod yields;

use super::*;
use crate::abi::{Call, Entry, Sharing};
use crate::channel::MappedChannel;
use crate::policy::Rights;
use crate::tuning::MOST_APPLICATIONS;
use cofferdam_netstack::{Config, InterfaceAddress, MacAddress};
use cofferdam_xsk::{Pipe, pipe};
use std::sync::Arc;

fn engine(options: Options) -> Engine<Pipe> {
    let (port, _other) = pipe(1500).expect("a pipe");
    let memory = Memory::new(512, 2048).expect("memory");
    let address = InterfaceAddress {
        ip: [10, 0, 0, 9].into(),
        prefix_len: 24,
    };
    let mut config = Config::new(MacAddress([2, 0, 0, 0, 0, 1]), vec![address], [7; 16]);
    config.limits.connections = 64;
    Engine::new(port, memory, config, options).expect("an engine")
}

fn small() -> Options {
    Options {
        area_bytes: 1 << 20,
        ..Options::default()
    }
}

fn attach(engine: &mut Engine<Pipe>, name: &str) -> MappedChannel {
    attach_as(engine, 0, name)
}

fn attach_as(engine: &mut Engine<Pipe>, client: u8, name: &str) -> MappedChannel {
    let maker = engine.maker();
    let (domains, outside) = maker
        .make(client, name, Rights::all(), Arc::default())
        .expect("memory");
    domains
        .into_iter()
        .for_each(|domain| engine.attach(Box::new(domain)));
    outside.map().expect("mapped")
}

fn turns(engine: &mut Engine<Pipe>, count: u32) {
    for _ in 0..count {
        engine.turn(|| false);
    }
}

/// Promise 69.
#[test]
fn each_offence_ends_its_application_and_no_other() {
    let offences: [(Entry, &str); 6] = [
        (
            Entry {
                kind: 999,
                ..Entry::default()
            },
            "not a call",
        ),
        (
            Call::Send {
                handle: 1,
                offset: 0,
                len: 0,
            }
            .into(),
            "memory",
        ),
        (
            Call::Send {
                handle: 1,
                offset: 1 << 20,
                len: 1,
            }
            .into(),
            "memory",
        ),
        (
            Call::Send {
                handle: 1,
                offset: u64::MAX,
                len: 9,
            }
            .into(),
            "memory",
        ),
        (Call::RecvDone { frame: 3 }.into(), "frame"),
        (Call::UdpRecvDone { frame: u32::MAX }.into(), "frame"),
    ];
    let mut engine = engine(small());
    let mut honest = attach(&mut engine, "honest");
    for (ended, (entry, reason)) in (1..).zip(offences) {
        let mut hostile = attach(&mut engine, "hostile");
        hostile.first().push(entry);
        hostile.first().publish();
        turns(&mut engine, 2);
        let tally = engine.tally();
        assert_eq!((tally.offences, tally.ended), (ended, ended), "{entry:?}");
        let offence = tally.last_offence.expect("a reason");
        assert!(
            offence.starts_with("hostile: ") && offence.contains(reason),
            "{offence}"
        );
        // The honest application is served as before.
        honest.first().push(
            Call::UdpBind {
                local: ([0, 0, 0, 0], 0).into(),
                cookie: ended,
            }
            .into(),
        );
        honest.first().publish();
        turns(&mut engine, 1);
        assert_eq!(honest.first().take().expect("an answer").cookie, ended);
        honest.first().release();
    }
    assert_eq!(engine.tally().applications.len(), 1);
}

/// Promise 69.
#[test]
fn an_impossible_ring_index_ends_its_application() {
    let mut engine = engine(small());
    for (ended, value) in (1..).zip([u32::MAX, 1 << 20]) {
        let mut hostile = attach(&mut engine, "hostile");
        hostile.first().corrupt(value);
        turns(&mut engine, 2);
        assert_eq!(engine.tally().offences, ended);
    }
}

/// Promise 69.
#[test]
fn an_application_that_reads_nothing_is_ended_in_time() {
    let mut engine = engine(small());
    let mut deaf = attach(&mut engine, "deaf");
    let mut asked = 0_u32;
    while engine.tally().offences == 0 {
        for _ in 0..1000 {
            let local = ([10, 0, 0, 9], 0).into();
            deaf.first().push(
                Call::Listen {
                    local,
                    backlog: 1,
                    cookie: 0,
                    sharing: Sharing::default(),
                }
                .into(),
            );
            asked += 1;
        }
        deaf.first().publish();
        turns(&mut engine, 8);
        assert!(asked < 200_000, "it was never ended");
    }
    let offence = engine.tally().last_offence.expect("a reason");
    assert!(offence.contains("unread"), "{offence}");
}

/// Promise 66.
#[test]
fn a_sudden_end_frees_the_place_for_the_next() {
    let mut engine = engine(small());
    for round in 1..=100 {
        let life = Arc::new(Life::default());
        let shared = engine.maker().make(0, "short", Rights::all(), life.clone());
        let (domains, _outside) = shared.expect("a place");
        domains
            .into_iter()
            .for_each(|domain| engine.attach(Box::new(domain)));
        life.end();
        turns(&mut engine, 1);
        assert_eq!(engine.tally().ended, round);
    }
    assert_eq!(engine.tally().offences, 0, "to leave is no offence");
}

/// Promise 66.
#[test]
fn more_applications_than_places_are_refused() {
    let mut engine = engine(small());
    let all: Vec<MappedChannel> = (0..MOST_APPLICATIONS)
        .map(|_| attach(&mut engine, "one"))
        .collect();
    assert!(engine.inline().is_err());
    drop(all);
}

/// The fuzzer that plays a hostile application, with a fixed seed. `fuzz/` runs it without end.
/// Promise 69.
#[test]
fn random_calls_harm_only_their_caller() {
    let mut random = fastrand::Rng::with_seed(2026);
    let mut engine = engine(small());
    let mut honest = attach(&mut engine, "honest");
    for round in 0..300_u64 {
        let mut hostile = attach(&mut engine, "hostile");
        for _ in 0..random.u32(1..200) {
            hostile.first().push(random_entry(&mut random));
        }
        hostile.first().publish();
        if random.u8(..) < 20 {
            hostile.first().corrupt(random.u32(..));
        }
        turns(&mut engine, 2);
        drop(hostile);
        for domain in engine.domains.iter().filter(|d| d.name() == "hostile") {
            domain.life().end();
        }
        turns(&mut engine, 3);
        honest.first().push(
            Call::UdpBind {
                local: ([0, 0, 0, 0], 0).into(),
                cookie: round,
            }
            .into(),
        );
        honest.first().publish();
        turns(&mut engine, 1);
        let answer = honest.first().take().expect("the honest one is answered");
        assert_eq!(answer.cookie, round);
        honest.first().release();
        let tally = engine.tally();
        assert_eq!(tally.applications.len(), 1, "round {round}: {tally:?}");
    }
    assert!(
        engine.tally().offences > 100,
        "the fuzzer must hit something"
    );
    assert_eq!(engine.tally().attached, 301);
}

/// Half of the entries are nearly valid, because random bytes alone would all fail the first check.
pub(super) fn random_entry(random: &mut fastrand::Rng) -> Entry {
    let mut entry = Entry {
        kind: random.u32(0..16),
        len: random.u32(..),
        handle: random.u64(..),
        cookie: random.u64(..),
        offset: random.u64(..),
        ip: random.u128(..).to_ne_bytes(),
        port: random.u16(..),
        reserved: random.u16(..),
        value: random.u32(..),
        more: random.u64(..),
    };
    if random.bool() {
        entry.handle = random.u64(0..8);
        entry.offset = random.u64(0..1 << 21);
        entry.len = random.u32(0..4096);
        entry.value = random.u32(0..600);
        entry.more = random.u64(0..1_000_000_000);
        entry.ip = std::net::Ipv4Addr::new(10, 0, 0, random.u8(8..11))
            .to_ipv6_mapped()
            .octets();
    }
    entry
}
