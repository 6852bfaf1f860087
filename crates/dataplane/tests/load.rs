//! The load generator, over a pipe, with a server on the dataplane.

use cofferdam_dataplane::applications::{Load, Memcached, Request};
use cofferdam_dataplane::{Engine, EventLoop, Options};
use cofferdam_netstack::{Config, InterfaceAddress, MacAddress};
use cofferdam_xsk::{Memory, Pipe, pipe};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(20);

/// Memory of one end: number of frames, and bytes to send from.
type Room = (u32, u32);

fn engine(port: Pipe, last: u8, (frames, area_bytes): Room) -> Engine<Pipe> {
    let memory = Memory::new(frames, 2048).expect("memory");
    let address = InterfaceAddress {
        ip: [10, 0, 0, last].into(),
        prefix_len: 24,
    };
    let config = Config::new(MacAddress([2, 0, 0, 0, 0, last]), vec![address], [last; 16]);
    let options = Options {
        area_bytes,
        ..Options::default()
    };
    Engine::new(port, memory, config, options).expect("an engine")
}

/// Both ends and their applications.
struct Pair {
    client: Engine<Pipe>,
    server: Engine<Pipe>,
    load: EventLoop<Load>,
    cache: EventLoop<Memcached>,
}

impl Pair {
    /// A generator and a server with this memory each, whose connections are open.
    fn new(generator: Room, server: Room) -> Pair {
        let address: SocketAddr = "10.0.0.1:11211".parse().expect("an address");
        let (a, b) = pipe(1500).expect("a pipe");
        let (mut server, mut client) = (engine(a, 1, server), engine(b, 2, generator));
        let cache = server.inline().expect("a session");
        let load = client.inline().expect("a session");
        let mut pair = Pair {
            client,
            server,
            load: EventLoop::new(load, Load::new(address, 1, CONNECTIONS)),
            cache: EventLoop::new(cache, Memcached::new(address, 1 << 20)),
        };
        pair.until("connections open", |pair| pair.load.application.is_open());
        pair
    }

    fn turn(&mut self, client_answers: bool) {
        let load = &mut self.load;
        self.client.turn(|| {
            let asked = load.application.pump(&mut load.session);
            load.turn() || asked
        });
        if client_answers {
            self.server.turn(|| self.cache.turn());
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Pair) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: not in time");
            self.turn(true);
        }
    }
}

/// Sets with values, and so commands, of many lengths, so that a missing piece makes a wrong
/// command.
fn sets() -> Vec<Request> {
    let set = |n: usize| Request {
        bytes: format!("set key{n} 0 0 {n}\r\n{}\r\n", "v".repeat(n)).into_bytes(),
        answer_bytes: 8,
        first: b'S',
    };
    (1..700).map(set).collect()
}

/// Promise 46.
#[test]
fn requests_that_find_no_room_wait_whole_and_in_order() {
    let mut pair = Pair::new((4096, 64 << 10), (4096, 8 << 20));
    // More requests are due at once than fit the memory, and no answer arrives at first.
    pair.load.application.send_at(sets(), 1e9);
    for _ in 0..100 {
        pair.turn(false);
    }
    pair.load.application.measure(100_000);
    let start = Instant::now();
    while pair.cache.application.store.commands_answered() < 20_000 {
        assert!(start.elapsed() < PATIENCE, "20,000 answers: not in time");
        pair.turn(true);
    }
    let load = &mut pair.load.application;
    assert_eq!((load.wrong, load.lost), (0, 0));
    assert!(load.measured().len() > 10_000);
}

/// Promise 46.
#[test]
fn a_closed_loop_keeps_to_its_number_of_requests() {
    let mut pair = Pair::new((4096, 1 << 20), (4096, 8 << 20));
    let load = &mut pair.load;
    load.application.send_closed(&mut load.session, sets(), 3);
    let start = Instant::now();
    while pair.cache.application.store.commands_answered() < 5000 {
        assert!(start.elapsed() < PATIENCE, "5,000 answers: not in time");
        pair.turn(true);
        assert_eq!(pair.load.application.waiting().count(), 3);
    }
    let load = &pair.load.application;
    assert_eq!((load.wrong, load.lost), (0, 0));
}

/// Promise 46.
#[test]
fn each_request_can_have_a_connection_of_its_own() {
    let mut pair = Pair::new((4096, 1 << 20), (4096, 8 << 20));
    let load = &mut pair.load;
    load.application.send_fresh(&mut load.session, sets());
    load.application.measure(10_000);
    let start = Instant::now();
    while pair.cache.application.store.commands_answered() < 5000 {
        assert!(start.elapsed() < PATIENCE, "5,000 answers: not in time");
        pair.turn(true);
        assert!(pair.load.application.waiting().count() <= CONNECTIONS);
    }
    let load = &mut pair.load.application;
    assert_eq!((load.wrong, load.lost), (0, 0));
    let measured = load.measured().len() as u64;
    assert!((4990..=5000).contains(&measured), "{measured}");
    // At both ends only the outstanding requests' connections are left.
    let ends = [
        (&mut pair.client, ["connected", "resets_sent"]),
        (&mut pair.server, ["accepted", "resets_received"]),
    ];
    for (engine, counted) in ends {
        let tally = engine.tally();
        let open: u64 = tally.groups.iter().map(|g| u64::from(g.connections)).sum();
        assert!(open <= 2 * CONNECTIONS as u64, "{open}");
        for name in counted {
            let count = tally.stack.iter().find(|(n, _)| *n == name);
            assert!(count.is_some_and(|(_, n)| *n >= 4980), "{count:?}");
        }
    }
}

/// Promise 70.
#[test]
fn an_overloaded_server_answers_late_and_loses_nothing() {
    // A part of its frames is soon full of requests, and its memory of answers.
    let mut pair = Pair::new((4096, 8 << 20), (256, 64 << 10));
    let load = &mut pair.load;
    load.application.send_once(&mut load.session, sets());
    pair.until("the values are stored", |pair| {
        pair.load.application.is_done()
    });
    let get = |n: usize| Request {
        bytes: format!("get key{n}\r\n").into_bytes(),
        answer_bytes: format!("VALUE key{n} 0 {n}\r\n\r\nEND\r\n").len() as u32 + n as u32,
        first: b'V',
    };
    let first = pair.cache.application.store.commands_answered();
    let load = &mut pair.load.application;
    load.send_at((1..700).map(get).collect(), 1e9);
    load.measure(1_000_000);
    let start = Instant::now();
    while pair.cache.application.store.commands_answered() < first + 50_000 {
        assert!(start.elapsed() < PATIENCE, "50,000 answers: not in time");
        pair.turn(true);
    }
    let load = &mut pair.load.application;
    assert_eq!((load.wrong, load.lost), (0, 0));
    assert!(load.measured().len() > 40_000);
    let tally = pair.server.tally();
    assert!(tally.readers_stopped > 0, "it was not too much");
    let wrong = [tally.over_quota, tally.overruns, tally.offences];
    assert_eq!(wrong, [0; 3]);
}
