//! Bulk data through the whole dataplane over veth: in large packets that the device or the kernel
//! cuts, and over a large MTU, with loss, with a peer whose MTU is smaller, and with a peer that
//! sends packets of wrong lengths.

mod support;

use cofferdam_dataplane::applications::Echo;
use cofferdam_dataplane::{Application, Connection, Event, Session};
use cofferdam_lab::fixtures::{Net, exclusive, time_limit};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrLike, sendto,
    socket,
};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;
use support::{ADDRESS, ECHO, Scene, bytes, connect, datagram, round_trip};

const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a transfer: many windows.
const BULK: usize = 8_000_000;

fn echo(scene: &mut Scene, at: &'static str) {
    let address: SocketAddr = at.parse().expect("an address");
    scene.serve("echo", move || Echo::new(address));
}

/// Sends random bytes to port 7, and checks that they return.
fn transfer(scene: &Scene, to: &'static str, len: usize) {
    scene.client(move || {
        let back = round_trip(connect(to, 7), bytes(len, len as u64));
        assert!(back == bytes(len, len as u64), "{to}: it came back changed");
    });
}

/// An application that sends random bytes to each peer that sends data.
struct Source {
    address: SocketAddr,
    data: Vec<u8>,
    sent: usize,
}

impl Source {
    fn send(&mut self, session: &mut Session, connection: Connection) {
        self.sent += session.send(connection, &self.data[self.sent..]);
    }
}

impl Application for Source {
    fn start(&mut self, session: &mut Session) {
        session.listen(self.address, 16);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Knock(knock) => {
                session.accept(&knock);
            }
            Event::Received { connection, .. } | Event::Sent { connection, .. } => {
                self.send(session, connection);
            }
            _ => {}
        }
    }
}

/// Packets that the client's device has received.
fn received(scene: &Scene) -> u64 {
    let read = "cat /sys/class/net/eth0/statistics/rx_packets";
    scene.client.sh(read).trim().parse().expect("a number")
}

/// Promise 51.
#[test]
fn bulk_data_leaves_in_large_packets_whoever_cuts_them() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for (device, cut_by, at, to) in [
            ("mode = \"native\"", "peer", "0.0.0.0:7", ADDRESS),
            ("mode = \"generic\"", "peer", "[::]:7", "fd98::9"),
            ("mode = \"generic\"", "kernel", "0.0.0.0:7", ADDRESS),
            ("mode = \"native\"", "kernel", "[::]:7", "fd98::9"),
            ("segmentation = false", "nobody", "0.0.0.0:7", ADDRESS),
        ] {
            let mut scene = Scene::new(device, ECHO);
            if cut_by == "kernel" {
                for feature in ["tso", "gso"] {
                    scene.server.offload("eth0", feature, false);
                }
            }
            let address: SocketAddr = at.parse().expect("an address");
            scene.serve("echo", move || Source {
                address,
                data: bytes(BULK, 1),
                sent: 0,
            });
            let before = received(&scene);
            scene.client(move || {
                let mut stream = connect(to, 7);
                stream.write_all(b"x").expect("sent");
                let mut got = vec![0; BULK];
                stream.read_exact(&mut got).expect("all of it");
                assert!(got == bytes(BULK, 1), "{to}: it came changed");
            });
            let packets = received(&scene) - before;
            let (large, segments) = (
                scene.count("/counts/large_packets"),
                scene.count("/stack/segments_sent"),
            );
            let counts = format!("{device}, {cut_by}: {packets} packets, {large}, {segments}");
            // Segments have at most 1,448 bytes.
            assert!(segments >= BULK as u64 / 1448, "{counts}");
            assert_eq!(large == 0, cut_by == "nobody", "{counts}");
            // There are fewer packets than segments only if nobody cuts them before.
            assert_eq!(packets < segments / 4 * 3, cut_by == "peer", "{counts}");
            // The loop does not copy data that leaves in large packets.
            let payload = |what| scene.count(&format!("/counts/{what}_payload_bytes"));
            let (sent, copied) = (payload("sent"), payload("copied"));
            assert!(sent >= BULK as u64, "{counts}: {sent}");
            assert_eq!(
                copied < sent / 2,
                cut_by != "nobody",
                "{counts}: {copied} of {sent}"
            );
            assert!(
                cut_by != "nobody" || copied == sent,
                "{counts}: {copied} of {sent}"
            );
            assert_eq!(scene.count("/counts/offences"), 0);
        }
    });
}

/// Promise 51.
#[test]
fn lost_large_packets_are_sent_again() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for mtu_bytes in [1500, 9000] {
            let mut scene = Scene::with_mtu("", ECHO, mtu_bytes);
            echo(&mut scene, "0.0.0.0:7");
            // Only packets with data are dropped: a lost acknowledgement causes no retransmission.
            scene.client.run(
                "iptables -A INPUT -p tcp -m length --length 500:65535 \
                 -m statistic --mode nth --every 23 --packet 2 -j DROP",
            );
            transfer(&scene, ADDRESS, BULK / 4);
            assert!(scene.count("/counts/large_packets") > 0);
            assert!(scene.count("/stack/retransmits") > 0);
        }
    });
}

/// Promise 51.
#[test]
fn a_large_mtu_carries_bulk_data_to_any_peer() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for (device, mtu_bytes) in [
            ("mode = \"native\"", 9000),
            ("mode = \"generic\"\nframe_bytes = 4096", 9000),
            ("mode = \"native\"\nframe_bytes = 4096", 65_522),
            ("mode = \"generic\"\nsegmentation = false", 9000),
        ] {
            let mut scene = Scene::with_mtu(device, ECHO, mtu_bytes);
            echo(&mut scene, "0.0.0.0:7");
            transfer(&scene, ADDRESS, BULK);
            // The client's SYN announces a smaller segment size.
            scene.client.run("ip link set eth0 mtu 1400");
            transfer(&scene, ADDRESS, BULK / 4);
            assert_eq!(scene.count("/counts/offences"), 0, "{device}");
        }
    });
}

/// An Ethernet frame for the dataplane: UDP to port 7 in an IPv4 packet with `total` as its length
/// field and `len` bytes behind the Ethernet header.
fn frame(to: [u8; 6], total: u16, len: usize) -> Vec<u8> {
    let mut packet = vec![0; len.max(28)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 17]);
    packet[12..20].copy_from_slice(&[10, 98, 2, 2, 10, 98, 2, 9]);
    let sum: u32 = packet[..20]
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..24].copy_from_slice(&[0x30, 0x39, 0, 7]);
    packet[24..26].copy_from_slice(&total.saturating_sub(20).to_be_bytes());
    let mut frame = to.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1, 8, 0]);
    frame.extend(&packet[..len.max(28)]);
    frame
}

/// Promise 68.
#[test]
fn packets_of_wrong_lengths_harm_nobody() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for device in ["mode = \"native\"", "mode = \"generic\""] {
            let mut scene = Scene::with_mtu(device, ECHO, 9000);
            echo(&mut scene, "0.0.0.0:7");
            transfer(&scene, ADDRESS, 1000);
            let mac = scene.server.sh("cat /sys/class/net/eth0/address");
            let mac: Vec<u8> = mac
                .trim()
                .split(':')
                .map(|byte| u8::from_str_radix(byte, 16).expect("a hardware address"))
                .collect();
            let mac: [u8; 6] = mac.try_into().expect("six bytes");
            let before = scene.count("/counts/received_packets");
            scene.client(move || {
                let flags = SockFlag::SOCK_CLOEXEC;
                let raw = socket(
                    AddressFamily::Packet,
                    SockType::Raw,
                    flags,
                    None::<SockProtocol>,
                );
                let raw = raw.expect("a packet socket");
                let index = nix::net::if_::if_nametoindex("eth0").expect("eth0");
                let mut to = libc_address(index);
                to.sll_protocol = 0x0800_u16.to_be();
                // SAFETY: it is a whole sockaddr_ll of its length.
                let to = unsafe {
                    LinkAddr::from_raw((&raw const to).cast(), Some(size_of_val(&to) as u32))
                };
                let to = to.expect("an address");
                for (total, len) in [
                    (9000, 8000),
                    (65_535, 9000),
                    (3000, 9000),
                    (28, 9000),
                    (20, 5000),
                    (0, 9000),
                    (9000, 28),
                ] {
                    for _ in 0..40 {
                        let frame = frame(mac, total, len);
                        let sent = sendto(raw.as_raw_fd(), &frame, &to, MsgFlags::empty());
                        sent.expect("sent");
                    }
                }
            });
            // Some of them were datagrams, whose answers the client does not expect.
            assert!(scene.count("/counts/received_packets") >= before + 280);
            transfer(&scene, ADDRESS, BULK / 4);
            let whole = scene.client(|| datagram(1400, 9));
            assert!(whole == bytes(1400, 9));
            assert_eq!(scene.count("/counts/offences"), 0);
        }
    });
}

/// Address of a device.
fn libc_address(index: u32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    }
}
