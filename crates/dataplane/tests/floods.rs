//! Floods and greedy applications, end to end over veth: memory is bounded, losses are counted, and
//! others are served.

mod support;

use cofferdam_dataplane::applications::Echo;
use cofferdam_dataplane::{Application, Event, ReceivedData, Session};
use cofferdam_lab::fixtures::{exclusive, time_limit, wait_until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use support::{ADDRESS, ECHO, Scene, bytes, connect, echo_and, round_trip};

const LIMIT: Duration = Duration::from_secs(90);
const PACKETS: u32 = 20_000;
const OURS: Ipv4Addr = Ipv4Addr::new(10, 98, 2, 9);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 98, 2, 2);
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// A TCP segment for port 7 of the dataplane.
struct ForgedSegment {
    from: Ipv4Addr,
    port: u16,
    flags: u8,
    sequence: u32,
    acknowledgement: u32,
    payload: &'static [u8],
}

impl ForgedSegment {
    /// The IPv4 packet. The kernel completes the checksum of the IP header.
    fn packet(&self) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.port.to_be_bytes());
        tcp.extend(7_u16.to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgement.to_be_bytes());
        // A header of five words, and a window. Checksum and urgent pointer follow.
        tcp.extend([5 << 4, self.flags, 0x20, 0x00, 0, 0, 0, 0]);
        tcp.extend(self.payload);
        let mut pseudo = Vec::new();
        pseudo.extend(self.from.octets());
        pseudo.extend(OURS.octets());
        pseudo.extend([0, 6]);
        pseudo.extend((tcp.len() as u16).to_be_bytes());
        pseudo.extend(&tcp);
        tcp[16..18].copy_from_slice(&checksum(&pseudo).to_be_bytes());
        let mut ip = vec![0x45, 0];
        ip.extend((20 + tcp.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        ip.extend(self.from.octets());
        ip.extend(OURS.octets());
        ip.extend(tcp);
        ip
    }
}

/// Checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|w| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sends the segments of `forge` as fast as the kernel accepts them.
fn flood(packets: u32, mut forge: impl FnMut(&mut fastrand::Rng) -> ForgedSegment) {
    // SAFETY: makes a descriptor, touches no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) };
    assert!(fd >= 0, "a raw socket");
    // SAFETY: the kernel has just made this descriptor for us.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero integers are a valid address; the fields that matter follow.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as u16;
    to.sin_addr.s_addr = u32::from_ne_bytes(OURS.octets());
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..packets {
        let packet = forge(&mut random).packet();
        // SAFETY: the packet and the address are of the lengths given. A full queue loses it, as
        // any link would.
        unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_DONTWAIT,
                (&raw const to).cast(),
                size_of_val(&to) as u32,
            )
        };
    }
}

fn scene() -> Scene {
    let mut scene = Scene::new("", ECHO);
    scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
    // An answer shows that the application has its address.
    scene.client(|| drop(connect(ADDRESS, 7)));
    scene
}

/// A client with one connection that makes requests until it is to stop, and returns their number.
struct Steady {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Steady {
    fn start(scene: &Scene) -> Steady {
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = stop.clone();
        let thread = scene.client.thread(move || {
            let mut stream = connect(ADDRESS, 7);
            let mut answered = 0;
            while !theirs.load(Ordering::Relaxed) {
                ask(&mut stream, answered);
                answered += 1;
            }
            answered
        });
        Steady { stop, thread }
    }

    /// Panics if an answer was wrong or missing.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let answered = self.thread.join().expect("every answer came");
        assert!(answered > 0);
    }
}

fn ask(stream: &mut TcpStream, number: u64) {
    let mut back = [0; 8];
    stream.write_all(&number.to_ne_bytes()).expect("sent");
    stream.read_exact(&mut back).expect("an answer");
    assert_eq!(back, number.to_ne_bytes());
}

fn stack(scene: &Scene, name: &str) -> u64 {
    scene.count(&format!("/stack/{name}"))
}

/// Checks that others are served, and that the packet memory is free again.
fn has_room_and_serves(scene: &Scene) {
    let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(100_000, 1)));
    assert!(back == bytes(100_000, 1), "others are served");
    wait_until("the frames", Duration::from_secs(20), || {
        scene.count("/free_frames") > 4096
    });
    assert_eq!(scene.count("/counts/offences"), 0);
}

/// Promise 68.
#[test]
fn a_syn_flood_takes_no_memory_and_excludes_no_client() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        let steady = Steady::start(&scene);
        scene.client(|| {
            // Half of the forged senders would be on the link; the others are unreachable.
            flood(PACKETS, |random| ForgedSegment {
                from: match random.bool() {
                    true => Ipv4Addr::new(10, 98, 2, random.u8(20..250)),
                    false => Ipv4Addr::new(192, 0, 2, random.u8(..)),
                },
                port: random.u16(1024..),
                flags: SYN,
                sequence: random.u32(..),
                acknowledgement: 0,
                payload: b"",
            });
        });
        has_room_and_serves(&scene);
        steady.end();
        // The server's own clients have ended, so that no connection is left.
        wait_until("the last to end", Duration::from_secs(20), || {
            scene.count("/applications/0/connections") == 0
        });
        assert!(stack(&scene, "cookies_sent") > 0, "no cookie was sent");
    });
}

/// Segments outside any window, by number or by timestamp. Forged segments without a timestamp,
/// except RSTs, are dropped for its lack (RFC 7323, 3.2).
fn refused(scene: &Scene) -> u64 {
    let reasons = ["out_of_window", "paws_rejected", "timestamps_missing"];
    reasons.map(|reason| stack(scene, reason)).iter().sum()
}

/// An open connection, with its port.
fn victim(scene: &Scene) -> (TcpStream, u16) {
    let mut stream = scene.client(|| connect(ADDRESS, 7));
    ask(&mut stream, 1);
    let port = stream.local_addr().expect("an address").port();
    (stream, port)
}

/// Promise 68.
#[test]
fn floods_of_rsts_and_acks_end_no_connection() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene();
        for flags in [RST, ACK] {
            let (mut stream, port) = victim(&scene);
            let steady = Steady::start(&scene);
            let challenges = stack(&scene, "challenge_acks");
            let before = refused(&scene);
            scene.client(move || {
                flood(PACKETS, |random| ForgedSegment {
                    from: CLIENT,
                    port,
                    flags,
                    sequence: random.u32(..),
                    acknowledgement: random.u32(..),
                    payload: if flags == ACK { b"not yours" } else { b"" },
                });
            });
            has_room_and_serves(&scene);
            steady.end();
            ask(&mut stream, 2);
            // Only the flood sends such segments.
            let seen = refused(&scene) - before;
            assert!(
                seen > u64::from(PACKETS) / 20,
                "the flood did not arrive: {seen}"
            );
            // At most one in 100 ms for each connection (RFC 5961, 7).
            let challenges = stack(&scene, "challenge_acks") - challenges;
            assert!(
                challenges < seen / 10,
                "{challenges} challenges to {seen} segments"
            );
        }
    });
}

/// An application that keeps all received data until it relents.
struct Hoarder {
    relents: Arc<AtomicBool>,
    kept: Vec<ReceivedData>,
    /// Bytes that it has released.
    read: Arc<AtomicUsize>,
}

impl Hoarder {
    fn look(&mut self) {
        if self.relents.load(Ordering::Relaxed) {
            let bytes = self.kept.drain(..).map(|data| data.len()).sum();
            self.read.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Application for Hoarder {
    fn start(&mut self, session: &mut Session) {
        session.listen(SocketAddr::from(([0, 0, 0, 0], 8)), 128);
        session.timer(Duration::from_millis(10), 0);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Knock(knock) => {
                session.accept(&knock);
            }
            Event::Received { data, .. } => {
                self.kept.push(data);
                self.look();
            }
            Event::Timer(_) => {
                self.look();
                session.timer(Duration::from_millis(10), 0);
            }
            _ => {}
        }
    }
}

/// Writes segments of one byte.
fn feed(stream: &mut TcpStream) {
    for _ in 0..4000 {
        stream.write_all(b"x").expect("it is not ended");
        // Separate segments, so that each byte takes a frame.
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Promise 70.
#[test]
fn an_application_that_returns_no_frames_starves_only_itself() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let mut scene = Scene::new("frames = 1024", &echo_and("hoarder"));
        scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
        let relents = Arc::new(AtomicBool::new(false));
        let read = Arc::new(AtomicUsize::new(0));
        let shared = (relents.clone(), read.clone());
        scene.serve("hoarder", move || Hoarder {
            relents: shared.0,
            kept: Vec::new(),
            read: shared.1,
        });
        let steady = Steady::start(&scene);
        let mut fed = scene.client(|| {
            let feeders: Vec<_> = (0..4)
                .map(|_| {
                    let mut stream = connect(ADDRESS, 8);
                    std::thread::spawn(move || {
                        feed(&mut stream);
                        stream
                    })
                })
                .collect();
            let fed = feeders.into_iter().map(|f| f.join().expect("it ends"));
            fed.collect::<Vec<TcpStream>>()
        });
        wait_until(
            "its peers' windows are closed",
            Duration::from_secs(5),
            || scene.count("/counts/readers_stopped") == 1 && scene.count("/stack/no_room") > 0,
        );
        assert_eq!(scene.count("/applications/1/held_frames"), 512);
        let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(100_000, 2)));
        assert!(back == bytes(100_000, 2), "others are served");
        steady.end();
        assert!(
            scene.count("/free_frames") > 256,
            "frames stay for what arrives"
        );
        // The kept data is released, and no pending data is lost.
        relents.store(true, Ordering::Relaxed);
        wait_until("all comes", Duration::from_secs(20), || {
            read.load(Ordering::Relaxed) == 4 * 4000
        });
        for stream in &mut fed {
            stream.write_all(b"x").expect("it is open");
        }
        wait_until("the last bytes", Duration::from_secs(5), || {
            read.load(Ordering::Relaxed) == 4 * 4001
        });
        assert_eq!(scene.count("/counts/over_quota"), 0);
    });
}
