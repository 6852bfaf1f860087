//! Two cores and their peer in one thread, interleaved by a seed.

mod room;

use super::*;
use crate::abi::Entry;
use crate::applications::Echo;
use crate::engine::{Engine, Options, Order, Tally};
use crate::policy::Rights;
use crate::session::{Application, Connection, Event, EventLoop, Session};
use cofferdam_netstack::{Config, InterfaceAddress, MacAddress};
use cofferdam_xsk::{Facts, Memory, Packet, Pipe, Port, PortCounters, pipe};
use std::collections::HashMap as Map;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

const SERVER: [u8; 4] = [10, 0, 0, 9];
const CLIENT: [u8; 4] = [10, 0, 0, 2];

/// Device of the client, joined to both queues of the server. A flow always uses the same queue,
/// which is not that of its group.
struct Fork(Pipe, Pipe);

impl Port for Fork {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }

    fn reclaim(&mut self, _: &mut Memory) -> usize {
        0
    }

    fn receive(&mut self, memory: &mut Memory, packets: &mut [Packet]) -> usize {
        let (left, right) = packets.split_at_mut(packets.len() / 2);
        // Packets of the second must lie behind those of the first.
        match self.0.receive(memory, left) {
            0 => {
                let got = self.1.receive(memory, right);
                left.iter_mut()
                    .zip(right.iter().take(got))
                    .for_each(|(l, r)| *l = *r);
                got.min(left.len())
            }
            got => got,
        }
    }

    fn pending(&self) -> u32 {
        self.0.pending() + self.1.pending()
    }

    fn transmit(&mut self, memory: &mut Memory, packet: Packet) -> bool {
        // The last byte of the TCP source port.
        let is_odd = memory
            .packet(packet)
            .get(35)
            .is_some_and(|byte| byte & 1 == 1);
        let port = if is_odd { &mut self.0 } else { &mut self.1 };
        port.transmit(memory, packet)
    }

    fn flush(&mut self, memory: &mut Memory) -> std::io::Result<()> {
        self.0.flush(memory)?;
        self.1.flush(memory)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }

    fn counters(&self) -> PortCounters {
        self.0.counters()
    }
}

fn config(ip: [u8; 4], last: u8) -> Config {
    let address = InterfaceAddress {
        ip: ip.into(),
        prefix_len: 24,
    };
    let mut config = Config::new(MacAddress([2, 0, 0, 0, 0, last]), vec![address], [7; 16]);
    config.limits.connections = 256;
    config
}

fn options() -> Options {
    Options {
        area_bytes: 4 << 20,
        ..Options::default()
    }
}

/// Byte at a place of a connection's stream.
fn byte(connection: u64, place: usize) -> u8 {
    let word = (place as u64 / 8 + (connection << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32).to_le_bytes()[place % 4]
}

/// Sends a stream on each connection, and checks that it returns, until the end.
struct Streams {
    count: u64,
    /// Number of the stream, bytes sent and received.
    open: Map<Connection, (u64, usize, usize)>,
    ends: bool,
    ended: u64,
    /// Connections that may end early, at most. The next field is their number.
    most_lost: u64,
    lost: u64,
}

/// Bytes sent and not received, at most.
const UNDER_WAY: usize = 20_000;

impl Streams {
    fn send(&mut self, session: &mut Session, connection: Connection) {
        let Some((number, sent, received)) = self.open.get_mut(&connection) else {
            return;
        };
        if self.ends {
            if sent == received {
                session.close(connection);
            }
            return;
        }
        while *sent < *received + UNDER_WAY {
            let data: Vec<u8> = (*sent..*sent + 700).map(|n| byte(*number, n)).collect();
            let taken = session.send(connection, &data);
            *sent += taken;
            if taken < data.len() {
                break;
            }
        }
    }
}

impl Application for Streams {
    fn start(&mut self, session: &mut Session) {
        for number in 0..self.count {
            let connection = session.connect((SERVER, 7).into());
            self.open.insert(connection, (number, 0, 0));
        }
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Connected { connection, .. } | Event::Sent { connection, .. } => {
                self.send(session, connection);
            }
            Event::Received { connection, data } => {
                let (number, sent, received) = self.open.get_mut(&connection).expect("open");
                let expected = (*received..).map(|place| byte(*number, place));
                if !data.iter().copied().eq(expected.take(data.len())) {
                    // The failure is shown: bytes that were overtaken, repeated, or another
                    // stream's.
                    let found = (0..24_u64).flat_map(|n| (0..*sent).map(move |place| (n, place)));
                    let is = |(n, place): &(u64, usize)| {
                        data.iter()
                            .zip(*place..)
                            .all(|(b, place)| *b == byte(*n, place))
                    };
                    let found: Vec<_> = found.filter(is).take(3).collect();
                    panic!(
                        "stream {number} at {received} of {sent}: {} bytes of {found:?}",
                        data.len()
                    );
                }
                *received += data.len();
                drop(data);
                self.send(session, connection);
            }
            Event::Dead { connection, reason } => {
                let (number, sent, received) = self.open.remove(&connection).expect("open");
                if self.ends && sent == received {
                    self.ended += 1;
                } else {
                    self.lost += 1;
                    assert!(self.lost <= self.most_lost, "{number} ended: {reason:?}");
                }
            }
            _ => {}
        }
    }
}

/// Limits of a server, where they are lower than needed.
#[derive(Clone, Copy, Default)]
struct Room {
    private_frames: Option<u32>,
    chunks: Option<u32>,
    /// Connections on each core.
    connections: Option<u32>,
}

/// A client's engine with its application, and a server's two cores with another.
struct World {
    client: Engine<Fork>,
    streams: EventLoop<Streams>,
    cores: Vec<Engine<Pipe>>,
    echo: EventLoop<Echo>,
    hub: Arc<Hub>,
    random: fastrand::Rng,
}

impl World {
    fn new(seed: u64, room: Room) -> World {
        let (first, one) = pipe(1500).expect("a pipe");
        let (second, other) = pipe(1500).expect("a pipe");
        let memory = Memory::new(4096, 2048).expect("memory");
        let ports = [vec![first], vec![second]]
            .into_iter()
            .zip(memory.split(2))
            .collect();
        let server = Options {
            private_frames: room.private_frames,
            ..options()
        };
        let mut of_server = config(SERVER, 1);
        of_server.limits.chunks = room.chunks.unwrap_or(of_server.limits.chunks);
        let chunks = of_server.limits.chunks;
        of_server.limits.connections = room.connections.unwrap_or(256);
        let cores = Engine::several(ports, &of_server, server).expect("two cores");
        let memory = Memory::new(4096, 2048).expect("memory");
        let mut client = config(CLIENT, 2);
        client.secret = [9; 16];
        client.limits.chunks = chunks;
        let mut client =
            Engine::new(Fork(one, other), memory, client, options()).expect("a client");
        let hub = cores[0].hub();
        let shared = cores[0]
            .maker()
            .make(0, "echo", Rights::all(), Arc::default());
        let (domains, outside) = shared.expect("a place");
        for (core, domain) in domains.into_iter().enumerate() {
            assert!(hub.order(core, Order::Attach(Box::new(domain))));
        }
        let session = Session::new(outside.map().expect("mapped"), None);
        let echo = EventLoop::new(session, Echo::new(SocketAddr::from((SERVER, 7))));
        let streams = Streams {
            count: 24,
            open: Map::new(),
            ends: false,
            ended: 0,
            most_lost: 0,
            lost: 0,
        };
        let session = client.inline().expect("a session");
        let mut world = World {
            client,
            streams: EventLoop::new(session, streams),
            cores,
            echo,
            hub,
            random: fastrand::Rng::with_seed(seed),
        };
        // A refused SYN would end its connection, so that the listeners come first.
        for core in &mut world.cores {
            core.turn(|| false);
        }
        world
    }

    /// Runs one of the loops, chosen at random.
    fn step(&mut self) {
        match self.random.u8(0..5) {
            0 => drop(self.cores[0].turn(|| false)),
            1 => drop(self.cores[1].turn(|| false)),
            2 => drop(self.echo.turn()),
            _ => drop(self.client.turn(|| self.streams.turn())),
        }
    }

    fn run_until(&mut self, what: &str, mut done: impl FnMut(&mut World) -> bool) {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !done(self) {
            assert!(
                std::time::Instant::now() < until,
                "no end of waiting for {what}"
            );
            (0..10).for_each(|_| self.step());
        }
    }

    fn run_until_all_stream(&mut self) {
        self.run_until("all streams", |w| {
            let open = &w.streams.application.open;
            open.len() == 24 && open.values().all(|(_, _, received)| *received > 0)
        });
    }

    /// Ends each stream when everything has returned.
    fn end_streams(&mut self) {
        let EventLoop {
            session,
            application,
        } = &mut self.streams;
        application.ends = true;
        let open: Vec<Connection> = application.open.keys().copied().collect();
        for connection in open {
            application.send(session, connection);
        }
    }

    /// Counts of the server's cores, after checks that they have nothing left of the connections.
    fn nothing_is_left(&mut self) -> Tally {
        self.run_until("the server's ends", |w| w.groups().is_empty());
        let sum = self.sum();
        let wrong = [
            sum.offences,
            sum.overruns,
            sum.over_quota,
            sum.steering_lost,
        ];
        assert_eq!(wrong, [0; 4]);
        assert!(self.cores.iter().all(|core| core.cores.has_no_guests()));
        assert_eq!(sum.applications[0].connections, 0);
        // Every frame has returned, whether it was received there or passed on.
        self.run_until("all frames", |w| {
            let free: u32 = w.cores.iter_mut().map(|c| c.tally().free_frames).sum();
            free == 4096
        });
        sum
    }

    fn sum(&mut self) -> Tally {
        let mut sum = self.cores[0].tally();
        sum.add(&self.cores[1].tally());
        sum
    }

    fn received(&self) -> usize {
        let open = self.streams.application.open.values();
        open.map(|(_, _, received)| received).sum()
    }

    fn groups(&mut self) -> Vec<u8> {
        let tallies = [self.cores[0].tally(), self.cores[1].tally()];
        let groups = tallies.iter().flat_map(|t| &t.groups);
        groups
            .filter(|g| g.connections > 0)
            .map(|g| g.group)
            .collect()
    }
}

fn moves(seed: u64, room: Room) {
    let mut world = World::new(seed, room);
    world.run_until_all_stream();
    for _ in 0..100 {
        let before = world.received();
        let groups = world.groups();
        let group = groups[world.random.usize(..groups.len())];
        let to = 1 - world.hub.owner(group);
        assert!(world.hub.order(usize::from(to), Order::Fetch(group)));
        world.run_until("the move", |w| w.hub.owner(group) == to);
        world.run_until("more data", |w| w.received() > before + 5000);
    }
    world.end_streams();
    world.run_until("the ends", |w| w.streams.application.ended == 24);
    let sum = world.nothing_is_left();
    assert_eq!(sum.groups_moved, 100);
    assert!(sum.connections_moved >= 100, "{}", sum.connections_moved);
    assert_eq!(sum.connections_lost, 0);
}

/// Promise 54.
#[test]
fn bytes_in_are_bytes_out_across_a_hundred_moves() {
    cofferdam_lab::fixtures::time_limit(std::time::Duration::from_secs(60), || {
        moves(1, Room::default());
        let private_frames = Some(2048);
        moves(
            2,
            Room {
                private_frames,
                ..Room::default()
            },
        );
    });
}

/// 24 streams, each with up to 28 sends in flight, under a limit of 128 for all.
/// Promise 70.
#[test]
fn sends_beyond_the_share_of_the_tables_wait_without_loss() {
    cofferdam_lab::fixtures::time_limit(std::time::Duration::from_secs(60), || {
        let chunks = Some(256);
        moves(
            4,
            Room {
                chunks,
                ..Room::default()
            },
        );
    });
}

/// A hostile application answers for groups that never moved, and for connections of others.
#[test]
fn wrong_answers_to_a_move_harm_only_their_sender() {
    let mut world = World::new(3, Room::default());
    let maker = world.cores[0].maker();
    let (domains, outside) = maker
        .make(0, "hostile", Rights::all(), Arc::default())
        .expect("a place");
    for (core, domain) in domains.into_iter().enumerate() {
        assert!(world.hub.order(core, Order::Attach(Box::new(domain))));
    }
    let mut hostile = outside.map().expect("mapped");
    world.run_until("all streams", |w| w.received() > 100_000);
    let entries: Vec<Entry> = (0..FLOW_GROUPS)
        .flat_map(|group| [crate::abi::Call::Passed { group }; 30])
        .map(Entry::from)
        .collect();
    for (end, _) in &mut hostile.cores {
        for entry in &entries {
            end.push(*entry);
        }
        end.publish();
    }
    for group in world.groups() {
        let to = 1 - world.hub.owner(group);
        assert!(world.hub.order(usize::from(to), Order::Fetch(group)));
        world.run_until("the move", |w| w.hub.owner(group) == to);
    }
    let before = world.received();
    world.run_until("more data", |w| w.received() > before + 100_000);
    assert_eq!(world.sum().offences, 0, "to answer unasked is none");
    // A call for another's connection arrives at the wrong core, and the owner reports it.
    let handle = |core: &Engine<Pipe>| core.owners.handles().next();
    let (home, handle) = (0..2)
        .find_map(|n| Some((n, handle(&world.cores[n])?)))
        .expect("a connection");
    let (end, _) = &mut hostile.cores[1 - home];
    end.push(crate::abi::Call::Abort { handle }.into());
    end.publish();
    world.run_until("the offence", |w| {
        w.cores.iter_mut().map(|c| c.tally().offences).sum::<u64>() == 1
    });
    world.run_until("its end everywhere", |w| {
        w.cores.iter_mut().all(|c| c.tally().ended == 1)
    });
    let before = world.received();
    world.run_until("more data", |w| w.received() > before + 100_000);
}
