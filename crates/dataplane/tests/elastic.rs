//! Elastic cores: the second core of a dataplane follows the load of Linux clients over veth.

mod support;

use cofferdam_dataplane::applications::Echo;
use cofferdam_dataplane::{EventLoop, Session, move_group, status};
use cofferdam_lab::fixtures::{Net, exclusive, time_limit, wait_until};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use support::cores::{Clients, busy_groups, each_core};
use support::{ADDRESS, ECHO, Scene, bytes, connect, echo_and, round_trip};

const LIMIT: Duration = Duration::from_secs(90);
/// Time limit of a fact on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const CORES: &str = "[[core]]\n[[core]]\n";
/// Settings with which any traffic adds a core, and silence removes it.
const EAGER: &str = "[elastic]\nqueue_delay = \"0us\"\nintervals = 1\ninterval = \"50ms\"\n\
                     busy_share = 0.95\npause = \"50ms\"\n";
/// Settings with which no traffic adds a core.
const SLOW: &str = "[elastic]\nqueue_delay = \"1s\"\ninterval = \"50ms\"\nintervals = 2\n\
                    busy_share = 0.95\npause = \"50ms\"\n";

fn echo(port: u16) -> Echo {
    Echo::new(SocketAddr::from(([0, 0, 0, 0], port)))
}

fn scene(elastic: &str) -> Scene {
    let mut scene = Scene::new("", &format!("{elastic}{CORES}{ECHO}"));
    scene.serve("echo", || echo(7));
    scene
}

fn changes(scene: &Scene, kind: &str) -> u64 {
    scene.count(&format!("/elastic/cores_{kind}"))
}

fn last_decision(socket: &Path) -> String {
    let status = status(socket).expect("a status");
    let why = status["elastic"]["last_decision"].as_str();
    why.expect("a decision").to_owned()
}

/// Whether one core has all groups and the other is idle.
fn is_calm(scene: &Scene) -> bool {
    each_core(&scene.socket(), "groups") == [128, 0] && scene.count("/cores_in_use") == 1
}

/// Promise 54.
#[test]
fn a_core_follows_the_load_without_harm_to_clients() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene(EAGER);
        assert_eq!(each_core(&scene.socket(), "groups"), [128, 0]);
        for round in 1..=2 {
            let clients = Clients::new(&scene, 12);
            wait_until("the second core", PATIENCE, || {
                changes(&scene, "added") >= round
            });
            wait_until("its packets", PATIENCE, || {
                each_core(&scene.socket(), "sent_packets")[1] > 0
            });
            // The clients compare every byte.
            assert!(clients.end().iter().all(|rounds| *rounds >= 3));
            wait_until("the core to go", PATIENCE, || {
                changes(&scene, "removed") == changes(&scene, "added") && is_calm(&scene)
            });
            let why = last_decision(&scene.socket());
            assert!(why.starts_with("core 1 removed, its "), "{why}");
        }
        assert!(scene.count("/elastic/groups_moved") >= 2 * 2);
        for nothing in [
            "/elastic/moves_stuck",
            "/counts/connections_lost_moving",
            "/counts/offences",
            "/counts/overruns",
            "/counts/steering_lost_packets",
        ] {
            assert_eq!(scene.count(nothing), 0, "{nothing}");
        }
        let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(3000, 2)));
        assert!(back == bytes(3000, 2));
    });
}

/// Promise 54.
#[test]
fn a_core_out_of_use_gets_no_work() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene(SLOW);
        let clients = Clients::new(&scene, 6);
        wait_until("connections", PATIENCE, || {
            busy_groups(&scene.socket()).len() >= 2
        });
        assert!(clients.end().iter().all(|rounds| *rounds >= 3));
        for key in ["received_packets", "steered_in_packets", "sent_packets"] {
            assert_eq!(each_core(&scene.socket(), key)[1], 0, "{key}");
        }
        assert_eq!(changes(&scene, "added"), 0);
        assert!(is_calm(&scene));
        let mut delay = 0;
        let clients = Clients::new(&scene, 2);
        wait_until("a queue delay", PATIENCE, || {
            delay = each_core(&scene.socket(), "queue_delay_ns")[0];
            delay > 0
        });
        assert!(clients.end().iter().all(|rounds| *rounds >= 3));
    });
}

/// Promise 54.
#[test]
fn a_move_by_hand_lasts_until_one_core_is_enough() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene(SLOW);
        let stream = scene.client(|| connect(ADDRESS, 7));
        let mut group = 0;
        wait_until("its group", PATIENCE, || {
            let groups = busy_groups(&scene.socket());
            groups.first().is_some_and(|found| {
                group = *found;
                true
            })
        });
        assert_eq!(move_group(&scene.socket(), group, 1).expect("it moves"), 0);
        wait_until("the core to go", PATIENCE, || {
            changes(&scene, "removed") == 1 && is_calm(&scene)
        });
        let why = last_decision(&scene.socket());
        assert!(
            why.starts_with("core 1 removed, its 1 flow group spread"),
            "{why}"
        );
        assert!(round_trip(stream, bytes(5000, 1)) == bytes(5000, 1));
    });
}

/// Promise 66.
#[test]
fn an_application_that_dies_during_core_changes_harms_no_other() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let text = format!("{EAGER}{CORES}{}", echo_and("victim"));
        let mut scene = Scene::new("", &text);
        scene.serve("echo", || echo(7));
        let socket = scene.socket();
        let idle = scene.client(|| connect(ADDRESS, 7));
        for round in 1..=3 {
            let session = Session::attach(&socket, "victim").expect("it attaches");
            let mut event_loop = EventLoop::new(session, echo(8));
            let before = changes(&scene, "added");
            let doomed = scene.client.thread(|| {
                let mut streams: Vec<_> = (0..8).map(|_| connect(ADDRESS, 8)).collect();
                // The connections end by a reset, which may arrive during a write or a read.
                let mut back = [0; 2000];
                loop {
                    for stream in &mut streams {
                        let asked = stream.write_all(&[5; 2000]);
                        if asked.and_then(|()| stream.read_exact(&mut back)).is_err() {
                            return;
                        }
                    }
                }
            });
            let until = Instant::now() + PATIENCE;
            let mut looks = 0;
            let served = event_loop.run(Duration::from_millis(1), |echo| {
                looks += 1;
                let is_added = || changes(&scene, "added") > before;
                (echo.bytes > 10_000 && looks % 64 == 0 && is_added()) || Instant::now() > until
            });
            served.expect("the dataplane is there");
            assert!(changes(&scene, "added") > before, "no core has come");
            drop(event_loop);
            wait_until("the clean-up", PATIENCE, || {
                scene.count("/counts/applications_ended") == round
            });
            doomed.join().expect("the client ends");
            wait_until("the core to go", PATIENCE, || is_calm(&scene));
            let stream = idle.try_clone().expect("a second handle");
            assert!(round_trip(stream, bytes(3000, round)) == bytes(3000, round));
        }
        assert_eq!(scene.count("/counts/offences"), 0);
    });
}

/// Promise 66.
#[test]
fn clients_resume_when_a_device_is_up_again() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let scene = scene(EAGER);
        let clients = Clients::new(&scene, 8);
        wait_until("the second core", PATIENCE, || changes(&scene, "added") > 0);
        scene.server.run("ip link set eth0 down");
        wait_until("the core to go", PATIENCE, || is_calm(&scene));
        scene.server.run("ip link set eth0 up");
        let added = changes(&scene, "added");
        wait_until("the core to come back", PATIENCE, || {
            changes(&scene, "added") > added
        });
        assert!(clients.end().iter().all(|rounds| *rounds >= 3));
        assert_eq!(scene.count("/counts/connections_lost_moving"), 0);
        assert_eq!(scene.count("/counts/offences"), 0);
    });
}
