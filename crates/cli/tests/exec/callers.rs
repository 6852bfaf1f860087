//! What goes from the program's own threads into the session, and who serves it when they are busy.

use crate::support::{ADDRESS, BINARY, Scene, alone};

/// Bytes that are sent by turns.
const ORDERED_BYTES: usize = 16 << 20;

/// Promise 52.
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

/// What a server in Python on the dataplane says until its end, which is a success, as is that of its
/// client, which is told the address and `more`.
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
    assert_eq!(server.end(), Some(0), "{}", server.said());
    server.said()
}

/// Promise 52.
#[test]
fn a_thread_that_leaves_the_dataplane_alone_leaves_no_other_unserved() {
    alone(|| {
        let said = served(include_str!("leads.py"), include_str!("lead_client.py"), "");
        assert_eq!(said.matches("served").count(), 4);
    });
}

/// Promise 52.
#[test]
fn calls_that_block_and_select_are_woken_by_data_signals_and_limits() {
    alone(|| {
        let said = served(
            include_str!("blocks.py"),
            include_str!("block_client.py"),
            "",
        );
        assert!(said.contains("done"), "{said}");
    });
}

/// Connections of told.py, one for each way to read, by level and by edge; and bursts of each.
const WAYS: usize = 24;
const BURSTS: usize = 60;

/// Promise 52.
#[test]
fn what_epoll_tells_of_is_read_in_every_way_and_arrives_once() {
    alone(|| {
        let more = format!("{WAYS} {BURSTS}");
        let said = served(include_str!("told.py"), include_str!("bursts.py"), &more);
        assert!(said.contains("told"), "{said}");
    });
}

/// Promise 46.
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
