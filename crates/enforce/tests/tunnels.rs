//! Packet limits for containers behind a tunnel or on another device: packets of a container in
//! debt are dropped where they enter the host, by the address inside.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bpf::{Bucket, DropCounts, DropPrograms, Entry, attach_drop};
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Net};
use cofferdam_types::{IfIndex, Tunnel};
use common::*;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};
use std::fs::File;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

const SLOT: u32 = 3;
const PACKETS: u64 = 200;

/// Two containers behind an uplink, one of them in debt, and the programs.
struct Scene {
    debtor: FakeContainer,
    neighbour: FakeContainer,
    uplink: Uplink,
    programs: DropPrograms,
}

impl Scene {
    /// Creates the scene with a budget of `rate_ns_per_s` for the debtor.
    fn new(rate_ns_per_s: u64) -> Scene {
        let (debtor, neighbour) = (FakeContainer::new("debtor"), FakeContainer::new("other"));
        let uplink = Uplink::new();
        uplink.router.attach(&debtor);
        uplink.router.attach(&neighbour);
        let programs = DropPrograms::load().unwrap();
        for address in ["10.98.1.2", "fd98:1::2"] {
            let address: IpAddr = address.parse().unwrap();
            programs.set_address(address, SLOT).unwrap();
        }
        let in_debt = Bucket {
            rate_ns_per_s,
            rx_cost_ns: 1000,
            tx_cost_ns: 1000,
            burst_ns: 1000,
        };
        programs.set_bucket(SLOT, in_debt).unwrap();
        Scene {
            debtor,
            neighbour,
            uplink,
            programs,
        }
    }

    fn attach(&self, entry: Entry) -> cofferdam_bpf::DropLink {
        let file = File::open(format!("/run/netns/{}", self.uplink.router.name())).unwrap();
        let (programs, up0) = (
            self.programs.programs(),
            IfIndex(self.uplink.router.ifindex("up0")),
        );
        let link = cofferdam_host::in_namespace(&file, || attach_drop(programs, up0, entry));
        link.unwrap().unwrap()
    }

    /// Numbers of packets received of those sent to each container.
    fn send(&self) -> (u64, u64) {
        let receive = |container: &FakeContainer, own: &str| {
            let at = format!("{own}:9000").parse().expect("an address");
            let sink = traffic::udp_sink(container, None, at, PACKETS);
            // Pauses keep the queues on the path from overflowing.
            for _ in 0..PACKETS / 50 {
                traffic::udp_send(&self.uplink.peer, None, Udp::to(at).packets(50)).finish();
                std::thread::sleep(Duration::from_millis(1));
            }
            sink
        };
        let debtor = receive(&self.debtor, "10.98.1.2");
        let neighbour = receive(&self.neighbour, "10.98.2.2");
        (debtor.finish()[0], neighbour.finish()[0])
    }

    /// Counts of one packet that contains `inside`, sent to the router as `protocol`, or over UDP
    /// to its `port`.
    fn carry(&self, protocol: i32, port: u16, inside: &[u8]) -> DropCounts {
        let before = self.programs.counts(SLOT);
        let file = File::open(format!("/run/netns/{}", self.uplink.peer.name())).unwrap();
        let sent = cofferdam_host::in_namespace(&file, || {
            if protocol == libc::IPPROTO_UDP {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                return socket.send_to(inside, ("10.97.0.2", port)).unwrap();
            }
            // The kernel writes the outer header.
            let raw = socket(
                AddressFamily::Inet,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                SockProtocol::Raw,
            )
            .unwrap();
            let outer = ipv4([10, 97, 0, 1], [10, 97, 0, 2], protocol as u8, inside);
            let to = SockaddrIn::new(10, 97, 0, 2, 0);
            sendto(raw.as_raw_fd(), &outer, &to, MsgFlags::empty()).unwrap()
        });
        assert!(sent.unwrap() >= inside.len());
        let now = self.programs.counts(SLOT);
        DropCounts {
            rx_passed: now.rx_passed - before.rx_passed,
            rx_dropped: now.rx_dropped - before.rx_dropped,
            ..DropCounts::default()
        }
    }
}

fn ipv4(from: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![
        0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0,
    ];
    packet.extend(from);
    packet.extend(to);
    packet.extend(payload);
    packet
}

fn ipv6(to: std::net::Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], 17, 64];
    packet.extend([0; 16]);
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), payload].concat()
}

const UDP_9000: [u8; 12] = [0x30, 0x39, 0x23, 0x28, 0, 12, 0, 0, 1, 2, 3, 4];

/// Promise 32.
#[test]
fn tunnelled_packets_are_dropped_by_the_inner_address() {
    alone(120, || {
        let scene = Scene::new(1000);
        scene.uplink.tunnel();
        for container in ["10.98.1.2", "10.98.2.2"] {
            scene.uplink.peer.ping(container);
        }
        for entry in [Entry::Native, Entry::Tc, Entry::Generic] {
            let link = scene.attach(entry);
            scene.programs.remove_tunnel(Tunnel::Vxlan(4789));
            assert_eq!(scene.send(), (PACKETS, PACKETS), "{entry:?}, unknown port");
            scene.programs.set_tunnel(Tunnel::Vxlan(4789)).unwrap();
            let dropped = scene.programs.counts(SLOT).rx_dropped;
            let (debtor, neighbour) = scene.send();
            assert_eq!(neighbour, PACKETS, "{entry:?}");
            assert!(debtor <= 10, "{debtor} arrived; {entry:?}");
            let dropped = scene.programs.counts(SLOT).rx_dropped - dropped;
            assert!(
                dropped >= 190,
                "{dropped} dropped where they enter; {entry:?}"
            );
            drop(link);
        }
    });
}

/// Promise 32.
#[test]
fn every_kind_of_tunnel_is_read_and_others_ignored() {
    alone(120, || {
        // The budget is so small that no tokens are added.
        let scene = Scene::new(1);
        let _link = scene.attach(Entry::Native);
        for tunnel in [Tunnel::Vxlan(8472), Tunnel::Geneve(6081), Tunnel::Ip] {
            scene.programs.set_tunnel(tunnel).unwrap();
        }
        let udp = libc::IPPROTO_UDP;
        let debtor = ipv4([10, 97, 0, 1], [10, 98, 1, 2], 17, &UDP_9000);
        let debtor6 = ipv6("fd98:1::2".parse().unwrap(), &UDP_9000);
        let neighbour = ipv4([10, 97, 0, 1], [10, 98, 2, 2], 17, &UDP_9000);
        let vxlan = |kind: u16, inside: &[u8]| {
            let header = [8, 0, 0, 0, 0, 0, 7, 0];
            [&header[..], &ethernet(kind, inside)].concat()
        };
        // Two words of options.
        let geneve = |protocol: u16, inside: &[u8]| {
            let [a, b] = protocol.to_be_bytes();
            let header = [2, 0, a, b, 0, 0, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            [&header[..], &ethernet(0x0800, inside)].concat()
        };
        for (what, protocol, port, inside) in [
            ("VXLAN", udp, 8472, vxlan(0x0800, &debtor)),
            ("IPv6 in VXLAN", udp, 8472, vxlan(0x86dd, &debtor6)),
            ("Geneve", udp, 6081, geneve(0x6558, &debtor)),
            ("IPv4 in IPv4", libc::IPPROTO_IPIP, 0, debtor.clone()),
            ("IPv6 in IPv4", libc::IPPROTO_IPV6, 0, debtor6.clone()),
        ] {
            let counts = scene.carry(protocol, port, &inside);
            assert_eq!((counts.rx_dropped, counts.rx_passed), (1, 0), "{what}");
            // A packet cut before the end of the address belongs to no container.
            let whole = inside.len() - UDP_9000.len();
            for cut in (1..whole).step_by(3) {
                let counts = scene.carry(protocol, port, &inside[..cut]);
                assert_eq!(counts, DropCounts::default(), "{what}, {cut} bytes");
            }
        }
        for (what, protocol, port, inside) in [
            ("a neighbour's", udp, 8472, vxlan(0x0800, &neighbour)),
            ("another port", udp, 8473, vxlan(0x0800, &debtor)),
            ("VXLAN to Geneve's port", udp, 6081, vxlan(0x0800, &debtor)),
            (
                "not Ethernet in Geneve",
                udp,
                6081,
                geneve(0x0800, &neighbour),
            ),
            ("ARP inside", udp, 8472, vxlan(0x0806, &debtor)),
            ("another protocol", libc::IPPROTO_GRE, 0, debtor.clone()),
        ] {
            let counts = scene.carry(protocol, port, &inside);
            assert_eq!(counts, DropCounts::default(), "{what}");
        }
        scene.programs.remove_tunnel(Tunnel::Ip);
        let counts = scene.carry(libc::IPPROTO_IPIP, 0, &debtor);
        assert_eq!(counts, DropCounts::default(), "its tunnel is gone");
    });
}
