//! What goes from the program's own threads into the session, and who serves it when they are busy.

use crate::support::{ADDRESS, BINARY, Scene, alone};

/// Bytes that are sent by turns.
const ORDERED_BYTES: usize = 16 << 20;

#[test]
fn what_goes_past_the_socket_and_what_goes_through_it_arrives_in_order() {
    alone(|| {
        let scene = Scene::new();
        let file = scene.file("file", ORDERED_BYTES).display().to_string();
        let folder = scene.folder();
        let script = scene.script("ordered.py", include_str!("ordered.py"));
        let line = format!("/usr/bin/python3 {script} {ADDRESS} 8000 {file}");
        let server = scene.serve("server", &line);
        scene.wait_for_port(8000);
        scene.client(&format!(
            "cd {folder} && echo | ncat {ADDRESS} 8000 > got && cmp got {file}"
        ));
        assert_eq!(server.end(), Some(0), "{}", server.said());
    });
}

#[test]
fn a_thread_that_leaves_the_dataplane_alone_leaves_no_other_unserved() {
    alone(|| {
        let scene = Scene::new();
        let server = scene.script("leads.py", include_str!("leads.py"));
        let client = scene.script("lead_client.py", include_str!("lead_client.py"));
        let line = format!("/usr/bin/python3 {server} {ADDRESS} 8000");
        let server = scene.serve("server", &line);
        scene.wait_for_port(8000);
        scene.client(&format!("/usr/bin/python3 {client} {ADDRESS} 8000"));
        assert_eq!(server.end(), Some(0), "{}", server.said());
        assert_eq!(server.said().matches("served").count(), 3);
    });
}

/// Connections of told.py, one for each way to read, by level and by edge; and bursts of each.
const WAYS: usize = 24;
const BURSTS: usize = 60;

#[test]
fn what_epoll_tells_of_is_read_in_every_way_and_arrives_once() {
    alone(|| {
        let scene = Scene::new();
        let server = scene.script("told.py", include_str!("told.py"));
        let client = scene.script("bursts.py", include_str!("bursts.py"));
        let line = format!("/usr/bin/python3 {server} {ADDRESS} 8000");
        let server = scene.serve("server", &line);
        scene.wait_for_port(8000);
        scene.client(&format!(
            "/usr/bin/python3 {client} {ADDRESS} 8000 {WAYS} {BURSTS}"
        ));
        assert_eq!(server.end(), Some(0), "{}", server.said());
        assert!(server.said().contains("told"), "{}", server.said());
    });
}

#[test]
fn unmodified_programs_are_measured_on_both() {
    alone(|| {
        // Only for its library and its folder.
        let scene = Scene::new();
        let run = scene.path("run").display().to_string();
        let out = std::process::Command::new(BINARY)
            .args(["bench", "dataplane", "--quick", "--rounds", "1"])
            .args(["--experiment", "redis,redis-pipelined,memcached,nginx"])
            .args(["--output", &run])
            .output()
            .unwrap();
        let said = crate::support::said(&out);
        assert!(out.status.success(), "{said}");
        for program in ["redis", "redis-pipelined", "memcached", "nginx"] {
            for server in ["blocking", "preload"] {
                let row = format!("{program}/50/{server} ");
                assert!(said.contains(&row), "{row}: {said}");
            }
        }
    });
}
