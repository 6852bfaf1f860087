//! A dataplane of several cores and Linux clients over veth.

mod support;

use cofferdam_dataplane::applications::Echo;
use cofferdam_dataplane::config::Config;
use cofferdam_dataplane::{EventLoop, FLOW_GROUPS, Session, move_group, run};
use cofferdam_lab::fixtures::{Namespace, Net, VethPair, exclusive, time_limit, wait_until};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::cores::{Clients, busy_groups, each_core};
use support::{ADDRESS, ECHO, Scene, bytes, connect, echo_and, round_trip};

const LIMIT: Duration = Duration::from_secs(60);

fn scene(cores: &str, queues: u32) -> Scene {
    let mut scene = Scene::with_queues("", &format!("{cores}{ECHO}"), queues);
    scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
    scene
}

/// Promise 54.
#[test]
fn two_cores_share_one_queue_and_its_connections() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("[[core]]\n[[core]]\n", 1);
        scene.client.ping(ADDRESS);
        let clients = Clients::new(&scene, 12);
        // 12 random ports all belong to one core once in 2,048 runs, so that further connections
        // follow.
        let mut more = Vec::new();
        wait_until("connections on both cores", Duration::from_secs(20), || {
            more.push(scene.client(|| connect(ADDRESS, 7)));
            each_core(&scene.socket(), "connections")
                .iter()
                .all(|n| *n > 0)
        });
        assert!(clients.end().iter().all(|rounds| *rounds >= 3));
        assert_eq!(scene.client(|| support::datagram(1400, 1)), bytes(1400, 1));
        let received = each_core(&scene.socket(), "received_packets");
        assert_eq!(received[1], 0, "the first core has the queue");
        wait_until(
            "what was steered is counted",
            Duration::from_secs(5),
            || each_core(&scene.socket(), "steered_in_packets")[1] > 0,
        );
        assert!(each_core(&scene.socket(), "sent_packets")[1] > 0);
        assert_eq!(scene.count("/counts/steering_lost_packets"), 0);
        assert_eq!(scene.count("/counts/applications_attached"), 1);
        assert_eq!(each_core(&scene.socket(), "groups"), [64, 64]);
    });
}

/// Promise 54.
#[test]
fn two_cores_have_a_queue_each() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("[[core]]\nqueue = 0\n[[core]]\nqueue = 1\n", 2);
        scene.client.ping(ADDRESS);
        let clients = Clients::new(&scene, 12);
        let mut more = Vec::new();
        wait_until("packets on both queues", Duration::from_secs(20), || {
            more.push(scene.client(|| connect(ADDRESS, 7)));
            let on_both = |key| each_core(&scene.socket(), key).iter().all(|n| *n > 0);
            on_both("received_packets") && on_both("sent_packets") && on_both("connections")
        });
        assert!(clients.end().iter().all(|rounds| *rounds >= 3));
        assert_eq!(scene.count("/counts/steering_lost_packets"), 0);
    });
}

/// Promise 54.
#[test]
fn flow_groups_move_under_traffic_and_no_client_notices() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("[[core]]\n[[core]]\n[[core]]\n", 1);
        let socket = scene.socket();
        let clients = Clients::new(&scene, 8);
        // Each client keeps one connection. Eight connections occupy at least four groups.
        let mut groups = Vec::new();
        wait_until("the clients", Duration::from_secs(20), || {
            groups = busy_groups(&socket);
            groups.len() >= 4
        });
        let mut moves = 0;
        for round in 0..12_u8 {
            for group in groups.iter().copied() {
                let to = (group + round) % 3;
                let from = move_group(&socket, group, to).expect("it moves");
                moves += u64::from(from != to);
            }
        }
        assert!(clients.end().iter().all(|rounds| *rounds >= 3));
        assert!(moves >= 40, "{moves}");
        wait_until("the moves are counted", Duration::from_secs(5), || {
            scene.count("/counts/groups_moved") == moves
        });
        assert!(scene.count("/counts/connections_moved") >= moves);
        assert_eq!(scene.count("/counts/connections_lost_moving"), 0);
        assert_eq!(scene.count("/counts/offences"), 0);
        assert_eq!(scene.count("/counts/overruns"), 0);
    });
}

/// Promise 54.
#[test]
fn connections_open_while_all_groups_move() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("[[core]]\n[[core]]\n", 1);
        let socket = scene.socket();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let opening = scene.client.thread(move || {
            let mut opened = 0_u64;
            while !ended.load(Ordering::Relaxed) || opened < 3 {
                assert!(round_trip(connect(ADDRESS, 7), bytes(300, opened)) == bytes(300, opened));
                opened += 1;
            }
            opened
        });
        for to in [0, 1, 0, 1] {
            for group in 0..FLOW_GROUPS {
                move_group(&socket, group, to).expect("it moves");
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(opening.join().expect("the client ends") >= 3);
        assert_eq!(each_core(&socket, "groups"), [0, 128]);
        // A core without groups sleeps; the other one serves.
        let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(3000, 2)));
        assert!(back == bytes(3000, 2));
    });
}

/// Promise 66.
#[test]
fn an_application_that_dies_during_moves_harms_no_other() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let cores = "[[core]]\n[[core]]\n";
        let mut scene = Scene::new("", &format!("{cores}{}", echo_and("victim")));
        scene.serve("echo", || Echo::new(SocketAddr::from(([0, 0, 0, 0], 7))));
        let socket = scene.socket();
        let clients = Clients::new(&scene, 4);
        for round in 1..=4_u8 {
            let session = Session::attach(&socket, "victim").expect("it attaches");
            let echo = Echo::new(SocketAddr::from(([0, 0, 0, 0], 8)));
            let mut event_loop = EventLoop::new(session, echo);
            let doomed = scene.client.thread(|| {
                let mut streams: Vec<_> = (0..8).map(|_| connect(ADDRESS, 8)).collect();
                // The connections end by a reset, which may arrive during a write or a read.
                for stream in &mut streams {
                    let _ = stream.write_all(&[5; 20_000]);
                }
                for mut stream in streams {
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            });
            let until = Instant::now() + Duration::from_secs(20);
            let served = event_loop.run(Duration::from_millis(1), |echo| {
                echo.bytes > 10_000 || Instant::now() > until
            });
            served.expect("the dataplane is there");
            assert!(event_loop.application.bytes > 10_000, "it has not served");
            // The application takes part in none of these moves.
            for group in busy_groups(&socket) {
                move_group(&socket, group, round % 2).expect("it moves");
            }
            drop(event_loop);
            for group in busy_groups(&socket) {
                move_group(&socket, group, (round + 1) % 2).expect("it moves");
            }
            wait_until("the clean-up", Duration::from_secs(5), || {
                scene.count("/counts/applications_ended") == u64::from(round)
            });
            doomed.join().expect("the client ends");
        }
        assert!(clients.end().iter().all(|rounds| *rounds >= 3));
        assert_eq!(scene.count("/counts/offences"), 0);
    });
}

/// Promise 75.
#[test]
fn wrong_cores_queues_and_groups_have_errors_of_their_own() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene("[[core]]\n[[core]]\n", 1);
        let socket = scene.socket();
        for (group, core, reason) in [
            (0, 2, "there is no core 2: this dataplane has cores 0 to 1"),
            (128, 0, "there is no flow group 128"),
        ] {
            let error = move_group(&socket, group, core).expect_err("refused");
            assert!(error.to_string().contains(reason), "{error}");
        }
        drop(scene);
        let large = "eth0 has an MTU of 9000 bytes; with several cores, and on every device \
            after the first, a packet must fit one frame, which holds 1778 bytes";
        for (cores, mtu_bytes, reason) in [
            (
                "[[core]]\n[[core]]\nqueue = 7\n",
                1500,
                "eth0 has no queue 7",
            ),
            ("[[core]]\n[[core]]\ncpu = 900\n", 1500, "core 1: cpu = 900"),
            ("[[core]]\ncpu = 900\n[[core]]\n", 1500, "core 0: cpu = 900"),
            ("[[core]]\n[[core]]\n", 9000, large),
        ] {
            let (server, client) = (Namespace::new("server"), Namespace::new("client"));
            let _pair = VethPair::new((&server, "eth0"), (&client, "eth0"));
            for net in [&server, &client] {
                net.run(&format!("ip link set eth0 mtu {mtu_bytes}"));
            }
            let folder = tempfile::tempdir().expect("a folder");
            let text = format!(
                "socket = \"{}\"\n[device]\nname = \"eth0\"\n[network]\n\
                 addresses = [\"{ADDRESS}/24\"]\n{cores}",
                folder.path().join("dataplane.sock").display()
            );
            let config = Config::parse(&text).expect("a configuration");
            let ran = server.thread(move || run(&config, &Arc::default(), |_| {}));
            let error = ran.join().expect("it ends").expect_err("refused");
            assert!(error.to_string().contains(reason), "{error}");
        }
    });
}
