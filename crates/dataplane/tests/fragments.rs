//! Datagrams in fragments through the whole dataplane: from Linux over veth to an application and
//! to `ping`.

mod support;

use cofferdam_dataplane::{Application, Connection, Event, ReceivedData, Session};
use cofferdam_lab::fixtures::{Net, exclusive, time_limit, wait_until};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;
use support::{ADDRESS, ECHO, Scene, bytes, connect, round_trip};

const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a datagram in the answer of [`Parts`].
const PART: usize = 1000;

/// An application that returns a datagram's data in datagrams without fragments.
struct Parts(&'static str);

impl Application for Parts {
    fn start(&mut self, session: &mut Session) {
        session.udp_bind(self.0.parse().expect("an address"));
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        if let Event::Datagram {
            bound,
            data,
            remote,
            ..
        } = event
        {
            for part in data.chunks(PART) {
                session.send_datagram(bound, remote, part);
            }
        }
    }
}

/// An application that keeps all received data.
struct Hoard(Vec<ReceivedData>);

impl Application for Hoard {
    fn start(&mut self, session: &mut Session) {
        session.udp_bind(SocketAddr::from(([0, 0, 0, 0], 8)));
    }

    fn event(&mut self, _: &mut Session, event: Event) {
        if let Event::Datagram { data, .. } = event {
            self.0.push(data);
        }
    }
}

/// Socket of a client, of the family of `to`.
fn client(to: &str) -> UdpSocket {
    let from = if to.starts_with('[') {
        "[fd98::2]:0"
    } else {
        "10.98.2.2:0"
    };
    let socket = UdpSocket::bind(from).expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a limit");
    socket
}

/// Sends a datagram and joins the parts of the answer.
fn ask(socket: &UdpSocket, to: &str, data: &[u8]) -> Vec<u8> {
    socket.send_to(data, to).expect("sent");
    let (mut back, mut part) = (Vec::new(), [0; 2 * PART]);
    while back.len() < data.len() {
        let len = socket.recv(&mut part).expect("a part of the answer");
        back.extend(&part[..len]);
    }
    back
}

/// Promise 51.
#[test]
fn datagrams_in_fragments_arrive_whole_and_long_pings_are_answered() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        // A single application reads the dataplane's memory. With a second one, each has its own.
        let two_applications = format!("{ECHO}[[application]]\nname = \"other\"\nuser = \"0\"\n");
        for (device, grants) in [
            ("mode = \"native\"", ECHO),
            ("mode = \"generic\"", ECHO),
            ("frame_bytes = 4096", two_applications.as_str()),
        ] {
            for (at, to) in [("0.0.0.0:7", "10.98.2.9:7"), ("[::]:7", "[fd98::9]:7")] {
                let mut scene = Scene::new(device, grants);
                scene.serve("echo", move || Parts(at));
                scene.client(move || {
                    let socket = client(to);
                    // More datagrams than the memory holds at a time; the application keeps none.
                    for (round, len) in [4000, 1473, 60_000, 1, 65_000]
                        .into_iter()
                        .cycle()
                        .enumerate()
                        .take(50)
                    {
                        let data = bytes(len, round as u64);
                        assert!(ask(&socket, to, &data) == data, "{len} bytes came changed");
                    }
                });
                for _ in 0..3 {
                    let options = "-q -c 1 -W 5 -s 4000";
                    scene
                        .client
                        .sh(&format!("busybox ping {options} {ADDRESS}"));
                    scene.client.sh(&format!(
                        "busybox ping6 {options} fd98::9 2>/dev/null || ping -6 {options} fd98::9"
                    ));
                }
                wait_until("all are counted", Duration::from_secs(5), || {
                    scene.count("/stack/reassembled") >= 46
                        && scene.count("/stack/fragments_sent") >= 18
                });
                for none in [
                    "/stack/fragments_dropped",
                    "/counts/over_quota",
                    "/counts/offences",
                ] {
                    assert_eq!(scene.count(none), 0, "{none}");
                }
            }
        }
    });
}

/// An application that returns datagrams whole.
struct Whole {
    address: &'static str,
    /// Bytes that the session has not taken, because it lends memory by need.
    pending: Vec<u8>,
}

impl Whole {
    fn at(address: &'static str) -> Whole {
        Whole {
            address,
            pending: Vec::new(),
        }
    }

    fn send_pending(&mut self, session: &mut Session, connection: Connection) {
        let taken = session.send(connection, &self.pending);
        self.pending.drain(..taken);
    }
}

impl Application for Whole {
    fn start(&mut self, session: &mut Session) {
        let address: SocketAddr = self.address.parse().expect("an address");
        session.udp_bind(address);
        session.listen(address, 16);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Datagram {
                bound,
                data,
                remote,
                ..
            } => {
                session.send_datagram(bound, remote, &data);
            }
            Event::Knock(knock) => {
                session.accept(&knock);
            }
            Event::Received { connection, data } => {
                self.pending.extend_from_slice(&data);
                self.send_pending(session, connection);
            }
            Event::Sent { connection, .. } => self.send_pending(session, connection),
            _ => {}
        }
    }
}

/// Promise 51.
#[test]
fn packets_of_a_large_mtu_go_through_whole() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let two_applications = format!("{ECHO}[[application]]\nname = \"other\"\nuser = \"0\"\n");
        for (device, grants) in [
            ("mode = \"native\"", ECHO),
            ("mode = \"generic\"", two_applications.as_str()),
        ] {
            let mut scene = Scene::with_mtu(device, grants, 9000);
            scene.serve("echo", || Whole::at("0.0.0.0:7"));
            scene.client(|| {
                let socket = client(ADDRESS);
                let mut back = vec![0; 10_000];
                for round in 0..300 {
                    let len = [8972, 100, 3000][round % 3];
                    let data = bytes(len, round as u64);
                    socket.send_to(&data, (ADDRESS, 7)).expect("sent");
                    let got = socket.recv(&mut back).expect("an answer");
                    assert!(back[..got] == data, "{got} bytes instead of {len}");
                }
            });
            let before = scene.count("/stack/segments_sent");
            let sent = bytes(200_000, 3);
            let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(200_000, 3)));
            assert!(back == sent, "it came back changed");
            // Segments of 1,448 bytes would be 139 and more.
            let segments = scene.count("/stack/segments_sent") - before;
            assert!(segments < 139, "{segments} segments");
            let options = "-q -c 1 -W 5 -s 8000";
            scene
                .client
                .sh(&format!("busybox ping {options} {ADDRESS}"));
            for none in [
                "/stack/fragments",
                "/stack/fragments_sent",
                "/counts/offences",
            ] {
                assert_eq!(scene.count(none), 0, "{none}");
            }
        }
    });
}

/// An IPv4 fragment of a UDP datagram for port 7; `offset` in bytes.
fn fragment(id: u16, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    // The kernel fills in the source and the checksums.
    let mut packet = vec![0x45, 0, 0, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(((offset / 8) | (u16::from(more) << 13)).to_be_bytes());
    packet.extend([64, 17, 0, 0, 0, 0, 0, 0, 10, 98, 2, 9]);
    packet.extend(payload);
    packet
}

/// Promise 68.
#[test]
fn hostile_fragments_take_nothing_from_others() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let grants = format!(
            "{ECHO}[[application]]\nname = \"hoard\"\nuser = \"0\"\nbind = [\"udp/*:8\"]\n"
        );
        let mut scene = Scene::new("", &grants);
        scene.serve("echo", || Parts("0.0.0.0:7"));
        scene.serve("hoard", || Hoard(Vec::new()));
        let to = "10.98.2.9:7";
        let data = bytes(4000, 1);
        let (first, second) = (data.clone(), data.clone());
        scene.client(move || assert!(ask(&client(to), to, &first) == first));
        // First fragments without a last one, overlapping fragments, one beyond 64 KiB.
        scene.client(|| {
            // The socket takes whole IP headers.
            let (family, flags) = (AddressFamily::Inet, SockFlag::SOCK_CLOEXEC);
            let raw = socket(family, SockType::Raw, flags, SockProtocol::Raw);
            let raw = raw.expect("a raw socket");
            let to = SockaddrIn::new(10, 98, 2, 9, 0);
            let send = |packet: Vec<u8>| {
                sendto(raw.as_raw_fd(), &packet, &to, MsgFlags::empty()).expect("sent");
            };
            for id in 1..500 {
                send(fragment(id, 0, true, &[1; 1400]));
                if id % 5 == 0 {
                    send(fragment(id, 1000, true, &[2; 800]));
                    send(fragment(id, 65_512, false, &[3; 100]));
                }
            }
        });
        wait_until("the fragments", Duration::from_secs(5), || {
            scene.count("/stack/fragments_dropped") >= 99
        });
        assert_eq!(scene.count("/stack/reassembled"), 1);
        // More datagrams than the application may keep.
        scene.client(|| {
            let socket = client("10.98.2.9:8");
            for round in 0..60 {
                socket
                    .send_to(&bytes(4000, round), "10.98.2.9:8")
                    .expect("sent");
            }
        });
        wait_until("its room to be full", Duration::from_secs(5), || {
            scene.count("/counts/over_quota") > 0
        });
        scene.client(move || {
            let socket = client(to);
            for _ in 0..30 {
                assert!(ask(&socket, to, &second) == second, "it came changed");
            }
        });
        assert_eq!(scene.count("/counts/offences"), 0);
    });
}
