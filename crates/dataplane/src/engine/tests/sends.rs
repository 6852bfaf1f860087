//! Shares of the table of ranges, which has unacknowledged sends and received data that is pending.

use super::*;
use crate::abi::Condition;
use crate::policy::Shares;
use cofferdam_netstack::ConnectionOptions;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Ranges in the configuration: fewer than two applications may have.
const CHUNKS: u32 = 256;
const FRAMES: u32 = 4096;
pub(super) const LIMIT: Duration = Duration::from_secs(20);

pub(super) fn at(node: u8) -> SocketAddr {
    ([10, 0, 0, 9 + node], 1000).into()
}

/// A dataplane with two applications in its configuration.
fn node(port: Pipe, node: u8) -> Engine<Pipe> {
    node_with(port, node, small().area_bytes)
}

/// A dataplane as [`node`], with `area_bytes` for each application to send from.
pub(super) fn node_with(port: Pipe, node: u8, area_bytes: u32) -> Engine<Pipe> {
    node_with_table(port, node, area_bytes, 64)
}

/// A dataplane as [`node_with`], with `connections`.
pub(super) fn node_with_table(
    port: Pipe,
    node: u8,
    area_bytes: u32,
    connections: u32,
) -> Engine<Pipe> {
    let address = InterfaceAddress {
        ip: at(node).ip(),
        prefix_len: 24,
    };
    let mut config = Config::new(MacAddress([2, 0, 0, 0, 0, node]), vec![address], [7; 16]);
    config.limits.connections = connections;
    config.limits.chunks = CHUNKS;
    let options = Options {
        shares: Shares::equal(2),
        area_bytes,
        ..small()
    };
    let memory = Memory::new(FRAMES, 2048).expect("memory");
    Engine::new(port, memory, config, options).expect("an engine")
}

/// Two dataplanes, and the application of the second.
pub(super) struct Pair {
    pub engine: Engine<Pipe>,
    peer: Engine<Pipe>,
    pub server: MappedChannel,
}

impl Pair {
    pub fn new() -> Pair {
        let (one, other) = pipe(1500).expect("a pipe");
        let (engine, mut peer) = (node(one, 0), node(other, 1));
        let mut server = attach(&mut peer, "server");
        make_calls(&mut server, [listen(1)]);
        Pair {
            engine,
            peer,
            server,
        }
    }

    pub fn turns(&mut self) {
        turns(&mut self.engine, 1);
        turns(&mut self.peer, 1);
    }

    /// Connects each of `applications` to the server. Returns the names of their connections.
    pub fn connect(&mut self, applications: &mut [MappedChannel]) -> Vec<u64> {
        for application in &mut *applications {
            make_calls(application, [connect(1)]);
        }
        let (mut handles, until) = (vec![None; applications.len()], Instant::now() + LIMIT);
        while handles.iter().any(Option::is_none) {
            assert!(Instant::now() < until, "{handles:?}");
            self.turns();
            for condition in read_conditions(&mut self.server) {
                if let Condition::Knock { handle, .. } = condition {
                    make_calls(&mut self.server, [Call::Accept { handle, cookie: 0 }]);
                }
            }
            for (application, handle) in applications.iter_mut().zip(&mut handles) {
                for condition in read_conditions(application) {
                    if let Condition::Connected { handle: name, .. } = condition {
                        *handle = Some(name);
                    }
                }
            }
        }
        handles.into_iter().flatten().collect()
    }

    /// Makes an application send up to its limit. Nothing is acknowledged, because the peer's loop
    /// does not run.
    fn send_all(&mut self, application: &mut MappedChannel, handle: u64) {
        let most = application.sizes.ranges;
        make_calls(application, (0..most).map(|_| send(handle)));
        turns(&mut self.engine, 1);
    }

    #[track_caller]
    fn assert_no_connection_ended(&mut self) {
        let tally = self.engine.tally();
        assert_eq!((tally.overruns, tally.offences), (0, 0));
    }
}

fn listen(node: u8) -> Call {
    Call::Listen {
        local: at(node),
        backlog: 64,
        cookie: 0,
        sharing: Sharing::default(),
    }
}

pub(super) fn connect(node: u8) -> Call {
    Call::Connect {
        remote: at(node),
        cookie: 0,
        options: ConnectionOptions::default(),
    }
}

pub(super) fn send(handle: u64) -> Call {
    let (offset, len) = (0, 1);
    Call::Send {
        handle,
        offset,
        len,
    }
}

pub(super) fn make_calls(application: &mut MappedChannel, calls: impl IntoIterator<Item = Call>) {
    for call in calls {
        assert!(application.first().push(call.into()));
    }
    application.first().publish();
}

pub(super) fn read_conditions(application: &mut MappedChannel) -> Vec<Condition> {
    let end = application.first();
    let all = std::iter::from_fn(|| end.take());
    let all = all.filter_map(|entry| Condition::decode(&entry)).collect();
    end.release();
    all
}

/// Promise 70.
#[test]
fn an_application_that_attaches_many_times_leaves_others_their_sends() {
    let mut pair = Pair::new();
    let honest = attach_as(&mut pair.engine, 0, "honest");
    let mut all = vec![honest];
    all.extend((1..MOST_APPLICATIONS).map(|_| attach_as(&mut pair.engine, 1, "greedy")));
    let handles = pair.connect(&mut all);
    // The honest application is the last to send.
    for (application, handle) in all.iter_mut().zip(handles).rev() {
        pair.send_all(application, handle);
    }
    pair.assert_no_connection_ended();
}

/// Promise 70.
#[test]
fn peers_whose_data_nobody_takes_leave_applications_their_sends() {
    let mut pair = Pair::new();
    let mut honest = [attach_as(&mut pair.engine, 0, "honest")];
    let handle = pair.connect(&mut honest)[0];
    // An application that accepts nothing, and peers whose data is pending for it, byte by byte.
    let mut silent = attach_as(&mut pair.engine, 1, "silent");
    make_calls(&mut silent, [listen(0)]);
    make_calls(&mut pair.server, [connect(0); 4]);
    let (mut open, mut under_way, until) = (Vec::new(), 0, Instant::now() + LIMIT);
    while pair.engine.stack.usage().kept < CHUNKS - 1 {
        assert!(Instant::now() < until, "{:?}", pair.engine.stack.usage());
        pair.turns();
        for condition in read_conditions(&mut pair.server) {
            match condition {
                Condition::Connected { handle, .. } => open.push(handle),
                Condition::Sent { ranges, .. } => under_way -= ranges,
                _ => {}
            }
        }
        if under_way == 0 {
            under_way = open.len() as u32;
            make_calls(&mut pair.server, open.iter().map(|handle| send(*handle)));
        }
    }
    let [honest] = &mut honest;
    pair.send_all(honest, handle);
    pair.assert_no_connection_ended();
}
