//! Turns that an honest exchange takes during an attack on each shared resource. The attack may
//! cost the honest application no turn.

use super::sends::{LIMIT, at, connect, make_calls, node_with_table, read_conditions};
use super::*;
use crate::abi::{Condition, Ending};
use crate::session::{Connection, Event, Session};
use crate::tuning::turns::MOST_UNITS;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Number of exchanges, without an attack and during one.
const EXCHANGES: usize = 100;
/// Ports that connections are opened from.
const PORTS: u32 = 16_384;

/// Accepts the connections of an echo server, and sends back the data that it has received.
fn echo(server: &mut MappedChannel) {
    for condition in read_conditions(server) {
        match condition {
            Condition::Knock { handle, .. } => {
                make_calls(server, [Call::Accept { handle, cookie: 0 }]);
            }
            Condition::Recv {
                handle, frame, len, ..
            } => {
                let answer = Call::Send {
                    handle,
                    offset: 0,
                    len,
                };
                make_calls(server, [Call::RecvDone { frame }, answer]);
            }
            _ => {}
        }
    }
}

/// The 99th percentile.
pub(super) fn p99(mut turns: Vec<u32>) -> u32 {
    turns.sort_unstable();
    turns[turns.len() * 99 / 100]
}

/// An honest echo server and an attacker on one dataplane, and the server's client on another.
struct Scene {
    engine: Engine<Pipe>,
    peer: Engine<Pipe>,
    server: MappedChannel,
    client: MappedChannel,
    /// Name of the client's connection.
    connection: u64,
}

impl Scene {
    /// A scene whose first dataplane has `connections`.
    fn new(connections: u32) -> Scene {
        let (one, other) = pipe(1500).expect("a pipe");
        let mut engine = node_with_table(one, 0, 1 << 20, connections);
        let mut peer = node_with_table(other, 1, 1 << 20, 64);
        let mut server = attach_as(&mut engine, 0, "server");
        let client = attach_as(&mut peer, 0, "client");
        make_calls(
            &mut server,
            [Call::Listen {
                local: at(0),
                backlog: 64,
                cookie: 0,
                sharing: Sharing::default(),
            }],
        );
        let mut scene = Scene {
            engine,
            peer,
            server,
            client,
            connection: 0,
        };
        make_calls(&mut scene.client, [connect(0)]);
        let until = Instant::now() + LIMIT;
        while scene.connection == 0 {
            assert!(Instant::now() < until, "it is not connected");
            scene.turn();
            for condition in read_conditions(&mut scene.client) {
                if let Condition::Connected { handle, .. } = condition {
                    scene.connection = handle;
                }
            }
        }
        scene
    }

    /// Runs one turn of both dataplanes. The server answers its requests.
    fn turn(&mut self) {
        turns(&mut self.peer, 1);
        turns(&mut self.engine, 1);
        echo(&mut self.server);
    }

    /// Sends a request. Returns the number of turns until the answer.
    fn exchange(&mut self, attack: &mut impl FnMut(&mut Scene)) -> u32 {
        let request = Call::Send {
            handle: self.connection,
            offset: 0,
            len: 100,
        };
        make_calls(&mut self.client, [request]);
        let until = Instant::now() + LIMIT;
        for turn in 1.. {
            assert!(Instant::now() < until, "no answer in {turn} turns");
            attack(self);
            self.turn();
            for condition in read_conditions(&mut self.client) {
                if let Condition::Recv { frame, .. } = condition {
                    make_calls(&mut self.client, [Call::RecvDone { frame }]);
                    return turn;
                }
            }
        }
        unreachable!("the loop has no end")
    }

    /// 99th percentile of the turns of [`EXCHANGES`].
    fn p99(&mut self, mut attack: impl FnMut(&mut Scene)) -> u32 {
        p99((0..EXCHANGES).map(|_| self.exchange(&mut attack)).collect())
    }
}

/// Promise 70.
#[test]
fn an_attacker_without_free_ports_costs_no_turn() {
    let mut scene = Scene::new(PORTS / 3 * 4 + 64);
    let baseline = scene.p99(|_| ());
    let mut hostile = attach_as(&mut scene.engine, 1, "hostile");
    let connect = |count: u32| {
        let remote = ([10, 0, 0, 77], 80).into();
        (0..count).map(move |_| Call::Connect {
            remote,
            cookie: 0,
            options: Default::default(),
        })
    };
    let mut refused = 0;
    let mut count_refused = |hostile: &mut MappedChannel| {
        let conditions = read_conditions(hostile).into_iter();
        let is_refused = |condition: &Condition| match condition {
            Condition::Dead { reason, .. } => *reason == Ending::NoRoom,
            _ => false,
        };
        refused += conditions.filter(is_refused).count() as u32;
        refused
    };
    for _ in 0..PORTS / MOST_UNITS {
        make_calls(&mut hostile, connect(MOST_UNITS));
        scene.turn();
    }
    assert_eq!(count_refused(&mut hostile), 0, "each has a port");
    make_calls(&mut hostile, connect(1024));
    let (mut attacked, mut all_refused) = (0, 0);
    let under_attack = scene.p99(|_| {
        attacked += 1;
        all_refused = count_refused(&mut hostile);
    });
    assert_eq!(under_attack, baseline);
    // Each refusal has looked at all ports.
    let most = attacked * MOST_UNITS / PORTS;
    assert!(all_refused <= most, "{all_refused} in {attacked} turns");
}

/// Creates sets that watch a bell: `sets` × `copies` waiters.
fn watch(end: &impl AsFd, sets: usize, copies: usize) -> (Vec<Epoll>, Vec<OwnedFd>) {
    let copy = |_| end.as_fd().try_clone_to_owned().expect("a copy");
    let copies: Vec<OwnedFd> = (0..copies).map(copy).collect();
    let set = |_| {
        let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("a set");
        for copy in &copies {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
            set.add(copy, event).expect("watched");
        }
        set
    };
    ((0..sets).map(set).collect(), copies)
}

/// Promise 70.
#[test]
fn a_watched_bell_costs_no_turn_and_no_ring() {
    let mut scene = Scene::new(64);
    let baseline = scene.p99(|_| ());
    let life = Arc::new(Life::default());
    let shared = (scene.engine.maker()).make(1, "hostile", Rights::all(), life.clone());
    let (domains, outside) = shared.expect("a place");
    let is_accused = Arc::new(AtomicBool::new(false));
    let accuse = is_accused.clone();
    let started = domains[0].start_bell(move || accuse.store(true, Ordering::Relaxed));
    started.expect("a thread");
    for domain in domains {
        scene.engine.attach(Box::new(domain));
    }
    let mut hostile = outside.map().expect("mapped");
    let _watches = watch(&hostile.bell, 100, 400);
    let until = Instant::now() + LIMIT;
    // Each timer is due at once, and each condition rings the bell of a sleeper.
    let mut attack = |_: &mut Scene| {
        read_conditions(&mut hostile);
        hostile.first().sleep(true);
        let timer = Call::Timer {
            delay_ns: 0,
            cookie: 0,
        };
        make_calls(&mut hostile, [timer]);
    };
    let mut under_attack = Vec::new();
    while under_attack.len() < EXCHANGES || !is_accused.load(Ordering::Relaxed) {
        assert!(Instant::now() < until, "it is not accused");
        under_attack.push(scene.exchange(&mut attack));
    }
    assert_eq!(p99(under_attack), baseline);
    let bells = scene.engine.domains.iter().map(Domain::bell);
    let rings: u64 = bells.map(crate::ringer::Bell::rings_of_loop).sum();
    assert_eq!(rings, 0, "the session's own thread rings");
}

/// A client with connections to a server that takes no data, and with one to an echo server.
struct Lending {
    engine: Engine<Pipe>,
    peer: Engine<Pipe>,
    session: Session,
    echo: MappedChannel,
    /// Takes no data of its connections.
    deaf: MappedChannel,
    open: Vec<Connection>,
    /// Connection to the echo server.
    honest: Connection,
}

/// Turns that a request may wait for memory which is lent to others.
const LENDING_TURNS: u32 = 16;
/// Connections to the server that takes nothing.
const STALLED: usize = 30;
/// Data for each of them.
static PAGE: [u8; 200_000] = [7; 200_000];

impl Lending {
    fn new() -> Lending {
        let (one, other) = pipe(1500).expect("a pipe");
        let mut engine = node_with_table(one, 0, 1 << 20, 128);
        let mut peer = node_with_table(other, 1, 1 << 20, 128);
        let mut deaf = attach_as(&mut peer, 0, "deaf");
        let mut echo = attach_as(&mut peer, 1, "echo");
        let listen = |local: SocketAddr| Call::Listen {
            local,
            backlog: 64,
            cookie: 0,
            sharing: Sharing::default(),
        };
        make_calls(&mut deaf, [listen(at(1))]);
        let honest = SocketAddr::new(at(1).ip(), 7);
        make_calls(&mut echo, [listen(honest)]);
        let mut session = Session::new(attach_as(&mut engine, 0, "client"), None);
        let honest = session.connect(honest);
        for _ in 0..STALLED {
            session.connect(at(1));
        }
        session.flush();
        let mut lending = Lending {
            engine,
            peer,
            session,
            echo,
            deaf,
            open: Vec::new(),
            honest,
        };
        let until = Instant::now() + LIMIT;
        while lending.open.len() < STALLED + 1 {
            assert!(Instant::now() < until, "{} are open", lending.open.len());
            lending.turn();
        }
        lending.open.retain(|connection| *connection != honest);
        lending
    }

    /// Runs one turn of both dataplanes. Returns the number of bytes from the echo server.
    fn turn(&mut self) -> usize {
        turns(&mut self.engine, 1);
        turns(&mut self.peer, 1);
        for condition in read_conditions(&mut self.deaf) {
            if let Condition::Knock { handle, .. } = condition {
                make_calls(&mut self.deaf, [Call::Accept { handle, cookie: 0 }]);
            }
        }
        echo(&mut self.echo);
        let mut received = 0;
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Connected { connection, .. } => self.open.push(connection),
                Event::Received { data, .. } => received += data.len(),
                _ => {}
            }
        }
        self.session.flush();
        received
    }

    /// Sends a request of 1,000 bytes. Returns the number of turns until the answer. With `attack`
    /// the other connections take all the memory that they can.
    fn exchange(&mut self, attack: bool) -> u32 {
        const REQUEST: usize = 1000;
        let until = Instant::now() + LIMIT;
        let (mut sent, mut received) = (0, 0);
        for turn in 1.. {
            assert!(Instant::now() < until, "{received} bytes in {turn} turns");
            if attack {
                for connection in self.open.clone() {
                    self.session.send(connection, &PAGE);
                }
            }
            sent += self.session.send(self.honest, &PAGE[sent..REQUEST]);
            self.session.flush();
            received += self.turn();
            if received == REQUEST {
                return turn;
            }
        }
        unreachable!("the loop has no end")
    }
}

/// Promise 70.
#[test]
fn peers_that_take_nothing_cost_others_few_turns() {
    let mut lending = Lending::new();
    let baseline = p99((0..EXCHANGES).map(|_| lending.exchange(false)).collect());
    let under_attack = p99((0..EXCHANGES).map(|_| lending.exchange(true)).collect());
    let most = baseline + LENDING_TURNS;
    assert!(
        under_attack <= most,
        "{under_attack} turns, {baseline} before"
    );
}
