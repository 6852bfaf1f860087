//! The control plane over cores that only the test drives.

use super::*;
use crate::attach::root_socket;
use crate::elastic::{Change, Move, Plan};
use crate::engine::Engine;
use crate::tuning::control::ACCEPT_AT_ONCE;
use cofferdam_lab::fixtures::{CROWD, Crowd, time_limit};
use cofferdam_xsk::{Memory, Pipe, Port, pipe};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// The control plane of an elastic dataplane, and its cores.
fn control(folder: &Path) -> (Control, Vec<Engine<Pipe>>) {
    let text = format!(
        "metrics = \"127.0.0.1:0\"\nsocket = \"{}\"\n[device]\nname = \"none\"\n\
         [network]\naddresses = [\"10.0.0.9/24\"]\n\
         [tcp]\nconnections = 64\n[elastic]\n[[core]]\n[[core]]\n",
        folder.join("dataplane.sock").display()
    );
    let config = Config::parse(&text).expect("a configuration");
    let port = || pipe(1500).expect("a pipe").0;
    let memory = Memory::new(512, 2048).expect("memory");
    let ports = [vec![port()], vec![port()]]
        .into_iter()
        .zip(memory.split(2))
        .collect();
    let stack = config.stack(&[([2; 6], 1500)], [7; 16]);
    let engines = Engine::several(ports, &stack, config.options).expect("two cores");
    let (hub, maker) = (engines[0].hub(), engines[0].maker());
    let facts = port().facts().clone();
    let control = Control::open(config, &[facts], hub, maker).expect("a control plane");
    (control, engines)
}

fn plan(groups: std::ops::Range<u8>) -> Plan {
    Plan {
        change: Change::Add(1),
        moves: groups.map(|group| Move { group, to: 1 }).collect(),
        why: "for a test".to_owned(),
    }
}

fn begin(control: &mut Control, plan: Plan) {
    control.scaler.as_mut().expect("elastic cores").begin(plan);
}

fn turns(engines: &mut [Engine<Pipe>]) {
    for _ in 0..8 {
        for engine in &mut *engines {
            engine.turn(|| false);
        }
    }
}

/// Promise 66.
#[test]
fn a_file_at_the_socket_path_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("dataplane.sock");
    std::fs::write(&path, "precious").expect("written");
    let refused = Door::open(&path).err().expect("refused").to_string();
    assert!(refused.contains("exists and is not a socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "precious");
    std::fs::remove_file(&path).expect("removed");
    // The socket of another daemon has another type, and stays too.
    let _agent = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    let refused = Door::open(&path).err().expect("refused").to_string();
    assert!(refused.contains("another process listens"), "{refused}");
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
}

/// Connects to a control socket and sends a request; `None` if the backlog is full.
fn ask(path: &Path, request: &str) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
    let fd = fd.expect("a socket");
    let address = UnixAddr::new(path).expect("an address");
    match connect(fd.as_raw_fd(), &address) {
        Err(Errno::EAGAIN) => return None,
        outcome => outcome.expect("connected"),
    }
    let sent = send(fd.as_raw_fd(), request.as_bytes(), MsgFlags::MSG_NOSIGNAL);
    sent.expect("sent");
    Some(fd)
}

fn answer_of(fd: &OwnedFd) -> Option<String> {
    let mut bytes = vec![0; 64 << 10];
    let len = recv(fd.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT).ok()?;
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}

/// Runs `body` on a thread of a user without rights.
fn as_nobody<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    let body = || {
        let nobody = 65_534;
        // SAFETY: the bare system call changes this thread alone.
        let outcome = unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) };
        assert_eq!(outcome, 0);
        body()
    };
    std::thread::scope(|scope| scope.spawn(body).join().expect("no panic"))
}

/// Fills the backlog with requests to attach whose client has closed its socket. Returns their
/// number.
fn flood(path: &Path) -> usize {
    let request = attach_request("evil");
    as_nobody(|| std::iter::from_fn(|| ask(path, &request)).count())
}

fn attach_request(application: &str) -> String {
    format!(
        "{{\"attach\": {{\"version\": {INTERFACE_VERSION}, \"application\": \"{application}\"}}}}"
    )
}

/// Promise 71.
#[test]
fn an_attach_flood_costs_root_no_turn_and_others_few() {
    time_limit(Duration::from_secs(60), || {
        let folder = tempfile::tempdir().expect("a folder");
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), everybody).expect("set");
        let (mut control, _engines) = control(folder.path());
        let path = folder.path().join("dataplane.sock");
        let backlog = flood(&path);
        assert!(ask(&path, "").is_none(), "its backlog is full");
        // Root has a socket of its own.
        let of_root = ask(&root_socket(&path), "{\"status\": {}}").expect("room");
        control.turn();
        let answer = answer_of(&of_root).expect("an answer in the same turn");
        assert!(answer.starts_with("{\"status\""), "{answer}");
        // The work of a turn is bounded.
        assert_eq!(flood(&path), ACCEPT_AT_ONCE.min(backlog));
        // Another user's application is served after the requests before it.
        control.turn();
        let honest = ask(&path, &attach_request("unknown")).expect("room");
        let most = backlog.div_ceil(ACCEPT_AT_ONCE) + 1;
        let mut answer = None;
        for _ in 0..most {
            flood(&path);
            control.turn();
            answer = answer.or_else(|| answer_of(&honest));
        }
        let answer = answer.unwrap_or_else(|| panic!("no answer in {most} turns"));
        assert!(answer.contains("has no application 'unknown'"), "{answer}");
    });
}

#[test]
fn other_users_cannot_open_the_socket_of_root() {
    let folder = tempfile::tempdir().expect("a folder");
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).expect("set");
    let (control, _engines) = control(folder.path());
    let path = folder.path().join("dataplane.sock");
    let refused = as_nobody(|| {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
        let address = UnixAddr::new(&root_socket(&path)).expect("an address");
        connect(fd.expect("a socket").as_raw_fd(), &address)
    });
    assert_eq!(refused, Err(Errno::EACCES));
    drop(control);
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "both files are removed");
}

/// Promise 71.
#[test]
fn status_and_scrapes_are_answered_in_a_crowd_of_5000() {
    time_limit(Duration::from_secs(120), beside_a_crowd);
}

fn beside_a_crowd() {
    let mut crowd = Crowd::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (control, _engines) = control(folder.path());
    let address = control.metrics.as_ref().and_then(Exporter::address);
    let address = address.expect("it listens");
    let (socket, stop) = (folder.path().join("dataplane.sock"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let control = scope.spawn(|| control.run(&stop, |notice| panic!("{notice:?}")));
        let mut slowest = Duration::ZERO;
        for _ in 0..10 {
            crowd.grow(address, CROWD / 10);
            let start = Instant::now();
            assert!(crate::attach::status(&socket).is_ok());
            slowest = slowest.max(start.elapsed());
            assert!(scrape(address).contains("cofferdam_dataplane_"));
        }
        // The control plane ends while all of them are connected.
        let start = Instant::now();
        stop.store(true, Ordering::Relaxed);
        control.join().expect("no panic").expect("it ends");
        println!("slowest status {slowest:?}, end {:?}", start.elapsed());
    });
}

fn scrape(address: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    let limit = Some(Duration::from_secs(20));
    stream.set_read_timeout(limit).expect("set");
    let get = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    stream.write_all(get).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// Promise 54.
#[test]
fn a_plan_is_carried_out_one_group_after_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut control, mut engines) = control(folder.path());
    assert_eq!(control.status()["cores_in_use"], 1);
    begin(&mut control, plan(5..15));
    let until = Instant::now() + Duration::from_secs(20);
    while control.scaler.as_ref().is_some_and(Scaler::is_at_work) {
        assert!(Instant::now() < until, "it does not end");
        control.follow_load(|notice| panic!("{notice:?}"));
        turns(&mut engines);
    }
    let at = |control: &Control, core: u8| {
        let owners = control.hub.owners().into_iter();
        owners.filter(|owner| *owner == core).count()
    };
    assert_eq!((at(&control, 0), at(&control, 1)), (118, 10));
    let status = control.status();
    assert_eq!(status["elastic"]["cores_added"], 1);
    assert_eq!(status["elastic"]["groups_moved"], 10);
    assert_eq!(status["elastic"]["last_decision"], "for a test");
    assert_eq!(status["cores_in_use"], 2);
    let text = metrics::text(
        &control.counted().0,
        &control.counted().1,
        control.scaler.as_ref().map(Scaler::status).as_ref(),
        &control.config.links,
    );
    for line in [
        "cofferdam_dataplane_cores_in_use{device=\"none\"} 2",
        "cofferdam_dataplane_core_changes_total{device=\"none\",change=\"added\"} 1",
        "cofferdam_dataplane_core_changes_total{device=\"none\",change=\"removed\"} 0",
        "cofferdam_dataplane_elastic_groups_moved_total{device=\"none\"} 10",
        "cofferdam_dataplane_elastic_moves_stuck_total{device=\"none\"} 0",
        "cofferdam_dataplane_link_received_packets_total{device=\"none\",link=\"none\"} 0",
        "cofferdam_dataplane_core_queue_delay_seconds{device=\"none\",core=\"1\",cpu=\"any\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "no `{line}` in\n{text}");
    }
}

/// Promise 54.
#[test]
fn a_stuck_move_is_reported_once_and_delays_no_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut control, mut engines) = control(folder.path());
    begin(&mut control, plan(5..15));
    let notices = Mutex::new(Vec::new());
    let until = Instant::now() + Duration::from_secs(20);
    // No core runs, so that the first group never arrives.
    while notices.lock().expect("no panic").is_empty() {
        assert!(Instant::now() < until, "nothing is reported");
        control.follow_load(|notice| notices.lock().expect("no panic").push(notice));
    }
    for _ in 0..20 {
        control.follow_load(|notice| notices.lock().expect("no panic").push(notice));
    }
    let notices = notices.into_inner().expect("no panic");
    assert_eq!(notices, [Notice::Stuck { group: 5, core: 1 }]);
    let status = control.status();
    assert_eq!(status["elastic"]["moves_stuck"], 1);
    assert_eq!(status["elastic"]["cores_added"], 0);
    let why = status["elastic"]["last_decision"].as_str();
    assert!(why.is_some_and(|why| why.contains("flow group 5 is stuck on its way to core 1")));
    let error = control.move_group(9, 1).expect_err("one at a time");
    assert!(error.contains("flow group 5 is still moving to"), "{error}");
    // Moves continue when the group has arrived. The rest of the plan is dropped.
    turns(&mut engines);
    assert!(control.moves.on_its_way().is_none());
    control.follow_load(|notice| panic!("{notice:?}"));
    assert_eq!(control.hub.owner(5), 1);
    assert_eq!(control.hub.owner(6), 0);
    assert_eq!(control.status()["elastic"]["groups_moved"], 1);
}
