//! The server with a source without a kernel: what one namespace may see, and what hostile clients
//! may do.

use super::*;
use crate::clock::Clock;
use crate::sample::Sample;
use crate::stages::tests::report;
use cofferdam_bpf::latency::{Counts, Direction, Filter};
use cofferdam_paths::SocketFile;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};
use std::rc::Rc;

#[derive(Default)]
struct FakeState {
    measured: BTreeSet<NetnsId>,
    waiting: Vec<Sample>,
    ended: BTreeSet<NetnsId>,
}

#[derive(Clone, Default)]
struct Fake(Rc<RefCell<FakeState>>);

impl Source for Fake {
    fn on(&mut self, netns: NetnsId, _: &Filter) -> Result<(), NotMeasured> {
        self.0.borrow_mut().measured.insert(netns);
        Ok(())
    }
    fn off(&mut self, netns: NetnsId) {
        self.0.borrow_mut().measured.remove(&netns);
    }
    fn take(&mut self, sink: &mut dyn FnMut(Sample)) {
        let waiting = std::mem::take(&mut self.0.borrow_mut().waiting);
        waiting.into_iter().for_each(sink);
    }
    fn counts(&self, _: NetnsId) -> Counts {
        Counts::default()
    }
    fn living(&self) -> BTreeSet<NetnsId> {
        let ended = &self.0.borrow().ended;
        (0..100)
            .map(NetnsId)
            .filter(|n| !ended.contains(n))
            .collect()
    }
}

fn sample(netns: u32, total_ns: u32) -> Sample {
    let points = [Some(0), None, None, None, Some(total_ns)];
    let mut report = report(Direction::Egress, points);
    report.netns = NetnsId(netns);
    Sample::new(report, &Clock::now())
}

struct Scene {
    server: Server<Fake>,
    fake: Fake,
    path: std::path::PathBuf,
    next: Rc<RefCell<VecDeque<Peer>>>,
    wake: UnixStream,
    _wake: UnixStream,
    _file: SocketFile,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new(limits: Limits) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (listener, file) = bind(&path).unwrap();
        let next: Rc<RefCell<VecDeque<Peer>>> = Rc::default();
        let queue = next.clone();
        let identify = move |_: &UnixStream| match queue.borrow_mut().pop_front() {
            Some(peer) => Ok(peer),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        let fake = Fake::default();
        let server = Server::new(listener, fake.clone(), limits, Box::new(identify)).unwrap();
        let (wake, other) = UnixStream::pair().unwrap();
        Scene {
            server,
            fake,
            path,
            next,
            wake,
            _wake: other,
            _file: file,
            _dir: dir,
        }
    }

    fn connect(&mut self, netns: u32) -> UnixStream {
        self.connect_as(1000, netns)
    }

    fn connect_as(&mut self, uid: u32, netns: u32) -> UnixStream {
        let netns = NetnsId(netns);
        self.next.borrow_mut().push_back(Peer { netns, uid });
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_nonblocking(true).unwrap();
        self.run_turns(2);
        stream
    }

    fn run_turns(&mut self, count: usize) {
        for _ in 0..count {
            let woken = self.server.turn(self.wake.as_fd(), Duration::ZERO).unwrap();
            assert!(!woken);
        }
    }

    /// Sends `text` and returns the whole answer.
    fn exchange(&mut self, stream: &mut UnixStream, text: &[u8]) -> String {
        let _ = stream.write_all(text);
        self.run_turns(4);
        all(stream)
    }

    fn measured(&mut self, sample: Sample) {
        self.fake.0.borrow_mut().waiting.push(sample);
    }
}

fn all(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut part) {
        bytes.extend_from_slice(&part[..n]);
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_three_steps_of_mace() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connect(7);
    assert_eq!(scene.exchange(&mut client, b"on\n"), "ok on\n");
    scene.measured(sample(7, 80_932));
    let text = scene.exchange(&mut client, b"read mace\n");
    assert!(
        text.starts_with('[') && text.ends_with("(1) egress: 80932\n\n"),
        "{text}"
    );
    assert_eq!(
        scene.exchange(&mut client, b"read mace\n"),
        "\n",
        "read already"
    );
    // A second reader has its own place.
    let mut other = scene.connect(7);
    let text = scene.exchange(&mut other, b"read\n");
    assert!(text.contains(" total_ns=80932 "), "{text}");
    assert!(text.ends_with("ok 1 reports, 0 lost\n"), "{text}");
    assert_eq!(scene.exchange(&mut client, b"off\n"), "ok off\n");
    assert!(scene.fake.0.borrow().measured.is_empty());
}

/// Promise 72.
#[test]
fn a_namespace_sees_nothing_of_another() {
    let mut scene = Scene::new(Limits::default());
    let mut alone = scene.connect(1);
    let words: [&[u8]; 5] = [b"status\n", b"read\n", b"read mace\n", b"off\n", b"help\n"];
    let before = words.map(|w| scene.exchange(&mut alone, w));
    let mut other = scene.connect(2);
    assert_eq!(scene.exchange(&mut other, b"on\nfollow\n"), "ok on\n");
    for i in 0..100 {
        scene.measured(sample(2, 1000 + i));
    }
    // While its neighbour measures and follows, each answer stays the same to the letter.
    let after = words.map(|w| scene.exchange(&mut alone, w));
    assert_eq!(before, after);
    assert_eq!(all(&mut other).lines().count(), 100);
    // Both on: each sees its own.
    assert_eq!(scene.exchange(&mut alone, b"on\n"), "ok on\n");
    scene.measured(sample(2, 5));
    scene.measured(sample(1, 6));
    let text = scene.exchange(&mut alone, b"read\n");
    assert!(
        text.contains(" total_ns=6 ") && text.ends_with("ok 1 reports, 0 lost\n"),
        "{text}"
    );
    // Switching off does not switch the neighbour off.
    scene.exchange(&mut alone, b"off\n");
    assert!(scene.fake.0.borrow().measured.contains(&NetnsId(2)));
}

#[test]
fn a_client_that_cannot_be_identified_gets_nothing() {
    let mut scene = Scene::new(Limits::default());
    let mut stream = UnixStream::connect(&scene.path).unwrap();
    stream.set_nonblocking(true).unwrap();
    scene.run_turns(2);
    assert_eq!(scene.exchange(&mut stream, b"on\n"), "");
}

/// Promise 72.
#[test]
fn garbage_is_answered_and_half_a_line_waits() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connect(1);
    assert!(
        scene
            .exchange(&mut client, b"\xff\x00\n")
            .starts_with("error ")
    );
    assert_eq!(scene.exchange(&mut client, b"o"), "");
    assert_eq!(scene.exchange(&mut client, b"n\r\n"), "ok on\n");
    let long = [b'x'; 300];
    assert!(scene.exchange(&mut client, &long).contains("too long"));
    scene.run_turns(2);
    assert!(scene.server.clients.is_empty(), "closed");
}

#[test]
fn the_answer_comes_after_the_client_has_closed_its_side() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connect(1);
    client.write_all(b"status").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    scene.run_turns(4);
    assert!(all(&mut client).starts_with("ok off"));
    assert!(scene.server.clients.is_empty());
}

/// Promise 72.
#[test]
fn a_client_that_does_not_read_delays_no_other() {
    let mut scene = Scene::new(Limits {
        samples_per_netns: 2000,
        ..Limits::default()
    });
    let mut lazy = scene.connect(1);
    scene.exchange(&mut lazy, b"on\nfollow\n");
    let mut reader = scene.connect(1);
    for i in 0..20_000 {
        scene.measured(sample(1, i));
        if i % 500 == 0 {
            scene.run_turns(1);
        }
    }
    scene.run_turns(2);
    let text = scene.exchange(&mut reader, b"status\n");
    assert!(text.starts_with("ok on"), "{text}");
    assert!(
        scene
            .server
            .clients
            .iter()
            .all(|c| c.room() <= client::OUT_BYTES)
    );
    // Once it reads, it learns how many samples it missed.
    let mut text = String::new();
    for _ in 0..400 {
        text += &all(&mut lazy);
        scene.run_turns(1);
    }
    assert!(text.contains("\nlost "), "nothing was lost");
    let returned = text.lines().filter(|l| l.starts_with("egress")).count() as u64;
    let lost: u64 = text
        .lines()
        .filter_map(|l| l.strip_prefix("lost ")?.parse::<u64>().ok())
        .sum();
    assert_eq!(returned + lost, 20_000);
}

/// Promise 72.
#[test]
fn a_flood_of_requests_is_answered_in_turns() {
    let mut scene = Scene::new(Limits::default());
    let mut flood = scene.connect(1);
    let mut polite = scene.connect(1);
    let many = b"help\n".repeat(20_000);
    let _ = flood.write(&many);
    assert_eq!(scene.exchange(&mut polite, b"on\n"), "ok on\n");
    assert!(scene.server.clients.iter().all(|c| c.room() + 4096 > 0));
}

/// The server would have to close it, which may take as long as its sender likes.
///
/// Promise 71.
#[test]
fn no_client_can_send_the_server_a_descriptor() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connect(1);
    let sent = cofferdam_lab::fixtures::send_descriptor(&client, &client);
    assert_eq!(sent, Err(nix::errno::Errno::EPERM), "Linux 6.16 refuses it");
    assert_eq!(scene.exchange(&mut client, b"on\n"), "ok on\n");
}

/// Counts the `streams` that the server has closed, and checks its last answer.
fn closed(streams: &mut [UnixStream]) -> usize {
    let is_closed = |stream: &mut UnixStream| {
        let text = all(stream);
        assert!(text.is_empty() || text == TOO_MANY, "{text}");
        !text.is_empty()
    };
    streams.iter_mut().map(is_closed).filter(|c| *c).count()
}

/// Promise 72.
#[test]
fn a_namespace_at_its_limit_replaces_its_own_connection() {
    let mut scene = Scene::new(Limits::default());
    let mut other = scene.connect(2);
    let mut all: Vec<UnixStream> = (0..600).map(|_| scene.connect(1)).collect();
    assert_eq!(scene.server.clients.len(), 1 + CLIENTS_A_NAMESPACE);
    assert_eq!(closed(&mut all), 600 - CLIENTS_A_NAMESPACE);
    assert!(scene.exchange(&mut other, b"on\n").starts_with("ok on"));
    let newest = all.last_mut().unwrap();
    assert!(scene.exchange(newest, b"on\n").starts_with("ok on"));
    drop(all);
    scene.run_turns(2);
    assert_eq!(scene.server.clients.len(), 1);
}

/// Promise 72.
#[test]
fn no_user_keeps_root_out_or_takes_another_users_connections() {
    let mut scene = Scene::new(Limits::default());
    let mut connections: Vec<UnixStream> = (0..CLIENTS_A_NAMESPACE)
        .map(|_| scene.connect_as(1000, 1))
        .collect();
    let mut stranger = scene.connect_as(1001, 1);
    assert_eq!(closed(std::slice::from_mut(&mut stranger)), 1, "refused");
    assert_eq!(closed(&mut connections), 0);
    let mut root = scene.connect_as(0, 1);
    assert!(scene.exchange(&mut root, b"on\n").starts_with("ok on"));
    assert_eq!(closed(&mut connections), 1, "one made room for root");
}

/// Promise 72.
#[test]
fn all_namespaces_together_have_their_limit_and_the_greediest_gives() {
    // Raises the limit of open files: both ends are here.
    let _files = cofferdam_lab::fixtures::Crowd::new();
    let mut scene = Scene::new(Limits::default());
    let namespaces = 0..(CLIENTS / CLIENTS_A_NAMESPACE) as u32;
    let places = namespaces.flat_map(|netns| [netns; CLIENTS_A_NAMESPACE]);
    let mut clients: Vec<UnixStream> = places.map(|netns| scene.connect(netns)).collect();
    assert_eq!(scene.server.clients.len(), CLIENTS);
    let mut late: Vec<UnixStream> = (0..4).map(|_| scene.connect(90)).collect();
    assert_eq!(scene.server.clients.len(), CLIENTS);
    assert_eq!((closed(&mut late), closed(&mut clients)), (0, 4));
}

#[test]
fn a_namespace_that_has_gone_is_forgotten() {
    let mut scene = Scene::new(Limits::default());
    let mut client = scene.connect(1);
    scene.exchange(&mut client, b"on\n");
    scene.fake.0.borrow_mut().ended.insert(NetnsId(1));
    scene.server.spaces.look_now();
    scene.run_turns(1);
    assert!(scene.fake.0.borrow().measured.is_empty());
}
