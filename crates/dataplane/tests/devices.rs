//! A dataplane with two devices, between two separate networks.

mod support;

use cofferdam_dataplane::applications::Echo;
use cofferdam_dataplane::status;
use cofferdam_lab::fixtures::{Namespace, Net, exclusive, time_limit, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use support::{ADDRESS, ECHO, SECOND_ADDRESS, Scene, bytes, connect, round_trip};

const LIMIT: Duration = Duration::from_secs(120);

fn scene(cores: &str, queues: u32, link: &str) -> Scene {
    let v6 = ECHO.replace("\"echo\"", "\"v6\"");
    let text = format!("{cores}{ECHO}{v6}");
    let mut scene = Scene::with_two_devices(&text, queues, link);
    scene.serve("echo", || Echo::new(SocketAddr::from(([0; 4], 7))));
    scene.serve("v6", || Echo::new(SocketAddr::from(([0; 8], 7))));
    scene
}

/// Data that port 7 at `to` returns for `sent`, in a namespace.
fn echoed(net: &Namespace, to: &'static str, sent: Vec<u8>) -> Vec<u8> {
    let thread = net.thread(move || round_trip(connect(to, 7), sent));
    thread.join().expect("the client ends")
}

/// Whether no connection to `to` can be opened in a namespace.
fn is_unreachable(net: &Namespace, to: SocketAddr) -> bool {
    let patience = Duration::from_millis(1500);
    let thread = net.thread(move || TcpStream::connect_timeout(&to, patience).is_err());
    thread.join().expect("the client ends")
}

/// Packets received and sent by each device, in order.
fn packets(scene: &Scene) -> Vec<(u64, u64)> {
    let status = status(&scene.socket()).expect("a status");
    let links = status["links"].as_array().expect("links").iter();
    let count = |link: &serde_json::Value, key: &str| link[key].as_u64().expect("a number");
    links
        .map(|link| (count(link, "received_packets"), count(link, "sent_packets")))
        .collect()
}

/// Promise 49.
#[test]
fn clients_of_both_networks_are_served_at_once() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("", 1, "");
        let second = scene.second();
        scene.client.ping(ADDRESS);
        second.ping(SECOND_ADDRESS);
        let before = packets(&scene);
        let sent = bytes(4 << 20, 1);
        std::thread::scope(|scope| {
            let near = scope.spawn(|| echoed(&scene.client, ADDRESS, sent.clone()));
            let far = scope.spawn(|| echoed(second, SECOND_ADDRESS, sent.clone()));
            assert!(near.join().expect("it ends") == sent);
            assert!(far.join().expect("it ends") == sent);
        });
        assert!(echoed(&scene.client, "fd98::9", bytes(100_000, 2)) == bytes(100_000, 2));
        assert!(echoed(second, "fd99::9", bytes(100_000, 3)) == bytes(100_000, 3));
        wait_until("both devices' packets are counted", LIMIT, || {
            let counted = packets(&scene).into_iter().zip(&before);
            let mut counted = counted.map(|(now, before)| (now.0 - before.0, now.1 - before.1));
            counted.all(|(received, sent)| received > 100 && sent > 100)
        });
        assert_eq!(scene.count("/counts/flush_errors"), 0);
    });
}

/// The strong host model: an address answers on its own device only, and no host of one network
/// speaks for a host of the other.
/// Promise 49.
#[test]
fn an_address_is_served_on_its_own_device_only() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("", 1, "");
        let second = scene.second();
        // Both networks are on the second client's link. Requests there for the first network's
        // address get no answer, and packets for it are not accepted.
        second.address("eth0", "10.98.2.3/24");
        let to: SocketAddr = format!("{ADDRESS}:7").parse().expect("an address");
        assert!(is_unreachable(second, to), "no neighbour answers");
        second.ping(SECOND_ADDRESS);
        let mac = second.run(&format!("ip neighbour show {SECOND_ADDRESS}"));
        let mac = mac.split("lladdr ").nth(1);
        let mac = mac.and_then(|rest| rest.split(' ').next());
        let mac = mac.expect("its station is known").to_owned();
        second.run(&format!(
            "ip neighbour replace {ADDRESS} lladdr {mac} dev eth0 nud permanent"
        ));
        assert!(is_unreachable(second, to), "nor the station");
        // The first client is not affected.
        assert_eq!(
            echoed(&scene.client, ADDRESS, bytes(9000, 4)),
            bytes(9000, 4)
        );
        assert_eq!(
            echoed(second, SECOND_ADDRESS, bytes(9000, 5)),
            bytes(9000, 5)
        );
    });
}

/// Promise 49.
#[test]
fn a_device_that_is_down_leaves_the_other_its_service() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("", 1, "");
        let second = scene.second();
        let mut idle = second
            .thread(|| connect(SECOND_ADDRESS, 7))
            .join()
            .expect("it connects");
        let mut open = scene.client(|| connect(ADDRESS, 7));
        // Data of the second client is in flight when its device goes down, so that the answers
        // fill the ring.
        idle.write_all(&bytes(200_000, 6)).expect("taken");
        scene.server.run("ip link set eth1 down");
        for round in 0..200 {
            let sent = bytes(1000, round);
            open.write_all(&sent).expect("taken");
            let mut back = vec![0; sent.len()];
            open.read_exact(&mut back)
                .expect("the other device answers");
            assert_eq!(back, sent);
        }
        scene.server.run("ip link set eth1 up");
        let mut back = vec![0; 200_000];
        idle.set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a limit");
        idle.read_exact(&mut back).expect("it resumes");
        assert!(back == bytes(200_000, 6));
    });
}

/// Promise 49.
#[test]
fn several_cores_have_a_socket_each_on_both_devices() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        for (cores, queues, link) in [
            ("[[core]]\nqueue = 0\n[[core]]\nqueue = 1\n", 2, ""),
            ("[[core]]\nqueue = 0\n[[core]]\nqueue = 1\n", 2, "queue = 0"),
        ] {
            let scene = scene(cores, queues, link);
            let second = scene.second();
            for n in 0..12 {
                assert!(echoed(&scene.client, ADDRESS, bytes(20_000, n)) == bytes(20_000, n));
                assert!(echoed(second, SECOND_ADDRESS, bytes(20_000, n)) == bytes(20_000, n));
            }
            assert_eq!(scene.count("/counts/steering_lost_packets"), 0);
        }
    });
}
