//! Filters, a full table, a namespace that ends: everything is counted, nothing is left behind.

mod common;

use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Namespace, Net, Router, hardware, htb};
use cofferdam_latency::{Class, Direction, Filter, LatencySizes, Meter, Miss, Start};
use common::{Watch, alone, netns};
use std::net::SocketAddr;

fn send(from: &Namespace, to: &Namespace, at: SocketAddr, packets: u64) {
    let sink = traffic::udp_sink(to, None, at, packets);
    let udp = Udp::to(at).packets(packets).rate(10_000);
    traffic::udp_send(from, None, udp).finish();
    assert_eq!(sink.finish()[0], packets);
}

/// Promise 21.
#[test]
fn filters_are_the_kernels() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        router.attach(&web);
        let there = router.attach(&peer);
        let filter = Filter {
            port: Some(9000),
            ingress: false,
            classes: [false, true, false, false],
            ..Filter::default()
        };
        let mut watch = Watch::with(web.namespace(), &filter, Start::Queue);
        send(web.namespace(), &peer, there.v4(9000), 100);
        send(web.namespace(), &peer, there.v4(9001), 100);
        web.ping(&there.ipv4.to_string());
        watch.read_all();
        let counts = watch.counts();
        assert_eq!(counts.packets, [[0, 100, 0, 0], [0; 4]], "{counts:?}");
        watch.assert_covered(Direction::Egress, Class::Udp, 100);
        for sample in &watch.samples {
            assert_eq!(sample.start_label(), "queue");
        }
        // Packets of another device are not measured.
        let elsewhere = Filter {
            ifindex: Some(99_999),
            ..Filter::default()
        };
        watch
            .meter
            .on(netns(web.namespace()), &elsewhere)
            .expect("a row");
        send(web.namespace(), &peer, there.v4(9000), 10);
        assert_eq!(watch.counts().packets, [[0, 100, 0, 0], [0; 4]]);
    });
}

/// Promise 21.
#[test]
fn one_flow_in_many_is_all_of_it_or_nothing() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        router.attach(&web);
        let there = router.attach(&peer);
        let filter = Filter {
            one_in: 4,
            classes: [false, true, false, false],
            ..Filter::default()
        };
        let mut watch = Watch::with(web.namespace(), &filter, Start::Queue);
        for _ in 0..40 {
            // Each sender has a port of its own.
            send(web.namespace(), &peer, there.v4(9000), 8);
        }
        watch.read_all();
        let packets = watch.counts().packets[0][1];
        assert!(
            packets > 0 && packets < 320 && packets.is_multiple_of(8),
            "{packets}"
        );
        watch.assert_sound();
    });
}

/// Promise 6.
#[test]
fn a_full_table_is_counted() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        router.attach(&web);
        let there = router.attach(&peer);
        htb(&*router, "c2", "2mbit");
        let sizes = LatencySizes {
            packets: 64,
            ..LatencySizes::default()
        };
        let mut watch = Watch::sized(web.namespace(), &Filter::default(), Start::Queue, sizes);
        // 500 packets wait in a queue for 200 ms; 64 have room.
        send(web.namespace(), &peer, there.v4(9000), 500);
        watch.read_all();
        let counts = watch.counts();
        assert!(counts.misses[0][Miss::Evicted as usize] > 300, "{counts:?}");
        assert!(counts.reports[0][1] > 0, "{counts:?}");
        watch.assert_sound();
    });
}

/// Promise 6.
#[test]
fn a_small_ring_loses_reports_and_says_so() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        router.attach(&web);
        let there = router.attach(&peer);
        let sizes = LatencySizes {
            reports_per_cpu: 64,
            ..LatencySizes::default()
        };
        let mut watch = Watch::sized(web.namespace(), &Filter::default(), Start::Queue, sizes);
        send(web.namespace(), &peer, there.v4(9000), 1000);
        watch.read_all();
        let totals = watch.totals();
        assert!(totals.lost > 0, "{totals:?}");
        assert!(totals.reports + totals.lost >= 1000, "{totals:?}");
        assert_eq!(totals.rejected, 0);
    });
}

/// Promise 21.
#[test]
fn a_namespace_that_goes_leaves_the_others() {
    alone(|| {
        let peer = Namespace::new("peer");
        let web = FakeContainer::new("web");
        let router = Router::new("router");
        let there = router.attach(&peer);
        router.attach(&web);
        let mut watch = Watch::on(web.namespace());
        let brief = FakeContainer::new("brief");
        router.attach(&brief);
        let ended = netns(brief.namespace());
        watch.meter.on(ended, &Filter::default()).expect("a row");
        drop(brief);
        send(web.namespace(), &peer, there.v4(9000), 100);
        watch.meter.off(ended);
        watch.meter.off(ended);
        watch.read_all();
        watch.assert_covered(Direction::Egress, Class::Udp, 100);
    });
}

/// No device here has hardware timestamps: each packet's is absent.
///
/// Promise 19.
#[test]
fn a_stamp_that_no_hardware_gives_is_absent() {
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let here = router.attach(&web);
        router.attach(&peer);
        let stamping = vec!["nic0".to_owned()];
        let meter = Meter::load_with(LatencySizes::default(), Start::Queue, stamping);
        let mut watch = Watch::of_meter(meter, web.namespace(), &Filter::default());
        assert_eq!(watch.meter.hardware_timestamping(), ["nic0"]);
        send(&peer, web.namespace(), here.v4(9000), 100);
        watch.read_all();
        watch.assert_covered(Direction::Ingress, Class::Udp, 100);
        for sample in &watch.samples {
            assert_eq!(sample.report.hardware_ns, None);
        }
    });
}

/// The timestamp in a received packet's buffer is in its report, and in no other.
///
/// Promise 19.
#[test]
fn a_stamp_of_the_hardware_is_reported() {
    const STAMP_NS: u64 = 1_700_000_000_123_456_789;
    alone(|| {
        let (web, peer) = (FakeContainer::new("web"), Namespace::new("peer"));
        let router = Router::new("router");
        let here = router.attach(&web);
        let there = router.attach(&peer);
        web.ping(&there.ipv4.to_string());
        let to = here.v4(9000);
        let frame = datagram(&mac(&router, "c2"), there.v4(9), to);
        let watch = |stamping: Vec<String>| {
            let meter = Meter::load_with(LatencySizes::default(), Start::Queue, stamping);
            let mut watch = Watch::of_meter(meter, web.namespace(), &Filter::default());
            let sink = traffic::udp_sink(&web, None, to, 1);
            hardware::receive_stamped(&router, router.ifindex("c2"), &frame, STAMP_NS);
            assert_eq!(sink.finish()[0], 1);
            watch.read_all();
            watch.assert_covered(Direction::Ingress, Class::Udp, 1);
            let of = watch.of(Direction::Ingress, Class::Udp);
            of.map(|s| s.report.hardware_ns).collect::<Vec<_>>()
        };
        assert_eq!(watch(vec!["c2".to_owned()]), [Some(STAMP_NS)]);
        // If no device is known to have timestamps, none is read: that costs nothing.
        assert_eq!(watch(Vec::new()), [None]);
    });
}

fn mac(net: &Namespace, device: &str) -> Vec<u8> {
    // NAME STATE ADDRESS FLAGS
    let text = net.run(&format!("ip -brief link show {device}"));
    let bytes = text
        .split_whitespace()
        .nth(2)
        .expect("an address")
        .split(':');
    bytes
        .map(|b| u8::from_str_radix(b, 16).expect("a hardware address"))
        .collect()
}

/// Makes an Ethernet frame with an IPv4 datagram of 32 bytes without a checksum of its own.
fn datagram(to_mac: &[u8], from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        panic!("IPv4");
    };
    let mut ip = vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(from.ip().octets());
    ip.extend(to.ip().octets());
    let words = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = [from.port(), to.port(), 40, 0]
        .map(u16::to_be_bytes)
        .concat();
    let from_mac = [2, 0, 0, 0, 0, 1];
    [to_mac, &from_mac, &[8, 0], &ip, &udp, &[0x5a; 32]].concat()
}

#[test]
fn rows_run_out_with_a_clear_error() {
    alone(|| {
        let sizes = LatencySizes {
            containers: 2,
            ..LatencySizes::default()
        };
        let mut meter = Meter::load(sizes, Start::Queue).expect("root may load");
        let netns = cofferdam_types::NetnsId;
        meter.on(netns(1), &Filter::default()).expect("a row");
        meter.on(netns(2), &Filter::default()).expect("a row");
        let error = meter.on(netns(3), &Filter::default()).expect_err("no row");
        assert!(error.to_string().contains("2 containers"), "{error}");
        meter.off(netns(1));
        meter.on(netns(3), &Filter::default()).expect("a row");
    });
}
