//! Limits of the work of a turn, by its cost, for each application.

use super::*;
use crate::abi::{Condition, Ending};
use crate::tuning::turns::MOST_UNITS;
use cofferdam_netstack::ConnectionOptions;

/// Number of ports to one peer.
const PORTS: u32 = 16_384;

fn roomy() -> Engine<Pipe> {
    let (port, _other) = pipe(1500).expect("a pipe");
    let memory = Memory::new(512, 2048).expect("memory");
    let address = InterfaceAddress {
        ip: [10, 0, 0, 9].into(),
        prefix_len: 24,
    };
    let mut config = Config::new(MacAddress([2, 0, 0, 0, 0, 1]), vec![address], [7; 16]);
    config.limits.connections = PORTS + 100;
    Engine::new(port, memory, config, small()).expect("an engine")
}

/// Makes `count` connects to one peer.
fn connect(hostile: &mut MappedChannel, count: u32) {
    for _ in 0..count {
        let call = Call::Connect {
            remote: ([10, 0, 0, 77], 80).into(),
            cookie: 0,
            options: ConnectionOptions::default(),
        };
        assert!(hostile.first().push(call.into()), "room in the ring");
    }
    hostile.first().publish();
}

/// Number of connects that were refused for lack of a port.
fn refused(hostile: &mut MappedChannel) -> usize {
    let conditions = std::iter::from_fn(|| hostile.first().take());
    let is_refused = |entry: Entry| {
        let condition = Condition::decode(&entry);
        matches!(condition, Some(Condition::Dead { reason, .. }) if reason == Ending::NoRoom)
    };
    let count = conditions.filter(|entry| is_refused(*entry)).count();
    hostile.first().release();
    count
}

/// In one turn, 1,024 calls looked at 16,384 ports each, which took ten seconds.
/// Promise 70.
#[test]
fn connects_without_a_free_port_keep_to_their_units() {
    let mut engine = roomy();
    let mut hostile = attach(&mut engine, "hostile");
    let mut honest = attach(&mut engine, "honest");
    for _ in 0..PORTS / MOST_UNITS {
        connect(&mut hostile, MOST_UNITS);
        turns(&mut engine, 1);
    }
    assert_eq!(refused(&mut hostile), 0, "each has a port");
    connect(&mut hostile, 1024);
    let parts = PORTS / MOST_UNITS;
    for turn in 1..=4 * parts {
        honest.first().push(
            Call::UdpBind {
                local: ([0, 0, 0, 0], 0).into(),
                cookie: u64::from(turn),
            }
            .into(),
        );
        honest.first().publish();
        turns(&mut engine, 1);
        let answer = honest.first().take().expect("an answer in the same turn");
        assert_eq!(answer.cookie, u64::from(turn));
        honest.first().release();
    }
    let count = refused(&mut hostile);
    assert!((3..=4).contains(&count), "{count} in {} turns", 4 * parts);
}

/// Promise 70.
#[test]
fn an_application_with_many_connections_ends_in_several_turns() {
    let mut engine = roomy();
    let life = Arc::new(Life::default());
    let shared = engine.maker().make(0, "large", Rights::all(), life.clone());
    let (domains, outside) = shared.expect("a place");
    let mut large = outside.map().expect("mapped");
    domains
        .into_iter()
        .for_each(|domain| engine.attach(Box::new(domain)));
    for _ in 0..4 {
        connect(&mut large, MOST_UNITS);
        turns(&mut engine, 1);
    }
    assert_eq!(engine.owners.count(), 4 * MOST_UNITS as usize);
    life.end();
    let mut left = engine.owners.count();
    while left > 0 {
        assert!(engine.turn(|| false), "it continues without being woken");
        let now = engine.owners.count();
        assert!(left - now <= 128, "{} in one turn", left - now);
        left = now;
    }
    turns(&mut engine, 1);
    assert_eq!(engine.tally().ended, 1);
}

/// Bytes of a file's pages that are present.
fn present_bytes(file: &impl std::os::fd::AsFd) -> i64 {
    nix::sys::stat::fstat(file).expect("facts").st_blocks * 512
}

/// Descriptors and mappings keep no memory, and the dataplane is charged for none.
/// Promise 70.
#[test]
fn only_the_application_touches_its_memory_which_ends_with_it() {
    let options = Options {
        private_frames: Some(64),
        ..small()
    };
    let mut engine = engine(options);
    let life = Arc::new(Life::default());
    let shared = engine.maker().make(0, "short", Rights::all(), life.clone());
    let (domains, outside) = shared.expect("a place");
    domains
        .into_iter()
        .for_each(|domain| engine.attach(Box::new(domain)));
    let copy = |fd: &dyn std::os::fd::AsFd| fd.as_fd().try_clone_to_owned().expect("a copy");
    let files = [
        copy(&outside.area),
        copy(&outside.inbox),
        copy(&outside.cores[0].0),
    ];
    let present = || files.each_ref().map(present_bytes);
    turns(&mut engine, 1);
    let [area, inbox, rings] = present();
    assert_eq!((area, inbox), (0, 0));
    assert!(rings <= 3 * 4096, "{rings} bytes of the rings");
    let mapped = outside.map().expect("mapped");
    let sizes = [mapped.area.len(), mapped.inbox.len()].map(|len| len as i64);
    let [area, inbox, _] = present();
    assert_eq!([area, inbox], sizes, "the application has touched all");
    life.end();
    turns(&mut engine, 2);
    engine.hub().bury();
    assert_eq!(present(), [0; 3], "descriptors and mappings keep nothing");
}
