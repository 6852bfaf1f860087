//! AF_XDP on a veth pair: packets of the dataplane reach it, all others reach Linux.

use cofferdam_lab::fixtures::{Namespace, Net, VethPair, exclusive, time_limit, wait_until};
use cofferdam_xsk::{
    Device, Frame, Memory, Mode, Packet, Port, PortError, Socket, SocketOptions, Tap,
};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// A Linux client at 10.98.0.2, and a server's namespace in which Linux has 10.98.0.1.
struct Scene {
    server: Namespace,
    client: Namespace,
    _pair: VethPair,
}

impl Scene {
    fn new() -> Scene {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let pair = VethPair::new((&server, "eth0"), (&client, "eth0"));
        server.address("eth0", "10.98.0.1/24");
        client.address("eth0", "10.98.0.2/24");
        client.offload("eth0", "tx", false);
        Scene {
            server,
            client,
            _pair: pair,
        }
    }

    /// Tells the client that the server's device has 10.98.0.`last`.
    fn neighbour(&self, last: u8) {
        let line = self.server.run("ip -o link show dev eth0");
        let mac = line
            .split("link/ether ")
            .nth(1)
            .expect("a hardware address");
        let mac = mac.split_whitespace().next().expect("a hardware address");
        self.client.run(&format!(
            "ip neighbour replace 10.98.0.{last} lladdr {mac} dev eth0"
        ));
    }

    /// Sends `count` datagrams from the client to `port` of 10.98.0.`last`.
    fn send(&self, last: u8, port: u16, count: u8) {
        let sender = self.client.thread(move || {
            let socket = UdpSocket::bind("10.98.0.2:0").expect("a socket");
            for n in 0..count {
                let to = (Ipv4Addr::new(10, 98, 0, last), port);
                socket.send_to(&[n; 40], to).expect("sent");
            }
        });
        sender.join().expect("the sender ends");
    }
}

fn receive_all(socket: &mut Socket, memory: &mut Memory, wanted: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    let mut packets = [Packet {
        frame: Frame(0),
        start: 0,
        len: 0,
    }; 64];
    wait_until("the packets", Duration::from_secs(5), || {
        let n = socket.receive(memory, &mut packets);
        for packet in &packets[..n] {
            got.push(memory.packet(*packet).to_vec());
            memory.give(packet.frame);
        }
        socket.reclaim(memory);
        got.len() >= wanted
    });
    got
}

/// Promise 49.
#[test]
fn only_claimed_packets_are_redirected() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for mode in [Mode::Native, Mode::Generic] {
            let scene = Scene::new();
            let client_mode = mode;
            let (done, wait) = std::sync::mpsc::channel::<()>();
            let (ready, is_ready) = std::sync::mpsc::channel();
            let server = scene.server.thread(move || {
                let mut memory = Memory::new(1024, 2048).expect("memory");
                let device = Device::open("eth0", client_mode).expect("the program attaches");
                let mut socket = Socket::open(&device, &mut memory, SocketOptions::default())
                    .expect("the socket binds");
                device
                    .claim(Ipv4Addr::new(10, 98, 0, 9).into())
                    .expect("claimed");
                device
                    .share(Ipv4Addr::new(10, 98, 0, 1).into(), 0, 0)
                    .expect("shared");
                device
                    .claim_port(Ipv4Addr::new(10, 98, 0, 1).into(), 17, 7007)
                    .expect("a port");
                ready.send(()).expect("the test waits");
                let got = receive_all(&mut socket, &mut memory, 15);
                wait.recv().expect("the test signals");
                let counts = device.counts();
                (got, counts)
            });
            is_ready.recv().expect("the server is ready");
            // The address of Linux answers before and during the dataplane's work.
            scene.client.ping("10.98.0.1");
            let line = scene.server.run("ip -o link show dev eth0");
            assert!(line.contains("xdp"), "{line}");
            assert_eq!(line.contains("xdpgeneric"), mode == Mode::Generic, "{line}");
            scene.neighbour(9);
            scene.send(9, 5000, 10);
            scene.send(1, 7007, 5);
            scene.client.ping("10.98.0.1");
            done.send(()).expect("the server waits");
            let (got, counts) = server.join().expect("the server ends");
            assert_eq!(got.len(), 15, "{counts:?}");
            let to = |packet: &Vec<u8>| (packet[33], u16::from_be_bytes([packet[36], packet[37]]));
            assert_eq!(got.iter().filter(|p| to(p) == (9, 5000)).count(), 10);
            assert_eq!(got.iter().filter(|p| to(p) == (1, 7007)).count(), 5);
            assert_eq!(counts.redirected_packets, 15);
            assert_eq!(counts.unserved_packets, 0);
            assert!(counts.passed_packets >= 2, "the pings: {counts:?}");
        }
    });
}

/// Promise 49.
#[test]
fn fragments_of_a_shared_address_are_left_to_linux() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for mode in [Mode::Native, Mode::Generic] {
            let scene = Scene::new();
            let (ready, is_ready) = std::sync::mpsc::channel();
            let server = scene.server.thread(move || {
                let mut memory = Memory::new(1024, 2048).expect("memory");
                let device = Device::open("eth0", mode).expect("the program attaches");
                let mut socket = Socket::open(&device, &mut memory, SocketOptions::default())
                    .expect("the socket binds");
                let whole = Ipv4Addr::new(10, 98, 0, 9).into();
                let shared = Ipv4Addr::new(10, 98, 0, 1).into();
                device.claim(whole).expect("claimed");
                device.share(shared, 0, 0).expect("shared");
                device.claim_port(shared, 17, 7007).expect("a port");
                let linux = UdpSocket::bind("10.98.0.1:7007").expect("a socket of Linux's");
                linux
                    .set_read_timeout(Some(Duration::from_secs(5)))
                    .expect("a limit");
                ready.send(()).expect("the test waits");
                // Three fragments of 4,008 bytes, and the whole datagram behind them.
                let got = receive_all(&mut socket, &mut memory, 4);
                let mut whole = [0; 8000];
                let len = linux.recv(&mut whole).expect("Linux put it together");
                (got, whole[..len].to_vec(), device.counts())
            });
            is_ready.recv().expect("the server is ready");
            scene.neighbour(9);
            let sender = scene.client.thread(|| {
                let socket = UdpSocket::bind("10.98.0.2:0").expect("a socket");
                for (to, len) in [("10.98.0.9:7007", 4000), ("10.98.0.1:7007", 4000)] {
                    socket.send_to(&vec![5; len], to).expect("sent");
                }
                socket.send_to(&[6; 40], "10.98.0.1:7007").expect("sent");
            });
            sender.join().expect("the sender ends");
            let (got, whole, counts) = server.join().expect("the server ends");
            let offset = |packet: &Vec<u8>| u16::from_be_bytes([packet[20], packet[21]]) & 0x3fff;
            let more = 0x2000;
            let offsets: Vec<u16> = got.iter().map(offset).collect();
            assert_eq!(offsets, [more, 185 | more, 370, 0], "{counts:?}");
            assert_eq!((got[0][33], got[3][33]), (9, 1), "to which address");
            assert!(whole == [5; 4000], "{} bytes", whole.len());
            assert_eq!(counts.redirected_packets, 4);
        }
    });
}

/// Swaps the addresses of a UDP packet, so that it returns to its sender.
fn turn_round(bytes: &mut [u8]) {
    for (here, there, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        for at in 0..len {
            bytes.swap(here + at, there + at);
        }
    }
}

/// Promise 51.
#[test]
fn packets_larger_than_a_frame_come_and_go_in_several() {
    const SPANS: u32 = 8;
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for mode in [Mode::Native, Mode::Generic] {
            let scene = Scene::new();
            for net in [&scene.client, &scene.server] {
                net.run("ip link set eth0 mtu 9000");
            }
            scene.neighbour(9);
            let (ready, is_ready) = std::sync::mpsc::channel();
            let (all_back, are_back) = std::sync::mpsc::channel();
            let (send_one, to_send) = std::sync::mpsc::channel::<()>();
            let (hoard, is_hoarding) = std::sync::mpsc::channel();
            let server = scene.server.thread(move || {
                let mut memory = Memory::with_spans(256, 2048, SPANS).expect("memory");
                let device = Device::open("eth0", mode).expect("the program attaches");
                let options = SocketOptions {
                    ring_entries: 64,
                    ..SocketOptions::default()
                };
                let mut socket = Socket::open(&device, &mut memory, options).expect("it binds");
                let address = Ipv4Addr::new(10, 98, 0, 9).into();
                device.claim(address).expect("claimed");
                ready.send(()).expect("the test waits");
                let mut one = [Packet {
                    frame: Frame(0),
                    start: 0,
                    len: 0,
                }];
                let mut lens = Vec::new();
                // More packets than there are spans, and than the rings hold.
                wait_until("40 packets", Duration::from_secs(10), || {
                    while socket.receive(&mut memory, &mut one) == 1 {
                        lens.push(one[0].len);
                        assert_eq!(memory.is_span(one[0].frame), one[0].len > 1792);
                        let start = one[0].start as usize;
                        turn_round(&mut memory.bytes_mut(one[0].frame)[start..]);
                        assert!(socket.transmit(&mut memory, one[0]), "room in the ring");
                        socket.flush(&mut memory).expect("flushed");
                        socket.reclaim(&mut memory);
                    }
                    socket.reclaim(&mut memory);
                    lens.len() == 40
                });
                // Each frame is free, or the kernel has it for receiving: the next packet brings
                // it.
                are_back.recv().expect("the client has them all");
                let mut frames = Vec::new();
                let mut is_sent = false;
                wait_until("all frames", Duration::from_secs(5), || {
                    socket.reclaim(&mut memory);
                    frames.extend(std::iter::from_fn(|| memory.take()));
                    if socket.receive(&mut memory, &mut one) == 1 {
                        frames.push(one[0].frame);
                        is_sent = false;
                    }
                    if frames.len() < 256 && !std::mem::replace(&mut is_sent, true) {
                        send_one.send(()).expect("the client sends");
                    }
                    frames.len() == 256
                });
                drop(send_one);
                assert!(
                    frames.into_iter().all(|frame| memory.give(frame)),
                    "one twice"
                );
                assert_eq!(memory.spans_mut().available(), SPANS);
                // A receiver that keeps the packets gets no more, and the losses are counted.
                // Before the client sends, the kernel has frames for all.
                socket.reclaim(&mut memory);
                hoard.send(()).expect("the client waits");
                let mut hoarded = 0;
                wait_until("the losses", Duration::from_secs(5), || {
                    hoarded += socket.receive(&mut memory, &mut one);
                    socket.reclaim(&mut memory);
                    socket.counters().lost_packets == 4
                });
                (lens, hoarded)
            });
            is_ready.recv().expect("the server is ready");
            let client = scene.client.thread(move || {
                let socket = UdpSocket::bind("10.98.0.2:0").expect("a socket");
                let limit = Some(Duration::from_secs(5));
                socket.set_read_timeout(limit).expect("a limit");
                let mut back = vec![0; 10_000];
                for round in 0..40_usize {
                    let len = [40, 8000, 1751, 8972][round % 4];
                    let sent: Vec<u8> = (0..len).map(|n| (n * 7 + round) as u8).collect();
                    socket.send_to(&sent, "10.98.0.9:5000").expect("sent");
                    let (got, from) = socket.recv_from(&mut back).expect("it comes back");
                    assert!(back[..got] == sent, "{got} bytes instead of {len}");
                    assert_eq!(from.to_string(), "10.98.0.9:5000");
                }
                all_back.send(()).expect("the server waits");
                for () in to_send {
                    socket.send_to(&[1], "10.98.0.9:5000").expect("sent");
                }
                is_hoarding.recv().expect("the server hoards");
                for _ in 0..SPANS + 4 {
                    socket.send_to(&[1; 8000], "10.98.0.9:5000").expect("sent");
                }
            });
            client.join().expect("the client ends");
            let (lens, hoarded) = server.join().expect("the server ends");
            assert_eq!(lens[..4], [82, 8042, 1793, 9014]);
            assert_eq!(hoarded, SPANS as usize);
        }
    });
}

/// Promise 56.
#[test]
fn a_packet_without_a_free_frame_is_lost_once() {
    const SENT: u8 = 100;
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for mode in [Mode::Native, Mode::Generic] {
            let scene = Scene::new();
            scene.neighbour(9);
            let (ready, is_ready) = std::sync::mpsc::channel();
            let (all_sent, are_sent) = std::sync::mpsc::channel();
            let server = scene.server.thread(move || {
                // Fewer frames than packets, and than entries of the receive ring.
                let mut memory = Memory::new(32, 2048).expect("memory");
                let device = Device::open("eth0", mode).expect("the program attaches");
                let mut socket = Socket::open(&device, &mut memory, SocketOptions::default())
                    .expect("the socket binds");
                let address = Ipv4Addr::new(10, 98, 0, 9).into();
                device.claim(address).expect("claimed");
                ready.send(()).expect("the test waits");
                are_sent.recv().expect("the test signals");
                let mut got = 0;
                wait_until("every packet is received or lost", LIMIT, || {
                    let mut one = [Packet {
                        frame: Frame(0),
                        start: 0,
                        len: 0,
                    }];
                    got += socket.receive(&mut memory, &mut one);
                    got as u64 + socket.counters().lost_packets >= u64::from(SENT)
                });
                (got, socket.counters().lost_packets)
            });
            is_ready.recv().expect("the server is ready");
            scene.send(9, 5000, SENT);
            all_sent.send(()).expect("the server waits");
            let (got, lost) = server.join().expect("the server ends");
            assert!((1..=32).contains(&got), "{got} received");
            assert_eq!(got as u64 + lost, u64::from(SENT), "{got} received");
        }
    });
}

/// Promise 56.
#[test]
fn what_is_sent_arrives_and_frames_come_back() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = Scene::new();
        let sent = scene.server.thread(move || {
            let mut memory = Memory::new(256, 2048).expect("memory");
            let device = Device::open("eth0", Mode::Best).expect("the program attaches");
            let options = SocketOptions {
                ring_entries: 64,
                ..SocketOptions::default()
            };
            let mut socket = Socket::open(&device, &mut memory, options).expect("the socket binds");
            let free_frames = memory.available();
            let mut sent = 0;
            // Packets for three rings: frames must return and be used again.
            wait_until("200 packets to leave", Duration::from_secs(5), || {
                while sent < 200 {
                    let Some(frame) = memory.take() else { break };
                    let bytes = memory.bytes_mut(frame);
                    bytes[..6].fill(0xff);
                    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
                    // An EtherType for local experiments (IEEE 802).
                    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
                    let packet = Packet {
                        frame,
                        start: 0,
                        len: 60,
                    };
                    if !socket.transmit(&mut memory, packet) {
                        memory.give(frame);
                        break;
                    }
                    sent += 1;
                }
                socket.flush(&mut memory).expect("flushed");
                socket.reclaim(&mut memory);
                sent == 200
            });
            wait_until("all frames to come back", Duration::from_secs(5), || {
                socket.reclaim(&mut memory);
                memory.available() == free_frames
            });
            socket.counters().sent_packets
        });
        assert_eq!(sent.join().expect("the sender ends"), 200);
        let line = scene.client.run("ip -s -o link show dev eth0");
        let numbers: Vec<u64> = line
            .split("RX:")
            .nth(1)
            .expect("counters")
            .split_whitespace()
            .filter_map(|word| word.trim_end_matches('\\').parse().ok())
            .collect();
        assert!(
            numbers[1] >= 200,
            "the client received {} packets",
            numbers[1]
        );
    });
}

/// Promise 49.
#[test]
fn each_device_failure_has_an_error_of_its_own() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = Scene::new();
        let thread = scene.server.thread(move || {
            let mut memory = Memory::new(256, 2048).expect("memory");
            let missing = Device::open("nosuch0", Mode::Best)
                .err()
                .expect("no such device");
            let device = Device::open("eth0", Mode::Best).expect("the program attaches");
            let second = Device::open("eth0", Mode::Best)
                .err()
                .expect("the device is taken");
            let _socket =
                Socket::open(&device, &mut memory, SocketOptions::default()).expect("binds");
            let taken = Socket::open(&device, &mut memory, SocketOptions::default());
            (missing, second, taken.err().expect("the queue is taken"))
        });
        let (missing, second, taken) = thread.join().expect("the thread ends");
        assert!(matches!(missing, PortError::NoDevice(_)), "{missing}");
        assert!(matches!(second, PortError::Busy(_)), "{second}");
        assert!(matches!(taken, PortError::Busy(_)), "{taken}");
        scene.client.run("ip link set eth0 mtu 3000");
        scene.server.run("ip link set eth0 mtu 3000");
        let thread = scene.server.thread(move || {
            let mut memory = Memory::new(256, 2048).expect("memory");
            let device = Device::open("eth0", Mode::Generic).expect("the program attaches");
            Socket::open(&device, &mut memory, SocketOptions::default()).err()
        });
        let refused = thread.join().expect("the thread ends").expect("too large");
        assert!(
            matches!(
                refused,
                PortError::Mtu {
                    mtu_bytes: 3000,
                    ..
                }
            ),
            "{refused}"
        );
        // The packets would fit several frames, but need too many.
        scene.client.run("ip link set eth0 mtu 40000");
        scene.server.run("ip link set eth0 mtu 40000");
        let thread = scene.server.thread(move || {
            let mut memory = Memory::with_spans(256, 2048, 8).expect("memory");
            let device = Device::open("eth0", Mode::Generic).expect("the program attaches");
            Socket::open(&device, &mut memory, SocketOptions::default()).err()
        });
        let refused = thread.join().expect("the thread ends").expect("too large");
        let most = 16 * 2048 - 14;
        assert!(
            matches!(
                refused,
                PortError::Mtu { mtu_bytes: 40_000, room_bytes, .. } if room_bytes == most
            ),
            "{refused}"
        );
    });
}

/// Promise 66.
#[test]
fn the_end_of_a_process_frees_its_device() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = Scene::new();
        for _ in 0..3 {
            let thread = scene.server.thread(|| {
                let mut memory = Memory::new(256, 2048).expect("memory");
                let device = Device::open("eth0", Mode::Best).expect("the program attaches");
                device
                    .claim(Ipv4Addr::new(10, 98, 0, 1).into())
                    .expect("claimed");
                Socket::open(&device, &mut memory, SocketOptions::default()).map(drop)
            });
            thread
                .join()
                .expect("the thread ends")
                .expect("the queue is free again");
        }
        assert!(!scene.server.run("ip link show dev eth0").contains("xdp"));
        scene.client.ping("10.98.0.1");
    });
}

/// Promise 56.
#[test]
fn a_tap_device_carries_packets_both_ways() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let server = Namespace::new("server");
        let (creation, is_made) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let port = server.thread(move || {
            let mut memory = Memory::new(64, 2048).expect("memory");
            let mut tap = Tap::open("tap0", [2, 0, 0, 0, 0, 7]).expect("a tap device");
            creation.send(()).expect("the test waits");
            may_go.recv().expect("the test signals");
            let mut packets = [Packet {
                frame: Frame(0),
                start: 0,
                len: 0,
            }; 8];
            let mut asked = false;
            // Linux asks for the owner of the address, and is asked in turn.
            wait_until("an ARP request", Duration::from_secs(5), || {
                let n = tap.receive(&mut memory, &mut packets);
                for packet in &packets[..n] {
                    asked |= memory.packet(*packet)[12..14] == [0x08, 0x06];
                    assert!(tap.transmit(&mut memory, *packet));
                }
                asked
            });
            (memory.available(), tap.counters())
        });
        is_made.recv().expect("the device is made");
        server.address("tap0", "10.98.1.1/24");
        server.up("tap0");
        go.send(()).expect("the port waits");
        let sender = server.thread(|| {
            let socket = UdpSocket::bind("10.98.1.1:0").expect("a socket");
            socket.send_to(b"who?", "10.98.1.2:9").expect("sent")
        });
        sender.join().expect("the sender ends");
        let (free, counters) = port.join().expect("the port ends");
        assert_eq!(free, 64, "every frame is back");
        assert!(counters.received_packets >= 1);
        assert_eq!(counters.sent_packets, counters.received_packets);
    });
}
