//! Paths of packets to a container: the host stage counts for the receiver too.

mod common;

use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{
    FakeContainer, Host, Lan, Namespace, Net, Network, PodmanContainer, PodmanPod, Router,
    VethPair, macvlan, masquerade, port_forward, vxlan,
};
use cofferdam_types::{Interval, NetnsId, Reason};
use common::*;
use std::net::SocketAddr;

const PACKETS: u64 = 2000;

/// Sends [`PACKETS`] from a plain namespace to `at` inside the container's namespace. Returns how
/// many came through as well: a busy host may lose some before any stack has seen them.
fn deliver(
    accountant: &mut cofferdam_accounting::Accountant,
    from: &Namespace,
    to: &FakeContainer,
    address: SocketAddr,
    at: SocketAddr,
) -> (u64, Interval) {
    let (came, interval) = exactly(accountant, || {
        let sink = traffic::udp_sink(to, Some(RECEIVER_CPU), at, PACKETS);
        traffic::udp_send(from, Some(SENDER_CPU), Udp::to(address).packets(PACKETS)).finish();
        sink.finish()[0]
    });
    assert!(came > 0, "nothing came through");
    assert_conserved(&interval);
    (came, interval)
}

#[track_caller]
fn assert_received(interval: &Interval, id: u64, came: u64) {
    let counts = ledger(interval, id);
    assert!(
        (came..PACKETS + 20).contains(&counts.rx_packets),
        "{came} came through: {counts:?}"
    );
    assert!(counts.caused_rx_ns > 0, "{counts:?}");
}

/// Returns the unattributed network time.
fn unattributed_ns(interval: &Interval) -> u64 {
    [
        Reason::HostTraffic,
        Reason::Forwarding,
        Reason::UnknownNamespace,
    ]
    .into_iter()
    .map(|reason| unattributed(interval, reason))
    .sum()
}

/// Promise 2.
#[test]
fn bridged_packets_cost_their_receiver_the_bridge_too() {
    alone(90, || {
        let (web, source) = (FakeContainer::new("web"), Namespace::new("source"));
        let lan = Lan::new("lan");
        let to = lan.attach(web.namespace()).v4(9000);
        lan.attach(&source);
        let mut accountant = accountant();
        let (came, interval) = deliver(&mut accountant, &source, &web, to, to);
        assert_received(&interval, web.id(), came);
        assert!(
            unattributed_ns(&interval) * 4 < ledger(&interval, web.id()).caused_rx_ns,
            "the bridge's work has an owner: {:?}",
            interval.unattributed_ns
        );
    });
}

/// Promise 2.
#[test]
fn forwarded_and_translated_packets_cost_their_receiver() {
    alone(90, || {
        let (web, source) = (FakeContainer::new("web"), Namespace::new("source"));
        let router = Router::new("router");
        let at = router.attach(web.namespace()).v4(9000);
        router.attach(&source);
        port_forward(&*router, "udp", 8000, &at.to_string());
        masquerade(&*router, "c1");
        let mut accountant = accountant();
        let outside = "10.98.2.1:8000".parse().expect("an address");
        let (came, interval) = deliver(&mut accountant, &source, &web, outside, at);
        assert_received(&interval, web.id(), came);
        assert!(
            unattributed_ns(&interval) * 4 < ledger(&interval, web.id()).caused_rx_ns,
            "routing, NAT and conntrack have an owner: {:?}",
            interval.unattributed_ns
        );
    });
}

/// Promise 2.
#[test]
fn vxlan_inside_a_container_is_that_containers() {
    alone(90, || {
        let (web, far) = (FakeContainer::new("web"), Namespace::new("far"));
        let router = Router::new("router");
        let (a, b) = (router.attach(web.namespace()), router.attach(&far));
        let (here, there) = (a.ipv4.to_string(), b.ipv4.to_string());
        vxlan(web.namespace(), "vx0", 7, "eth0", &here, &there);
        vxlan(&far, "vx0", 7, "eth0", &there, &here);
        web.namespace().address("vx0", "10.96.0.1/24");
        far.address("vx0", "10.96.0.2/24");
        far.ping("10.96.0.1");
        let mut accountant = accountant();
        let to: SocketAddr = "10.96.0.1:9000".parse().expect("an address");
        let (came, interval) = deliver(&mut accountant, &far, &web, to, to);
        let counts = ledger(&interval, web.id());
        // The outer and the inner packet both pass its stack.
        assert!(counts.rx_packets >= 2 * came, "{came}: {counts:?}");
    });
}

/// The work on the outer packet ends before the inner one is read. The inner address names its
/// owner, once a first packet of the container came through.
///
/// Promise 2.
#[test]
fn a_tunnel_costs_its_containers_the_outer_packets_too() {
    alone(90, || {
        let (web, source) = (FakeContainer::new("web"), Namespace::new("source"));
        let router = Router::new("router");
        let port = router.attach(&web);
        // Without this the devices look for neighbours for some seconds: few packets, but some take
        // 0.3 ms.
        let nets: [&dyn Net; 3] = [&*router, &source, web.namespace()];
        nets.iter()
            .for_each(|net| net.sysctl("net/ipv6/conf/all/disable_ipv6", "1"));
        let _pair = VethPair::new((&source, "p0"), (&*router, "up0"));
        source.address("p0", "10.97.0.1/24");
        router.address("up0", "10.97.0.2/24");
        vxlan(&*router, "vx0", 7, "up0", "10.97.0.2", "10.97.0.1");
        vxlan(&source, "vx0", 7, "p0", "10.97.0.1", "10.97.0.2");
        router.address("vx0", "10.96.0.2/24");
        source.address("vx0", "10.96.0.1/24");
        source.route("default via 10.96.0.2");
        source.ping(&port.ipv4.to_string());
        let mut accountant = accountant();
        let at = port.v4(9000);
        let (came, interval) = deliver(&mut accountant, &source, &web, at, at);
        assert_received(&interval, web.id(), came);
        // Again, now that the address is learned: less than a twentieth is unattributed.
        let (came, interval) = deliver(&mut accountant, &source, &web, at, at);
        assert_received(&interval, web.id(), came);
        let caused = ledger(&interval, web.id()).caused_rx_ns;
        assert!(unattributed_ns(&interval) * 20 < caused, "{interval:?}");
        // In the way of a card's queue: many packets come at once, and leave the tunnel as lists.
        // The sender's CPU only wakes the other one.
        router.steer("up0", 1 << RECEIVER_CPU);
        let (came, interval) = deliver(&mut accountant, &source, &web, at, at);
        assert_received(&interval, web.id(), came);
        let there = interval.cpus[RECEIVER_CPU].1.network_softirq_ns;
        let caused = ledger(&interval, web.id()).caused_rx_ns;
        assert!(there.saturating_sub(caused) * 20 < there, "{interval:?}");
        // A packet for an unknown container counts for the host.
        router.route("blackhole 10.98.9.0/24");
        let other = "10.98.9.9:9000".parse().unwrap();
        let (_, interval) = exactly(&mut accountant, || {
            traffic::udp_send(&source, Some(SENDER_CPU), Udp::to(other).packets(PACKETS)).finish();
        });
        assert!(ledger(&interval, web.id()).rx_packets < 20, "ARP at most");
        assert!(ledger(&interval, web.id()).caused_rx_ns * 20 < unattributed_ns(&interval));
    });
}

/// Makes a container at 10.95.0.2 whose device is stacked on the device that a plain namespace at
/// 10.95.0.1 sends to. Both devices are named `eth0`. The last value keeps the host's device.
fn over_macvlan() -> (FakeContainer, Namespace, (VethPair, Namespace)) {
    let web = FakeContainer::new("web");
    let (host, source) = (Namespace::new("host"), Namespace::new("source"));
    let pair = VethPair::new((&source, "eth0"), (&host, "up0"));
    macvlan(&host, "up0", web.namespace(), "eth0");
    source.address("eth0", "10.95.0.1/24");
    web.namespace().address("eth0", "10.95.0.2/24");
    source.ping("10.95.0.2");
    (web, source, (pair, host))
}

/// Promise 2.
#[test]
fn a_macvlan_container_is_known_by_its_sockets() {
    alone(90, || {
        let (web, source, _host) = over_macvlan();
        let mut accountant = accountant();
        let to: SocketAddr = "10.95.0.2:9000".parse().expect("an address");
        let (came, interval) = deliver(&mut accountant, &source, &web, to, to);
        assert_received(&interval, web.id(), came);
    });
}

/// A socket that its reader has locked takes packets without an event: the address names it.
///
/// Promise 2.
#[test]
fn a_macvlan_stream_costs_its_container_while_its_reader_reads() {
    alone(120, || {
        let (web, source, _host) = over_macvlan();
        source.address("eth0", "fd95::1/64");
        web.namespace().address("eth0", "fd95::2/64");
        source.ping("fd95::2");
        // Packets of at most one MTU, as on a wire.
        source.offload("eth0", "tso", false);
        let mut accountant = accountant();
        for to in ["10.95.0.2:9000", "[fd95::2]:9000"] {
            let to: SocketAddr = to.parse().expect("an address");
            let mut stream = |bytes: u64| {
                let (_, interval) = exactly(&mut accountant, || {
                    // Both on one CPU: packets interrupt the reader in the middle of a read.
                    let sink = traffic::tcp_sink(&web, Some(RECEIVER_CPU), to);
                    traffic::tcp_send(&source, Some(SENDER_CPU), to, bytes).finish();
                    sink.finish()[0]
                });
                assert_conserved(&interval);
                interval
            };
            stream(1 << 20);
            let interval = stream(32 << 20);
            let web = ledger(&interval, web.id());
            let (came, caused) = (web.rx_bytes, web.caused_rx_ns);
            // Bytes include headers: less than a twentieth may be missing.
            assert!(came >= 32 << 20, "{to}: {came} bytes are known");
            // Acknowledgements are unattributed. They go to the sender's namespace, at most one for
            // each packet.
            assert!(
                unattributed_ns(&interval) * 2 < caused,
                "{to}: {} ns are unattributed, of {caused} ns caused",
                unattributed_ns(&interval)
            );
        }
    });
}

/// Promise 2.
#[test]
fn threaded_napi_is_measured_and_given_to_its_container() {
    alone(90, || {
        let web = FakeContainer::new("web");
        let mut source = Source::new();
        let to = source.join(web.namespace(), 9000);
        web.namespace().offload("eth0", "gro", true);
        web.namespace().threaded("eth0", true);
        web.namespace().steer("eth0", 0);
        // A peer that offers segmentation bypasses veth's NAPI.
        source.namespace.offload("s1", "tso", false);
        let mut accountant = accountant();
        let (came, interval) = deliver(&mut accountant, &source.namespace, &web, to, to);
        assert_received(&interval, web.id(), came);
        let threads: u64 = interval.cpus.iter().map(|(_, t)| t.napi_thread_ns).sum();
        let caused = ledger(&interval, web.id()).caused_rx_ns;
        assert!(threads > 0, "{:?}", interval.cpus);
        assert!(
            caused * 10 > threads * 9,
            "caused {caused} ns of {threads} ns in NAPI threads: {interval:?}"
        );
    });
}

/// The cgroup of the receiving socket tells them apart.
///
/// Promise 7.
#[test]
fn a_host_network_container_is_distinguished_from_the_host() {
    alone(120, || {
        let container = PodmanContainer::new("hostnet", Network::Host);
        let mut accountant = accountant();
        let id = cgroup_id(&container);
        let to: SocketAddr = "127.0.0.1:39471".parse().expect("an address");
        let (came, interval) = exactly(&mut accountant, || {
            let sink = traffic::udp_sink(&container, Some(RECEIVER_CPU), to, PACKETS);
            traffic::udp_send(&Host, Some(SENDER_CPU), Udp::to(to).packets(PACKETS)).finish();
            sink.finish()[0]
        });
        let theirs = ledger(&interval, id);
        assert!(came > 0, "nothing came through");
        assert!(
            (came..PACKETS + 20).contains(&theirs.rx_packets),
            "{came} came through: {theirs:?}"
        );
        assert!(row(&interval, id).container.host_network);
        let (came, interval) = exactly(&mut accountant, || {
            let sink = traffic::udp_sink(&Host, Some(RECEIVER_CPU), to, PACKETS);
            traffic::udp_send(&Host, Some(SENDER_CPU), Udp::to(to).packets(PACKETS)).finish();
            sink.finish()[0]
        });
        assert!(came > 0, "nothing came through");
        assert_eq!(
            ledger(&interval, id).rx_packets,
            0,
            "the host's own packets"
        );
        // The cgroup of the test may have a row by now.
        let rows = interval.containers.iter();
        let hosts = rows.filter(|row| row.container.is_of_host());
        let hosts_ns: u64 = hosts.map(|row| row.ledger.caused_ns()).sum();
        assert!(hosts_ns + unattributed(&interval, Reason::HostTraffic) > 0);
    });
}

/// The sandbox is made inside a container, and later found by a scan.
///
/// Promise 7.
#[test]
fn packets_of_a_sandbox_stay_its_containers_after_a_restart() {
    alone(120, || {
        // The sandbox's namespace is older: its smaller number must not give it precedence.
        let inner = Namespace::new("inner");
        let mut source = Source::new();
        let web = FakeContainer::new("web");
        let (outside, inside) = (
            source.join(web.namespace(), 39474),
            source.join(&inner, 39475),
        );
        let mut accountant = Some(accountant());
        let _sandbox = web.start(&format!("ip netns exec {} sleep 1000", inner.name()));
        for restarted in [false, true] {
            if restarted {
                drop(accountant.take());
            }
            let accountant = accountant.get_or_insert_with(common::accountant);
            follow_for_ms(accountant, 500);
            for (place, to) in [(web.namespace(), outside), (&inner, inside)] {
                let (came, interval) = exactly(accountant, || {
                    let sink = traffic::udp_sink(place, Some(RECEIVER_CPU), to, PACKETS);
                    let udp = Udp::to(to).packets(PACKETS);
                    traffic::udp_send(&source.namespace, Some(SENDER_CPU), udp).finish();
                    sink.finish()[0]
                });
                assert!(came > 0, "nothing came through");
                assert_received(&interval, web.id(), came);
            }
            let interval = during(accountant, || ()).1;
            let container = &row(&interval, web.id()).container;
            let number = |net: &Namespace| NetnsId(u32::try_from(net.inode()).expect("32 bits"));
            assert_eq!(container.netns, Some(number(web.namespace())));
            assert_eq!(container.further_netns, [number(&inner)]);
        }
    });
}

/// Promise 7.
#[test]
fn a_podman_container_is_known_by_name_and_pays() {
    alone(120, || {
        let mut accountant = accountant();
        let (web, source) = (
            PodmanContainer::new("web", Network::None),
            Namespace::new("source"),
        );
        let router = Router::new("router");
        let to = router.attach(&web).v4(9000);
        router.attach(&source);
        follow_for_ms(&mut accountant, 500);
        let id = cgroup_id(&web);
        let (came, interval) = exactly(&mut accountant, || {
            let sink = traffic::udp_sink(&web, Some(RECEIVER_CPU), to, PACKETS);
            traffic::udp_send(&source, Some(SENDER_CPU), Udp::to(to).packets(PACKETS)).finish();
            sink.finish()[0]
        });
        assert_received(&interval, id, came);
        let container = &row(&interval, id).container;
        assert_eq!(container.name, web.name());
        assert_eq!(container.id.as_deref(), Some(web.id()));
    });
}

/// The second container of a pod joins the namespace of the first one, after its cgroup is known.
/// The cgroups of the receiving sockets tell them apart.
///
/// Promise 7.
#[test]
fn the_containers_of_a_starting_pod_are_distinguished() {
    alone(120, || {
        let mut accountant = accountant();
        let source = Namespace::new("source");
        let pod = std::thread::scope(|scope| {
            let starting = scope.spawn(|| PodmanPod::new("pod", 2));
            while !starting.is_finished() {
                follow_for_ms(&mut accountant, 5);
            }
            starting.join().expect("the pod starts")
        });
        let router = Router::new("router");
        let port = router.attach(&pod);
        router.attach(&source);
        follow_for_ms(&mut accountant, 500);
        let all = [&pod.sandbox, &pod.containers[0], &pod.containers[1]];
        let ids = all.map(|member| cgroup_id_at(&member.cgroup_path()));
        let netns = row(&during(&mut accountant, || ()).1, ids[0])
            .container
            .netns;
        for (receiver, id) in all.iter().zip(ids).skip(1) {
            let to = port.v4(9000);
            let (came, interval) = exactly(&mut accountant, || {
                let sink = traffic::udp_sink(*receiver, Some(RECEIVER_CPU), to, PACKETS);
                traffic::udp_send(&source, Some(SENDER_CPU), Udp::to(to).packets(PACKETS)).finish();
                sink.finish()[0]
            });
            let container = &row(&interval, id).container;
            assert_eq!(container.netns, netns, "{}", receiver.name());
            assert!(!container.host_network);
            assert!(came > 0, "nothing came through");
            let theirs = ledger(&interval, id).rx_packets;
            assert!(theirs >= came, "{}: {theirs} of {came}", receiver.name());
        }
    });
}

fn cgroup_id(container: &PodmanContainer) -> u64 {
    cgroup_id_at(&container.cgroup_path())
}

fn cgroup_id_at(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mount =
        cofferdam_host::CgroupLayout::read(&cofferdam_host::HostFs::host()).expect("a v2 mount");
    let directory = mount.v2_directory(path);
    std::fs::metadata(directory)
        .expect("the container's cgroup")
        .ino()
}
