//! Newcomers under an attack that fills the table of connections.

use super::sends::{LIMIT, make_calls, read_conditions, send};
use super::turns::p99;
use super::*;
use crate::abi::Condition;
use crate::policy::Shares;
use crate::tuning::eviction::{PLACES_A_TURN, REST};
use cofferdam_netstack::ConnectionOptions;
use std::time::Instant;

/// Connections of the server.
const PLACES: u32 = 64;
const PORT: u16 = 80;

/// A server, and two peers at one other dataplane: each network is a peer.
struct Crowd {
    engine: Engine<Pipe>,
    peers: Engine<Pipe>,
    server: MappedChannel,
    clients: MappedChannel,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The server has accepted it and sent a byte.
    Open {
        handle: u64,
    },
    Ended,
}

impl Crowd {
    fn new() -> Crowd {
        let (one, other) = pipe(1500).expect("a pipe");
        let node = |port: Pipe, last: u8, connections| {
            let addresses = [0, 1].map(|network| InterfaceAddress {
                ip: [10, 0, network, last].into(),
                prefix_len: 24,
            });
            let mac = MacAddress([2, 0, 0, 0, 0, last]);
            let mut config = Config::new(mac, addresses.to_vec(), [7; 16]);
            config.limits.connections = connections;
            let options = Options {
                shares: Shares::equal(1),
                ..small()
            };
            let memory = Memory::new(4096, 2048).expect("memory");
            Engine::new(port, memory, config, options).expect("an engine")
        };
        let (mut engine, mut peers) = (node(one, 9, PLACES), node(other, 10, 4096));
        let mut server = attach(&mut engine, "server");
        let clients = attach(&mut peers, "clients");
        make_calls(
            &mut server,
            [Call::Listen {
                local: ([0, 0, 0, 0], PORT).into(),
                backlog: 1024,
                cookie: 0,
                sharing: Sharing::default(),
            }],
        );
        turns(&mut engine, 1);
        Crowd {
            engine,
            peers,
            server,
            clients,
        }
    }

    /// Opens connections of a peer under these cookies.
    fn connect(&mut self, peer: u8, cookies: std::ops::Range<u64>) {
        let call = |cookie| Call::Connect {
            remote: ([10, 0, peer, 9], PORT).into(),
            cookie,
            options: ConnectionOptions::default(),
        };
        make_calls(&mut self.clients, cookies.map(call));
    }

    /// Runs one turn of all. Returns changes of connections by cookie.
    fn turn(&mut self) -> Vec<(u64, Outcome)> {
        turns(&mut self.peers, 1);
        turns(&mut self.engine, 1);
        for condition in read_conditions(&mut self.server) {
            if let Condition::Knock { handle, .. } = condition {
                let accept = Call::Accept { handle, cookie: 0 };
                make_calls(&mut self.server, [accept, send(handle)]);
            }
        }
        let mut outcomes = Vec::new();
        for condition in read_conditions(&mut self.clients) {
            match condition {
                Condition::Recv {
                    cookie,
                    handle,
                    frame,
                    ..
                } => {
                    make_calls(&mut self.clients, [Call::RecvDone { frame }]);
                    outcomes.push((cookie, Outcome::Open { handle }));
                }
                Condition::Dead { cookie, .. } => outcomes.push((cookie, Outcome::Ended)),
                _ => {}
            }
        }
        outcomes
    }

    /// Opens a connection of a peer during an attack. Returns its name, and the number of turns
    /// until the server has it.
    fn newcomer(
        &mut self,
        peer: u8,
        cookie: u64,
        mut attack: impl FnMut(&mut Crowd),
    ) -> (u64, u32) {
        let until = Instant::now() + LIMIT;
        self.connect(peer, cookie..cookie + 1);
        for turn in 1.. {
            assert!(Instant::now() < until, "not open in {turn} turns");
            attack(self);
            for (other, outcome) in self.turn() {
                match outcome {
                    Outcome::Open { handle } if other == cookie => return (handle, turn),
                    _ => assert_ne!(other, cookie, "the newcomer has ended"),
                }
            }
            let looked_at = PLACES_A_TURN - self.engine.eviction_places_left;
            assert!(looked_at <= PLACES_A_TURN, "{looked_at} places");
        }
        unreachable!("the loop has no end")
    }

    /// Makes a peer fill the table. Further connections are refused. All data is acknowledged.
    fn fill(&mut self, peer: u8) {
        self.connect(peer, 0..2 * u64::from(PLACES));
        let until = Instant::now() + LIMIT;
        let mut refused = 0;
        while refused < u64::from(PLACES) {
            assert!(Instant::now() < until, "{refused} are refused");
            self.turn();
            refused = self.engine.tally().connections_refused;
        }
        // An acknowledgement would be progress.
        while self.engine.stack.usage().chunks > 0 {
            assert!(Instant::now() < until, "not all is acknowledged");
            self.turn();
        }
        assert_eq!(self.engine.tally().applications[0].connections, PLACES);
    }
}

/// Promise 68.
#[test]
fn a_peer_that_fills_the_table_costs_newcomers_no_turn() {
    const NEWCOMERS: u64 = 100;
    let first = 1_000_000;
    let mut crowd = Crowd::new();
    let open_and_close = |crowd: &mut Crowd, cookie, attack: &mut dyn FnMut(&mut Crowd)| {
        let (handle, turns) = crowd.newcomer(1, cookie, attack);
        make_calls(&mut crowd.clients, [Call::Abort { handle }]);
        turns
    };
    let baseline = (first..first + NEWCOMERS).map(|n| open_and_close(&mut crowd, n, &mut |_| ()));
    let baseline = p99(baseline.collect());
    crowd.fill(0);
    let evicted = crowd.engine.tally().connections_evicted;
    assert_eq!(evicted, 0, "of equal peers no active one is evicted");
    let mut next = 1000;
    let mut attack = |crowd: &mut Crowd| {
        crowd.connect(0, next..next + 8);
        next += 8;
    };
    let newcomers = first + NEWCOMERS..first + 2 * NEWCOMERS;
    let attacked = newcomers.map(|cookie| open_and_close(&mut crowd, cookie, &mut attack));
    assert!(p99(attacked.collect()) <= baseline);
    assert!(crowd.engine.tally().connections_evicted > NEWCOMERS / 2);
}

/// Promise 68.
#[test]
fn a_newcomer_replaces_a_resting_connection_of_its_own_peer() {
    let mut crowd = Crowd::new();
    crowd.fill(0);
    std::thread::sleep(REST);
    let (_, turns) = crowd.newcomer(0, 1_000_000, |_| ());
    let tally = crowd.engine.tally();
    assert_eq!(tally.connections_evicted, 1, "in {turns} turns");
    assert_eq!(tally.applications[0].connections, PLACES);
}

#[test]
fn an_application_evicts_resting_peers_for_its_own_connection() {
    let mut crowd = Crowd::new();
    crowd.fill(0);
    let connect = || Call::Connect {
        remote: ([10, 0, 0, 10], 1).into(),
        cookie: 7,
        options: ConnectionOptions::default(),
    };
    make_calls(&mut crowd.server, [connect()]);
    turns(&mut crowd.engine, 1);
    let refused = read_conditions(&mut crowd.server)
        .into_iter()
        .any(|condition| {
            matches!(condition, Condition::Dead { cookie: 7, reason, .. }
            if reason == crate::abi::Ending::NoRoom)
        });
    assert!(refused, "none of them rests");
    std::thread::sleep(REST);
    make_calls(&mut crowd.server, [connect()]);
    turns(&mut crowd.engine, 1);
    let conditions = read_conditions(&mut crowd.server);
    let ended = conditions.iter().filter(|condition| {
        matches!(condition, Condition::Dead { cookie: 0, reason, .. }
            if *reason == crate::abi::Ending::Reset)
    });
    assert_eq!(ended.count(), 1, "{conditions:?}");
    assert_eq!(crowd.engine.tally().connections_evicted, 1);
}
