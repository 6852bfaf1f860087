//! Real traffic into a container. Needs root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use cofferdam_flows::{Capture, PacketOwner, Reading};
use cofferdam_lab::fixtures::traffic::{Udp, tcp_send, tcp_sink, udp_send, udp_sink};
use cofferdam_lab::fixtures::{
    Bridge, Cgroup, FakeContainer, ForkedProcess, Host, Namespace, Net, VethPair, exclusive,
    raise_open_files, time_limit, unique_link, wait_until,
};
use cofferdam_types::CgroupId;
use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

struct Bed {
    _link: VethPair,
    container: FakeContainer,
    source: Namespace,
}

/// Makes a container, and a neighbour that sends to it, by IPv4 and IPv6.
fn bed() -> Bed {
    let container = FakeContainer::new("web");
    let source = Namespace::new("source");
    let link = VethPair::new((&source, "veth0"), (container.namespace(), "eth0"));
    for (net, device, host) in [(&source, "veth0", 1), (container.namespace(), "eth0", 2)] {
        net.address(device, &format!("10.99.0.{host}/24"));
        net.run(&format!(
            "ip -6 address add fd99::{host}/64 dev {device} nodad"
        ));
    }
    Bed {
        _link: link,
        container,
        source,
    }
}

impl Bed {
    /// Starts a capture that counts every packet: there is hardly any yet.
    fn capture(&self) -> Capture {
        capture(self.container.pid(), &PacketOwner::Namespace)
    }

    /// Sends `packets` datagrams of `bytes` each, slowly.
    fn send(&self, to: &str, packets: u64, bytes: usize) {
        let to: SocketAddr = to.parse().unwrap();
        let sink = udp_sink(&self.container, None, to, packets);
        let udp = Udp::to(to).packets(packets).rate(500).bytes(bytes);
        udp_send(&self.source, None, udp).finish();
        assert_eq!(sink.finish()[0], packets);
    }
}

/// Starts a capture of the packets of `owner` in the network namespace of process `pid`.
fn capture(pid: u32, owner: &PacketOwner) -> Capture {
    let netns = File::open(format!("/proc/{pid}/ns/net")).unwrap();
    let capture = Capture::start(&netns, owner, None).unwrap();
    wait_until("every packet is taken", LIMIT, || {
        capture.reading().one_in == 1
    });
    capture
}

fn alone(body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Returns the packets of `protocol` to `port` by the capture.
fn packets(reading: &Reading, protocol: u8, port: Option<u16>) -> u64 {
    let flows = reading.flows.iter();
    flows
        .filter(|(flow, _)| flow.protocol == protocol && flow.ports.map(|p| p.1) == port)
        .map(|(_, count)| count.packets)
        .sum()
}

/// Waits up to 5 s for a reading that is `expected`; returns the last one.
fn await_reading(capture: &Capture, expected: impl Fn(&Reading) -> bool) -> Reading {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let reading = capture.reading();
        if expected(&reading) || Instant::now() > until {
            return reading;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Promise 15.
#[test]
fn both_families_and_protocols_are_counted_exactly_while_few() {
    alone(|| {
        let bed = bed();
        let capture = bed.capture();
        bed.send("10.99.0.2:9000", 200, 64);
        bed.send("[fd99::2]:9001", 100, 64);
        let to: SocketAddr = "10.99.0.2:9002".parse().unwrap();
        let sink = tcp_sink(&bed.container, None, to);
        tcp_send(&bed.source, None, to, 3_000_000).finish();
        assert_eq!(sink.finish(), [3_000_000]);

        let bytes = |r: &Reading, port| {
            let flows = r.flows.iter();
            let to = flows.filter(|(flow, _)| flow.ports.is_some_and(|p| p.1 == port));
            to.map(|(_, count)| count.bytes).sum::<u64>()
        };
        let all = |r: &Reading| {
            let counted = |port, least| packets(r, 17, Some(port)) >= least;
            counted(9000, 200) && counted(9001, 100) && bytes(r, 9002) > 3_000_000
        };
        let reading = await_reading(&capture, all);
        assert_eq!(packets(&reading, 17, Some(9000)), 200, "{reading:?}");
        assert_eq!(packets(&reading, 17, Some(9001)), 100, "{reading:?}");
        let of = |port| {
            let found = reading
                .flows
                .iter()
                .find(|(flow, _)| flow.ports.is_some_and(|p| p.1 == port));
            *found.unwrap_or_else(|| panic!("no flow to {port}: {reading:?}"))
        };
        let (v4, count) = of(9000);
        assert_eq!(v4.source, "10.99.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(v4.destination, "10.99.0.2".parse::<IpAddr>().unwrap());
        assert_eq!(
            (count.error_packets(), count.bytes),
            (0.0, 200 * (14 + 20 + 8 + 64))
        );
        assert_eq!(of(9001).0.source, "fd99::1".parse::<IpAddr>().unwrap());
        // TSO passes up to 64 KiB at once: counted as the segments that would be on a wire.
        let (tcp, count) = of(9002);
        assert_eq!(tcp.protocol, 6);
        assert!(count.bytes > 3_000_000, "{count:?}");
        let segments = 3_000_000 / 1448;
        assert!(
            (segments..segments + 300).contains(&count.packets),
            "{count:?}"
        );
        // Packets that the container sends are not counted.
        assert!(
            reading
                .flows
                .iter()
                .all(|(flow, _)| flow.source != v4.destination),
            "{reading:?}"
        );
    });
}

/// Promise 15.
#[test]
fn fragments_and_tagged_frames_are_seen_once() {
    alone(|| {
        let bed = bed();
        let capture = bed.capture();
        // 4,000 bytes are three fragments, the first with the ports.
        bed.send("10.99.0.2:9000", 100, 4000);
        // The kernel removes the outer tag; the inner one stays. No VLAN device takes them.
        let tagged = bed
            .source
            .thread(|| send_frames("veth0", (0..100).map(|i| tagged(1 + i % 2))));
        assert_eq!(tagged.join().unwrap(), 100);
        let all = |r: &Reading| packets(r, 17, None) >= 200 && packets(r, 17, Some(9001)) >= 100;
        let reading = await_reading(&capture, all);
        assert_eq!(packets(&reading, 17, Some(9000)), 100, "{reading:?}");
        assert_eq!(packets(&reading, 17, None), 200, "{reading:?}");
        assert_eq!(packets(&reading, 17, Some(9001)), 100, "{reading:?}");
        let fragments = |(flow, _): &&(cofferdam_flows::Flow, _)| flow.fragment;
        assert_eq!(
            reading.flows.iter().filter(fragments).count(),
            2,
            "{reading:?}"
        );
    });
}

/// The frames have any bytes, as a neighbour on the same link may send them.
///
/// Promise 68.
#[test]
fn hostile_frames_are_counted_and_do_no_harm() {
    alone(|| {
        let bed = bed();
        let capture = bed.capture();
        let sent = bed.source.thread(|| {
            let mut random = fastrand::Rng::with_seed(3);
            let frames = (0..500).map(|i| {
                let length = random.usize(14..200);
                let mut frame: Vec<u8> = std::iter::repeat_with(|| random.u8(..))
                    .take(length)
                    .collect();
                frame[..6].fill(0xff);
                let ether_type: [u8; 2] = [[0x08, 0x00], [0x86, 0xdd], [0x12, 0x34]][i % 3];
                frame[12..14].copy_from_slice(&ether_type);
                frame
            });
            send_frames("veth0", frames)
        });
        assert_eq!(sent.join().unwrap(), 500);
        bed.send("10.99.0.2:9000", 50, 64);
        let all = |r: &Reading| packets(r, 17, Some(9000)) >= 50;
        let reading = await_reading(&capture, all);
        assert_eq!(packets(&reading, 17, Some(9000)), 50);
        assert!(
            reading.total.packets >= 550 && reading.other.packets >= 166,
            "{reading:?}"
        );
        assert_eq!(reading.failed, None);
    });
}

/// Promise 15.
#[test]
fn its_end_closes_the_socket() {
    alone(|| {
        let bed = bed();
        let sockets = || bed.container.exec("cat /proc/net/packet").lines().count();
        let before = sockets();
        let capture = bed.capture();
        assert_eq!(sockets(), before + 1);
        drop(capture);
        assert_eq!(sockets(), before);
        // A container that has ended sends nothing more, and nothing fails.
        let capture = bed.capture();
        drop(bed);
        assert_eq!(capture.reading().failed, None);
    });
}

/// Two services run in the host's namespace behind a bridge, whose ports see every packet too. Each
/// gets the packets of its own sockets, also of later ones. Packets without a
/// receiver count for neither.
///
/// Promise 15.
#[test]
fn in_the_hosts_namespace_sockets_distinguish_packets() {
    alone(|| {
        let (ours, theirs) = (Cgroup::new("ours"), Cgroup::new("theirs"));
        let source = Namespace::new("source");
        let (bridge, port) = (unique_link(), unique_link());
        let bridge = Bridge::new(&Host, &bridge);
        let _link = VethPair::new((&source, "eth0"), (&Host, &port));
        bridge.add(&Host, &port);
        source.address("eth0", "10.96.8.2/24");
        Host.address(bridge.name(), "10.96.8.1/24");
        source.ping("10.96.8.1");
        let at = |port: u16| SocketAddr::from(([10, 96, 8, 1], port));
        let send = |port, packets| {
            let udp = Udp::to(at(port)).packets(packets).rate(500).bytes(64);
            udp_send(&source, None, udp).finish();
        };
        let received = |sink: ForkedProcess| sink.finish()[0];

        let first = udp_sink(&ours, None, at(9000), 200);
        let other = udp_sink(&theirs, None, at(9001), 100);
        let cgroups = PacketOwner::Cgroups([CgroupId(ours.id())].into());
        let capture = capture(std::process::id(), &cgroups);
        send(9000, 200);
        send(9001, 100);
        send(9009, 50);
        assert_eq!((received(first), received(other)), (200, 100));
        let reading = await_reading(&capture, |r| packets(r, 17, Some(9000)) >= 200);
        assert_eq!(packets(&reading, 17, Some(9000)), 200, "{reading:?}");
        assert_eq!(reading.total.packets, 200, "{reading:?}");

        // A new socket is found within a second or two, and so is any socket that listened before
        // it.
        let listening = tcp_sink(&ours, None, at(9003));
        let not_ours = tcp_sink(&theirs, None, at(9004));
        // (TCP's are read first: a query in flight may have the first new socket, but not the
        // sockets that listened just before it. The next query has all.)
        for port in [9002, 9005] {
            let _new = udp_sink(&ours, None, at(port), u64::MAX);
            wait_until("the new socket is known", LIMIT, || {
                send(port, 10);
                packets(&capture.reading(), 17, Some(port)) > 0
            });
        }
        // (A connection has a handful of packets: none of a single one may be in the sample.)
        let connect = |port, sink| {
            tcp_send(&source, None, at(port), 1000).finish();
            assert_eq!(received(sink), 1000);
        };
        connect(9004, not_ours);
        connect(9003, listening);
        wait_until("the connections' packets are counted", LIMIT, || {
            connect(9003, tcp_sink(&ours, None, at(9003)));
            packets(&capture.reading(), 6, Some(9003)) > 0
        });
        assert_eq!(packets(&capture.reading(), 6, Some(9004)), 0);
        assert_eq!(capture.reading().failed, None);
    });
}

/// The cost of a look at many sockets does not depend on N: it must not raise N.
#[test]
fn many_sockets_in_the_hosts_namespace_keep_the_sampling_rate() {
    alone(|| {
        raise_open_files();
        let bed = bed();
        let opened = bed.container.namespace().thread(|| {
            let bind = |_| UdpSocket::bind("127.0.0.1:0").unwrap();
            (0..4000).map(bind).collect::<Vec<_>>()
        });
        let _sockets = opened.join().unwrap();
        let cgroups = PacketOwner::Cgroups([CgroupId(1)].into());
        let capture = capture(bed.container.pid(), &cgroups);
        let every = || capture.reading().one_in == 1;
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            assert!(every(), "one in {}", capture.reading().one_in);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// Makes a datagram to port 9001 in `tags` VLAN tags.
fn tagged(tags: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend([0x81, 0x00, 0x00, 0x05].repeat(tags));
    frame.extend([
        0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 98, 0, 1, 10, 98, 0, 2,
    ]);
    frame.extend([0x10, 0x00, 0x23, 0x29, 0, 8, 0, 0]);
    frame
}

/// Sends `frames` from `device` of the calling thread's namespace; returns their number.
fn send_frames(device: &str, frames: impl Iterator<Item = Vec<u8>>) -> usize {
    let index = std::fs::read_to_string("/proc/thread-self/net/dev_mcast").unwrap();
    let line = index
        .lines()
        .find(|l| l.split_whitespace().nth(1) == Some(device))
        .unwrap();
    let index: i32 = line.split_whitespace().next().unwrap().parse().unwrap();
    // SAFETY: plain values; the address is a local that outlives each call, its length is passed.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(socket >= 0);
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = index;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        let sent = frames
            .filter(|f| {
                let n = libc::sendto(
                    socket,
                    f.as_ptr().cast(),
                    f.len(),
                    0,
                    (&raw const to).cast(),
                    length,
                );
                n == f.len() as isize
            })
            .count();
        libc::close(socket);
        sent
    }
}
