//! Calls by the program's own threads into the session, and service while these threads are busy.

use crate::support::{ADDRESS, BINARY, Scene, alone};

/// Bytes that both ways send in turn.
const ORDERED_BYTES: usize = 16 << 20;

/// Promise 52.
/// Some bytes bypass the socket, and others go through it.
#[test]
fn bytes_past_and_through_the_socket_arrive_in_order() {
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
        assert_eq!(server.end(), Some(0), "{}", server.output());
    });
}

/// Output of a Python server on the dataplane. The server and its client, which gets the address
/// and `more`, must succeed.
#[track_caller]
fn served(server: &str, client: &str, more: &str) -> String {
    let scene = Scene::new();
    let [server, client] =
        [("server.py", server), ("client.py", client)].map(|(name, text)| scene.script(name, text));
    let server = scene.serve(
        "server",
        &format!("/usr/bin/python3 {server} {ADDRESS} 8000"),
    );
    scene.wait_for_port(8000);
    scene.client(&format!("/usr/bin/python3 {client} {ADDRESS} 8000 {more}"));
    assert_eq!(server.end(), Some(0), "{}", server.output());
    server.output()
}

/// Promise 52.
#[test]
fn a_thread_that_leaves_the_dataplane_leaves_others_served() {
    alone(|| {
        let printed = served(include_str!("leads.py"), include_str!("lead_client.py"), "");
        assert_eq!(printed.matches("served").count(), 4);
    });
}

/// Promise 52.
#[test]
fn blocking_calls_and_select_are_woken_by_data_and_signals() {
    alone(|| {
        let printed = served(
            include_str!("blocks.py"),
            include_str!("block_client.py"),
            "",
        );
        assert!(printed.contains("done"), "{printed}");
    });
}

/// Connections of epoll_ways.py, one for each way to read, by level and by edge; and bursts of
/// each.
const WAYS: usize = 24;
const BURSTS: usize = 60;

/// Promise 52.
#[test]
fn data_that_epoll_reports_is_read_in_every_way_once() {
    alone(|| {
        let more = format!("{WAYS} {BURSTS}");
        let printed = served(
            include_str!("epoll_ways.py"),
            include_str!("bursts.py"),
            &more,
        );
        assert!(printed.contains("reported"), "{printed}");
    });
}

/// Promise 46.
#[test]
fn unmodified_programs_are_measured_on_both() {
    alone(|| {
        // The scene is used only for its library and its folder.
        let scene = Scene::new();
        let run = scene.path("run").display().to_string();
        let out = std::process::Command::new(BINARY)
            .args(["bench", "dataplane", "--quick", "--rounds", "1"])
            .args(["--experiment", "redis,redis-pipelined,memcached,nginx"])
            .args(["--output", &run])
            .output()
            .unwrap();
        let printed = crate::support::text_of(&out);
        assert!(out.status.success(), "{printed}");
        for program in ["redis", "redis-pipelined", "memcached", "nginx"] {
            for server in ["blocking", "preload"] {
                let row = format!("{program}/50/{server} ");
                assert!(printed.contains(&row), "{row}: {printed}");
            }
        }
    });
}
