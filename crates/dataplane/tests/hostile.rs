//! Hostile applications over the real socket, next to an honest server. They harm no other
//! application, and leave nothing behind.

mod support;

use cofferdam_dataplane::abi::Call;
use cofferdam_dataplane::applications::{Echo, Memcached};
use cofferdam_dataplane::hostile::Attacker;
use cofferdam_dataplane::{
    ConnectionOptions, Event, EventLoop, INTERFACE_VERSION, Session, Sharing, move_group, status,
};
use cofferdam_lab::fixtures::{
    exclusive, number_from_env, send_descriptor, time_limit, wait_until,
};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{ADDRESS, ECHO, Scene, bytes, connect, round_trip};

const LIMIT: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(5);
const EVIL: &str = "[[application]]\nname = \"evil\"\nuser = \"0\"\nconnect = true\n\
    bind = [\"tcp/*:1000-1999\", \"udp/*:1000-1999\"]\n";
/// An address on the link that no host has.
const NOBODY: [u8; 4] = [10, 98, 2, 77];

fn any(port: u16) -> SocketAddr {
    ([0, 0, 0, 0], port).into()
}

fn echo() -> Echo {
    Echo::new(any(7))
}

/// A dataplane with an honest echo server, to which a hostile application may attach as `evil`.
fn scene() -> Scene {
    let mut scene = Scene::new("", &format!("{ECHO}{EVIL}"));
    scene.serve("echo", echo);
    // The server runs before the attack begins.
    scene.client(|| drop(connect(ADDRESS, 7)));
    scene
}

/// Opens the folder of the control socket to all users.
fn open_to_all(scene: &Scene) {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scene.folder(), mode).expect("set");
}

fn attach(socket: &Path) -> Attacker {
    let mut last = None;
    // A place is free again when the dataplane has cleaned up.
    wait_until("a place", PATIENCE, || {
        let attached = Attacker::attach(socket, "evil");
        let is_there = attached.is_ok();
        last = attached.ok();
        is_there
    });
    last.expect("attached")
}

/// Checks that the honest server and the control plane answer.
fn all_is_well(scene: &Scene) {
    let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(20_000, 3)));
    assert!(back == bytes(20_000, 3));
    assert!(status(&scene.socket()).is_ok());
}

/// Frames that the receive ring may lack before it is filled again.
const IN_THE_RING: u64 = 256;

/// Checks that nothing of the attackers is left: their seats and all frames are free. (A test of
/// the engine counts the frames exactly.)
fn nothing_is_left(scene: &Scene, free_frames: u64) {
    wait_until("the clean-up", PATIENCE, || {
        let value = status(&scene.socket()).expect("a status");
        let applications = value["applications"].as_array().map_or(0, Vec::len);
        let free = value["free_frames"].as_u64().unwrap_or(0);
        applications == 1 && free + IN_THE_RING >= free_frames
    });
    // All places except the honest one's can be taken at once.
    let all: Vec<Attacker> = (0..15).map(|_| attach(&scene.socket())).collect();
    assert!(Attacker::attach(&scene.socket(), "evil").is_err(), "full");
    drop(all);
}

/// A full and blocking eventfd counter stopped the loop for good.
/// Promise 69.
#[test]
fn an_application_that_blocks_its_bell_delays_no_loop() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        let mut evil = attach(&scene.socket());
        for _ in 0..20 {
            evil.block_and_fill();
            for delay_ns in [0, 50_000, 1_000_000] {
                let cookie = 0;
                evil.call(Call::Timer { delay_ns, cookie });
            }
            evil.fall_asleep();
            evil.show();
            // The attacker's door is full. Packets of others wake the loop, which then rings its
            // bell.
            all_is_well(&scene);
            evil.fall_asleep();
        }
        all_is_well(&scene);
        wait_until("its timers: it is served, too", PATIENCE, || {
            evil.take();
            evil.timers == 60
        });
        // The end of the scene waits for the loop.
    });
}

/// Promise 69.
#[test]
fn holes_in_shared_memory_harm_only_their_application() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        let free_frames = scene.count("/free_frames");
        for _ in 0..10 {
            let mut evil = attach(&scene.socket());
            for port in 1000..1100 {
                let (local, cookie) = (any(port), 0);
                evil.call(Call::UdpBind { local, cookie });
            }
            evil.show();
            for _ in 0..20 {
                evil.punch();
            }
        }
        all_is_well(&scene);
        nothing_is_left(&scene, free_frames);
    });
}

/// Datagrams for an absent neighbour are pending when their sender ends.
/// Promise 66.
#[test]
fn places_of_an_ended_application_with_pending_datagrams_return() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        let free_frames = scene.count("/free_frames");
        for round in 0..40 {
            let calls = scene.count("/counts/calls");
            let mut evil = attach(&scene.socket());
            let local = any(1000 + round);
            evil.call(Call::UdpBind { local, cookie: 1 });
            evil.show();
            wait_until("the address", PATIENCE, || {
                evil.take();
                evil.last_bound().is_some()
            });
            for token in 0..3 {
                evil.call(Call::UdpSend {
                    handle: evil.last_bound().expect("bound"),
                    remote: (NOBODY, 9).into(),
                    source: None,
                    offset: 0,
                    len: 100,
                    token,
                });
            }
            evil.call(Call::Timer {
                delay_ns: u64::MAX / 4,
                cookie: 1,
            });
            evil.show();
            // The calls for the address, the datagrams and the timer.
            wait_until("its calls", PATIENCE, || {
                scene.count("/counts/calls") >= calls + 5
            });
        }
        nothing_is_left(&scene, free_frames);
        all_is_well(&scene);
    });
}

/// Promise 69.
#[test]
fn an_application_ended_for_an_offence_gets_the_reason() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        let mut evil = attach(&scene.socket());
        evil.call(Call::RecvDone { frame: 3 });
        evil.show();
        let reason = evil.ended(PATIENCE).expect("a reason");
        assert_eq!(reason, "it returned a frame that it did not hold");
        assert!(evil.hangs_up(PATIENCE));
        // An honest client library has the reason in its error.
        let mut session = Session::attach(&scene.socket(), "evil").expect("a place");
        cofferdam_dataplane::hostile::offend(&mut session);
        let error = session.wait(Some(PATIENCE)).expect_err("it was ended");
        let text = "the dataplane has terminated this application: \
            it wrote an entry into its ring that is not a call";
        assert_eq!(error.to_string(), text);
        // An application that never waits gets the reason as well.
        let mut session = Session::attach(&scene.socket(), "evil").expect("a place");
        cofferdam_dataplane::hostile::offend(&mut session);
        session.flush();
        let mut error = None;
        wait_until("the end", PATIENCE, || {
            error = session.check().err();
            error.is_some()
        });
        assert_eq!(error.expect("an error").to_string(), text);
        all_is_well(&scene);
    });
}

/// Runs `body` on a thread of another user.
fn as_user<T: Send + 'static>(uid: u32, body: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        // SAFETY: the bare system call changes this thread alone.
        let outcome = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
        assert_eq!(outcome, 0);
        body()
    });
    thread.join().expect("the user's thread ends")
}

/// Silent connections to the control socket, as many as the user can open.
fn silent_askers(path: &Path, count: usize) -> Vec<OwnedFd> {
    let one = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket::socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
        let fd = fd.expect("a socket");
        let address = UnixAddr::new(path).expect("an address");
        let connected = socket::connect(fd.as_raw_fd(), &address);
        connected.is_ok().then_some(fd)
    };
    (0..count).filter_map(|_| one()).collect()
}

/// Promise 71.
#[test]
fn silent_clients_keep_out_neither_root_nor_applications() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        open_to_all(&scene);
        let socket = scene.socket();
        let end = Arc::new(AtomicBool::new(false));
        let opened = Arc::new(AtomicUsize::new(0));
        let (theirs, count) = (end.clone(), opened.clone());
        let flood = std::thread::spawn(move || {
            as_user(65_534, move || {
                while !theirs.load(Ordering::Relaxed) {
                    let all = silent_askers(&socket, 200);
                    count.fetch_add(all.len(), Ordering::Relaxed);
                    // The connections stay for a while, during the others' requests.
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
        });
        wait_until("the flood", PATIENCE, || {
            opened.load(Ordering::Relaxed) > 200
        });
        for _ in 0..50 {
            assert!(status(&scene.socket()).is_ok());
            drop(attach(&scene.socket()));
        }
        end.store(true, Ordering::Relaxed);
        flood.join().expect("the flood ends");
        all_is_well(&scene);
    });
}

/// Each request took 26 MB for nobody, and root's status had no answer in 5 s.
/// Promise 71.
#[test]
fn abandoned_requests_keep_out_neither_root_nor_applications() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let theirs = EVIL.replace("user = \"0\"", "user = \"65534\"");
        let honest = "[[application]]\nname = \"honest\"\nuser = \"0\"\n";
        let mut scene = Scene::new("", &format!("{ECHO}{theirs}{honest}"));
        scene.serve("echo", echo);
        open_to_all(&scene);
        let request = format!(
            "{{\"attach\": {{\"version\": {INTERFACE_VERSION}, \"application\": \"evil\"}}}}"
        );
        let (end, asked) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let flood: Vec<_> = (0..4)
            .map(|_| {
                let (socket, request) = (scene.socket(), request.clone());
                let (end, asked) = (end.clone(), asked.clone());
                let body = move || {
                    while !end.load(Ordering::Relaxed) {
                        for asker in silent_askers(&socket, 1) {
                            let flags = socket::MsgFlags::MSG_NOSIGNAL;
                            let sent = socket::send(asker.as_raw_fd(), request.as_bytes(), flags);
                            asked.fetch_add(usize::from(sent.is_ok()), Ordering::Relaxed);
                        }
                    }
                };
                std::thread::spawn(|| as_user(65_534, body))
            })
            .collect();
        wait_until("the flood", PATIENCE, || {
            asked.load(Ordering::Relaxed) > 200
        });
        for _ in 0..5 {
            assert!(status(&scene.socket()).is_ok());
            let session = Session::attach(&scene.socket(), "honest");
            drop(session.expect("it has its turn"));
        }
        end.store(true, Ordering::Relaxed);
        flood
            .into_iter()
            .for_each(|flood| flood.join().expect("the flood ends"));
        println!("{} asked and hung up", asked.load(Ordering::Relaxed));
        all_is_well(&scene);
    });
}

/// Promise 71.
#[test]
fn another_user_may_not_query_status_or_move_groups() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        open_to_all(&scene);
        let socket = scene.socket();
        let outcomes = as_user(65_534, move || {
            let status = status(&socket).map(drop);
            [status, move_group(&socket, 0, 0).map(drop)]
        });
        for outcome in outcomes {
            let error = outcome.expect_err("refused").to_string();
            assert_eq!(error, "the dataplane refused: only root may do that");
        }
        assert_eq!(move_group(&scene.socket(), 0, 0).ok(), Some(0));
        all_is_well(&scene);
    });
}

/// The receiver of a descriptor closes it. This one would be closed for an hour: it lingers over
/// data that its peer does not read.
/// Promise 71.
#[test]
fn a_lingering_descriptor_does_not_stop_the_control_plane() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let mut full = TcpStream::connect(address).expect("connected");
        full.set_nonblocking(true).expect("set");
        while full.write(&[0; 65_536]).is_ok() {}
        let hour = libc::linger {
            l_onoff: 1,
            l_linger: 3600,
        };
        socket::setsockopt(&full, socket::sockopt::Linger, &hour).expect("set");
        let asker = silent_askers(&scene.socket(), 1).remove(0);
        assert_eq!(
            send_descriptor(&asker, &full),
            Err(nix::errno::Errno::EPERM),
            "Linux 6.16 refuses it"
        );
        all_is_well(&scene);
        let none = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        socket::setsockopt(&full, socket::sockopt::Linger, &none).expect("set");
    });
}

/// Ports, connections, timers, datagrams and neighbours: a greedy application takes all that it
/// can, and a later server has its share of each.
/// Promise 70.
#[test]
fn a_greedy_application_leaves_others_their_share_of_every_table() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let cache = "[[application]]\nname = \"cache\"\nuser = \"0\"\nbind = [\"tcp/*:11211\"]\n\
            connect = true\n";
        let table = "[tcp]\nconnections = 4096\n";
        let mut scene = Scene::new("", &format!("{table}{ECHO}{EVIL}{cache}"));
        scene.serve("echo", echo);
        let mut evil = attach(&scene.socket());
        for port in 1000..2000 {
            let (local, cookie) = (any(port), 0);
            evil.call(Call::UdpBind { local, cookie });
            evil.call(Call::Listen {
                local,
                backlog: 1,
                cookie,
                sharing: Sharing::default(),
            });
        }
        evil.show();
        wait_until("the addresses", PATIENCE, || {
            evil.take();
            evil.bound.0 + evil.bound.1 == 2000
        });
        let handle = evil.last_bound().expect("some");
        for n in 0..6000_u32 {
            let [.., a, b] = n.to_be_bytes();
            let unknown = SocketAddr::from(([10, 98, 2, 100 + b % 100], 5 + u16::from(a)));
            let calls = [
                Call::Connect {
                    remote: (unknown.ip(), 9).into(),
                    cookie: 0,
                    options: ConnectionOptions::default(),
                },
                Call::Timer {
                    delay_ns: 60_000_000_000,
                    cookie: 0,
                },
                Call::UdpSend {
                    handle,
                    remote: unknown,
                    source: None,
                    offset: 0,
                    len: 9,
                    token: 0,
                },
            ];
            for call in calls {
                wait_until("room in its ring", PATIENCE, || {
                    let has_room = evil.call(call);
                    if !has_room {
                        evil.show();
                        evil.take();
                    }
                    has_room
                });
            }
        }
        evil.show();
        wait_until("the refusals", PATIENCE, || {
            evil.take();
            evil.no_room > 1000 && evil.timers > 1000
        });
        // The greedy application has its own share: the first one that asks gets half of the table.
        assert!(evil.bound.0 >= 64, "{:?}", evil.bound);
        // Others find their share.
        all_is_well(&scene);
        scene.serve("cache", || Memcached::new(any(11211), 1 << 20));
        scene.client(|| {
            let mut stream = connect(ADDRESS, 11211);
            stream.write_all(b"set k 0 0 1\r\nv\r\n").expect("sent");
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"STORED\r\n");
        });
        let server = scene
            .client(|| std::net::TcpListener::bind("10.98.2.2:80"))
            .expect("free");
        let accepted = std::thread::spawn(move || server.accept());
        let mut session = Session::attach(&scene.socket(), "cache").expect("a place");
        session.connect(([10, 98, 2, 2], 80).into());
        session.timer(Duration::from_millis(300), 5);
        let start = Instant::now();
        let mut events = Vec::new();
        while events.len() < 2 {
            session.wait(Some(PATIENCE)).expect("it is there");
            while let Some(event) = session.next_event() {
                // A timer without a place fires at once; others count from the start of their turn.
                let early = start.elapsed() < Duration::from_millis(150);
                match event {
                    Event::Connected { .. } => events.push(("connected", false)),
                    Event::Timer(5) => events.push(("timer", early)),
                    // The window has grown.
                    Event::Sent { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(events, [("connected", false), ("timer", false)]);
        accepted.join().expect("no panic").expect("accepted");
    });
}

/// The server's address is another's. It reports that and ends.
/// unbound.
/// Promise 75.
#[test]
fn a_server_without_its_address_ends_with_the_reason() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        let session = Session::attach(&scene.socket(), "evil").expect("a place");
        let mut server = EventLoop::new(session, Memcached::new(any(7), 1 << 20));
        let error = server
            .run(PATIENCE, |_| false)
            .expect_err("it cannot serve");
        assert_eq!(
            error.to_string(),
            "cannot serve 0.0.0.0:7: the dataplane's configuration does not give this address to \
             this application"
        );
    });
}

/// Duration in seconds of the long test in `make test`. An hour: COFFERDAM_HOSTILE_SECONDS=3600.
const SECONDS: u64 = 60;

/// Runs one hostile history: attaches, acts, and ends in silence or is ended.
fn history(socket: &Path, random: &mut fastrand::Rng) -> u64 {
    let ports: Vec<SocketAddr> = (1000..1040).map(any).collect();
    let peers: Vec<SocketAddr> = [[10, 98, 2, 2], NOBODY, [10, 98, 2, 78], [8, 8, 8, 8]]
        .into_iter()
        .flat_map(|ip| [(ip, 9).into(), (ip, 4000).into()])
        .collect();
    // All places may be taken at the moment.
    let Ok(mut evil) = Attacker::attach(socket, "evil") else {
        return 0;
    };
    let mut done = 0;
    for _ in 0..random.u32(1..40) {
        let mut may_offend = false;
        for _ in 0..random.u32(1..200) {
            let words = std::array::from_fn(|_| random.u64(..));
            may_offend |= evil.act(words, &ports, &peers);
            done += 1;
        }
        evil.show();
        if random.bool() {
            std::thread::sleep(Duration::from_micros(random.u64(..2000)));
        }
        if random.u8(..8) > 0 {
            evil.take();
        }
        if may_offend && evil.ended(Duration::ZERO).is_some() {
            break;
        }
    }
    done
}

/// Promise 69.
#[test]
fn a_minute_of_hostile_histories_harms_no_honest_server() {
    let _alone = exclusive();
    let seconds = number_from_env("COFFERDAM_HOSTILE_SECONDS").unwrap_or(SECONDS);
    let length = Duration::from_secs(seconds);
    let seed = number_from_env("COFFERDAM_HOSTILE_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("COFFERDAM_HOSTILE_SEED={seed}");
    time_limit(length + LIMIT, move || {
        let scene = scene();
        let free_frames = scene.count("/free_frames");
        let end = Arc::new(AtomicBool::new(false));
        let attackers: Vec<_> = (0..3)
            .map(|n| {
                let (socket, end) = (scene.socket(), end.clone());
                let mut random = fastrand::Rng::with_seed(seed.wrapping_add(n));
                std::thread::spawn(move || {
                    let (mut histories, mut acts) = (0_u64, 0);
                    while !end.load(Ordering::Relaxed) {
                        let done = history(&socket, &mut random);
                        histories += u64::from(done > 0);
                        acts += done;
                    }
                    (histories, acts)
                })
            })
            .collect();
        let start = Instant::now();
        let mut rounds = 0_u64;
        while start.elapsed() < length {
            rounds += 1;
            let back = scene.client(move || round_trip(connect(ADDRESS, 7), bytes(50_000, rounds)));
            assert!(back == bytes(50_000, rounds), "round {rounds}");
            assert!(status(&scene.socket()).is_ok(), "round {rounds}");
        }
        end.store(true, Ordering::Relaxed);
        for attacker in attackers {
            let (histories, acts) = attacker.join().expect("no panic");
            println!("{histories} histories of {acts} acts");
            assert!(histories > 0);
        }
        nothing_is_left(&scene, free_frames);
        all_is_well(&scene);
        println!(
            "{rounds} rounds; {} offences",
            scene.count("/counts/offences")
        );
    });
}
