//! Tests of the end of a program or of its dataplane in the middle of its work.

use crate::support::{ADDRESS, PATIENCE, Scene, alone};
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::Signal;

/// Promise 66.
#[test]
fn a_killed_program_resets_and_a_killed_dataplane_is_replaced() {
    alone(|| {
        let mut scene = Scene::new();
        let line = "redis-server --port 6379 --protected-mode no --save ''";
        let cli = format!("redis-cli -h {ADDRESS}");
        let wait = |scene: &Scene| {
            let waits = scene.at_client("blpop", &format!("{cli} blpop list 0"));
            wait_until("it to wait", PATIENCE, || {
                scene
                    .client(&format!("{cli} client list"))
                    .contains("cmd=blpop")
            });
            waits
        };
        let server = scene.serve("redis", line);
        scene.wait_for_port(6379);
        let waits = wait(&scene);
        server.signal(Signal::SIGKILL);
        server.end();
        assert_eq!(waits.end(), Some(1));
        assert!(waits.output().contains("reset"), "{}", waits.output());

        // The address is free at once.
        let server = scene.serve("redis", line);
        scene.wait_for_port(6379);
        let waits = wait(&scene);
        let dataplane = scene.dataplane.take().unwrap();
        dataplane.signal(Signal::SIGKILL);
        dataplane.end();
        wait_until("the program to say so", PATIENCE, || {
            server.output().contains("the dataplane is gone")
        });
        scene.start_dataplane();
        scene.wait_for_port(6379);
        assert_eq!(scene.client(&format!("{cli} ping")).trim(), "PONG");
        // Nobody answers for the connection of the old dataplane: it is reset when its peer sends.
        waits.signal(Signal::SIGTERM);
        waits.end();
        server.signal(Signal::SIGTERM);
        assert_eq!(server.end(), Some(0), "{}", server.output());
    });
}

/// Promise 66.
#[test]
fn a_program_whose_dataplane_ends_gets_errors() {
    alone(|| {
        let mut scene = Scene::new();
        let script = scene.script("errors.py", include_str!("errors.py"));
        let line = format!("/usr/bin/python3 {script} {ADDRESS} 10.98.5.2");
        let program = scene.serve("errors", &line);
        scene.wait_for_port(8000);
        let peer = scene.at_client("peer", &format!("ncat --recv-only {ADDRESS} 8001"));
        wait_until("it to have a connection", PATIENCE, || {
            program.output().contains("connected")
        });
        let dataplane = scene.dataplane.take().unwrap();
        dataplane.signal(Signal::SIGKILL);
        dataplane.end();
        assert_eq!(program.end(), Some(0), "{}", program.output());
        peer.signal(Signal::SIGKILL);
        peer.end();
        // The socket of the killed dataplane is not in the way; the next one ends in order.
        scene.start_dataplane();
    });
}

/// Runs a child that waits by epoll for connections of its parent's listener. The dataplane is
/// killed meanwhile, and then the parent.
fn orphan(is_dataplane_back: bool, expected: &'static str) {
    alone(move || {
        let mut scene = Scene::new();
        let script = scene.script("orphan.py", include_str!("orphan.py"));
        let folder = scene.folder();
        let line = format!("/usr/bin/python3 {script} {ADDRESS} {folder}");
        let parent = scene.serve("parent", &line);
        wait_until("the child", PATIENCE, || parent.output().contains("forked"));
        let dataplane = scene.dataplane.take().unwrap();
        dataplane.signal(Signal::SIGKILL);
        dataplane.end();
        std::fs::write(scene.path("wait"), "").unwrap();
        wait_until("it to wait", PATIENCE, || {
            parent.output().contains("waiting")
        });
        if is_dataplane_back {
            scene.start_dataplane();
        }
        parent.signal(Signal::SIGKILL);
        parent.end();
        wait_until("the child's answer", PATIENCE, || {
            if is_dataplane_back {
                scene.try_client(&format!("ncat --recv-only {ADDRESS} 8000"));
            }
            let printed = parent.output();
            assert!(!printed.contains("Traceback"), "{printed}");
            printed.contains("done")
        });
        assert!(parent.output().contains(expected), "{}", parent.output());
        if !is_dataplane_back {
            scene.start_dataplane();
        }
    });
}

/// Promise 52.
#[test]
fn a_child_whose_listening_parent_ends_continues_to_serve() {
    orphan(true, "served 1 failed 0 silent True");
}

/// Promise 52.
/// A child that cannot serve the listener of its ended parent gets one error and is not kept busy.
#[test]
fn an_unserved_listener_is_reported_to_the_child_once() {
    orphan(false, "served 0 failed 1 silent True");
}

/// Promise 53.
#[test]
fn data_written_before_a_programs_end_arrives() {
    alone(|| {
        let scene = Scene::new();
        let file = scene.file("file", 3 << 20).display().to_string();
        let folder = scene.folder();
        for end in ["sys.exit(0)", "os._exit(0)"] {
            let text = format!(
                "import os, socket, sys\n\
                 data = open('{file}', 'rb').read()\n\
                 s = socket.create_connection(('10.98.5.2', 8000))\n\
                 s.sendall(data)\n{end}\n"
            );
            std::fs::write(scene.path("writer.py"), text).unwrap();
            let sink = scene.at_client(
                "sink",
                &format!("sh -c 'ncat -l 10.98.5.2 8000 > {folder}/got'"),
            );
            wait_until("the listener", PATIENCE, || {
                scene.client("ss -Hltn").contains(":8000")
            });
            let out = scene.run_on_dataplane(&format!("/usr/bin/python3 {folder}/writer.py"));
            assert!(out.status.success(), "{}", crate::support::text_of(&out));
            sink.end();
            scene.client(&format!("cmp {folder}/got {file}"));
        }
    });
}
