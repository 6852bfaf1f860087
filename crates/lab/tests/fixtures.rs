//! Tests of the fixtures: they do their work and leave nothing behind.

use cofferdam_lab::fixtures::traffic::{Udp, tcp_send, tcp_sink, udp_echo, udp_send, udp_sink};
use cofferdam_lab::fixtures::*;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs `body` alone, within a minute, and checks that it left nothing.
fn scene(body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), body);
    assert_nothing_left();
}

#[test]
fn namespace_has_its_own_devices_and_runs_commands() {
    scene(|| {
        let ns = Namespace::new("ns");
        assert_eq!(ns.run("ip -br link").lines().count(), 1);
        assert_eq!(
            ns.run("readlink /proc/self/ns/net").trim(),
            format!("net:[{}]", ns.inode())
        );
        let sleeper = ns.spawn("sleep 1000");
        assert!(sleeper.is_alive());
        let inside = ns.thread(|| std::net::UdpSocket::bind("127.0.0.1:9").is_ok());
        assert!(inside.join().unwrap());
        ns.ping("127.0.0.1");
        ns.ping("::1");
    });
}

/// Promise 80.
#[test]
fn fixtures_are_undone_in_reverse_order_when_a_test_panics() {
    scene(|| {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let a = FakeContainer::new("a");
            let router = Router::new("r");
            router.attach(&a);
            let _sink = udp_sink(&a, None, "10.98.1.2:9".parse().unwrap(), 1);
            assert!(leftovers::list().iter().any(|l| l.contains(a.name())));
            panic!("on purpose");
        }));
        assert!(result.is_err());
        assert_nothing_left();
    });
}

/// Promise 80.
#[test]
fn time_limit_undoes_the_fixtures_of_a_stuck_test() {
    let _alone = exclusive();
    static INODE: AtomicU64 = AtomicU64::new(0);
    let result = catch_unwind(|| {
        time_limit(Duration::from_millis(500), || {
            let namespace = Namespace::new("stuck");
            // The parent of `sleep` ends at once, so `sleep` has no owner in the test.
            namespace.spawn("setsid -f sleep 1000").wait();
            INODE.store(namespace.inode(), Ordering::Relaxed);
            let container = FakeContainer::new("stuck");
            let sleeper = container.start("sleep 1000");
            sleeper.wait();
        });
    });
    let message = *result.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("longer than its limit"), "{message}");
    assert_nothing_left();
    let namespace = format!("net:[{}]", INODE.load(Ordering::Relaxed));
    wait_until(
        "what ran in the namespace to end",
        Duration::from_secs(10),
        || {
            let mut all = std::fs::read_dir("/proc").unwrap().flatten();
            !all.any(|process| {
                let link = std::fs::read_link(process.path().join("ns/net"));
                link.is_ok_and(|link| link.to_str() == Some(&namespace))
            })
        },
    );
}

/// Process id above the largest of 64-bit Linux.
const DEAD: u32 = 4_194_305;

/// Promise 80.
#[test]
fn objects_of_killed_tests_are_swept() {
    scene(|| {
        // A process in each of the cgroup and the namespace, as a killed test leaves them.
        let group = Cgroup::new("parent");
        let (orphan, space) = (format!("cf-{DEAD}-0-dead"), format!("cf-{DEAD}-1-dead"));
        let root = group.dir().parent().expect("the cgroup has a parent");
        let dead = root.join(&orphan).join("inner");
        std::fs::create_dir_all(&dead).unwrap();
        run(&["ip", "netns", "add", &space]);
        run(&["ip", "link", "add", "cf2hwchx0", "type", "bridge"]);
        let mut member = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        std::fs::write(dead.join("cgroup.procs"), member.id().to_string()).unwrap();
        let mut inside = std::process::Command::new("ip")
            .args(["netns", "exec", &space, "sleep", "1000"])
            .spawn()
            .unwrap();
        let place = std::path::Path::new("/run/netns").join(&space);
        let inode = |path: String| std::fs::metadata(path).map(|m| m.ino()).ok();
        let target = inode(place.display().to_string());
        let own = format!("/proc/{}/ns/net", inside.id());
        wait_until("the process is inside", Duration::from_secs(10), || {
            inode(own.clone()) == target
        });

        cofferdam_lab::sweep::leftovers();

        assert!(!member.wait().unwrap().success() && !inside.wait().unwrap().success());
        let left = leftovers::list();
        let left: Vec<_> = left.iter().filter(|l| l.contains("dead")).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!std::path::Path::new("/sys/class/net/cf2hwchx0").exists());
        // Objects of living processes stay.
        assert!(group.dir().exists());
    });
}

#[test]
fn cgroup_holds_processes_and_counts_their_cpu_time() {
    scene(|| {
        let cgroup = Cgroup::new("group");
        let child = cgroup.child("inner");
        let busy = traffic::compute(&child, Some(0), Duration::from_millis(200));
        busy.finish();
        assert!(child.cpu_usage() > Duration::ZERO);
        assert!(cgroup.cpu_usage() >= child.cpu_usage());
        let sleeper = Host.spawn("sleep 1000");
        child.add(sleeper.pid());
        assert_eq!(child.pids(), [sleeper.pid()]);
        assert_ne!(child.id(), cgroup.id());
        // The process is still there: removal ends it, and only it.
        drop(child);
        assert!(!sleeper.is_alive());
    });
}

#[test]
fn fake_container_runs_inside_its_cgroup_and_namespace() {
    scene(|| {
        let c = FakeContainer::new("c");
        let cgroup = c.exec("cat /proc/self/cgroup");
        let v2 = format!("0::{}", c.cgroup_path().display());
        assert!(cgroup.lines().any(|l| l == v2), "{cgroup}");
        let netns = format!("net:[{}]", c.namespace().inode());
        assert_eq!(c.exec("readlink /proc/self/ns/net").trim(), netns);
        let idle = std::fs::read_link(format!("/proc/{}/ns/net", c.pid())).unwrap();
        assert_eq!(idle.to_str().unwrap(), netns);
    });
}

/// Promise 80.
#[test]
fn udp_crosses_a_router_packet_by_packet() {
    scene(|| {
        let router = Router::new("net");
        let (a, b) = (FakeContainer::new("a"), FakeContainer::new("b"));
        router.attach(&a);
        let to = router.attach(&b);
        router.steer(&to.device, 1);
        b.steer("eth0", 1);
        for at in [to.v4(9000), to.v6(9000)] {
            let sink = udp_sink(&b, Some(0), at, 3000);
            let sent = udp_send(&a, Some(1), Udp::to(at).packets(3000).bytes(200));
            assert_eq!(sent.finish(), [3000]);
            assert_eq!(sink.finish(), [3000, 600_000]);
        }
    });
}

#[test]
fn tcp_arrives_whole_through_a_bridge_with_napi_threads() {
    scene(|| {
        let lan = Lan::new("lan");
        let (a, b) = (FakeContainer::new("a"), FakeContainer::new("b"));
        lan.attach(&a);
        let to = lan.attach(&b);
        b.offload("eth0", "gro", true);
        b.threaded("eth0", true);
        for at in [to.v4(80), to.v6(80)] {
            let sink = tcp_sink(&b, Some(0), at);
            assert_eq!(tcp_send(&a, Some(1), at, 20_000_000).finish(), [20_000_000]);
            assert_eq!(sink.finish(), [20_000_000]);
        }
        let echo = udp_echo(&b, None, to.v4(7));
        assert!(echo.is_alive());
    });
}

#[test]
fn port_forwarding_and_masquerade_reach_the_container() {
    scene(|| {
        let router = Router::new("nat");
        let (outside, inside) = (FakeContainer::new("out"), FakeContainer::new("in"));
        let out = router.attach(&outside);
        let to = router.attach(&inside);
        masquerade(&router, &to.device);
        port_forward(&router, "tcp", 8080, &to.v4(80).to_string());
        let gateway = out
            .v4(8080)
            .to_string()
            .replace(".2:", ".1:")
            .parse()
            .unwrap();
        let sink = tcp_sink(&inside, None, to.v4(80));
        tcp_send(&outside, None, gateway, 100_000).finish();
        assert_eq!(sink.finish(), [100_000]);
    });
}

#[test]
fn htb_vxlan_and_macvlan_carry_traffic() {
    scene(|| {
        let lan = Lan::new("lan");
        let (a, b) = (FakeContainer::new("a"), FakeContainer::new("b"));
        let (pa, pb) = (lan.attach(&a), lan.attach(&b));
        htb(&a, "eth0", "1gbit");
        let (ia, ib) = (pa.ipv4.to_string(), pb.ipv4.to_string());
        vxlan(&a, "vx0", 7, "eth0", &ia, &ib);
        vxlan(&b, "vx0", 7, "eth0", &ib, &ia);
        a.address("vx0", "10.90.0.1/24");
        b.address("vx0", "10.90.0.2/24");
        a.ping("10.90.0.2");
        assert!(a.run("tc -s class show dev eth0").contains("htb 1:1"));

        let c = FakeContainer::new("c");
        macvlan(&a, "eth0", &c, "mv0");
        c.address("mv0", "10.99.0.99/24");
        c.ping("10.99.0.3");
        assert!(c.ifindex("mv0") > 1);
    });
}

#[test]
fn podman_container_is_where_it_says() {
    scene(|| {
        let c = PodmanContainer::new("pod", Network::None);
        assert_eq!(c.exec("echo hello").trim(), "hello");
        assert!(c.cgroup_path().to_string_lossy().contains(c.id()));
        let inside = fork(&c, None, |_| {
            let id = std::fs::read_to_string("/proc/self/cgroup")?;
            Ok(vec![
                id.lines()
                    .find(|l| l.starts_with("0::"))
                    .map_or(0, |l| l.len() as u64),
            ])
        });
        assert_eq!(
            inside.finish()[0],
            c.cgroup_path().as_os_str().len() as u64 + 3
        );
        assert_eq!(
            c.run("readlink /proc/self/ns/net").trim(),
            format!("net:[{}]", c.netns_inode())
        );
        let host = PodmanContainer::new("host", Network::Host);
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = std::fs::read_link(format!("/proc/{}/ns/net", host.pid())).unwrap();
        assert_eq!(own, theirs);
    });
}

/// Promise 80.
#[test]
fn podman_containers_exchange_packets_through_a_router() {
    scene(|| {
        let router = Router::new("net");
        let a = PodmanContainer::new("a", Network::None);
        let b = PodmanContainer::new("b", Network::None);
        router.attach(&a);
        let to = router.attach(&b);
        let sink = udp_sink(&b, None, to.v4(9000), 500);
        assert_eq!(
            udp_send(&a, None, Udp::to(to.v4(9000)).packets(500)).finish(),
            [500]
        );
        assert_eq!(sink.finish()[0], 500);
    });
}

/// Promise 80.
#[test]
fn podman_bridge_leaves_no_firewall_rules_that_were_not_there() {
    let rules = || run(&["iptables", "-S"]) + &run(&["iptables", "-t", "nat", "-S"]);
    let before = rules();
    scene(|| {
        let c = PodmanContainer::new("br", Network::Bridge);
        assert!(c.exec("ip -o address show eth0").contains("inet "));
    });
    assert_eq!(rules(), before);
}
