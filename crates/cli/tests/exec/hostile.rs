//! Tests of programs and peers that behave badly.

use crate::support::{ADDRESS, PATIENCE, Scene, alone, text_of};
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::Signal;

/// Promise 52.
#[test]
fn a_program_may_fork_close_and_exec_as_it_likes() {
    alone(|| {
        let scene = Scene::new();
        let script = scene.script("rude.py", include_str!("rude.py"));
        let server = scene.serve("rude", &format!("/usr/bin/python3 {script} {ADDRESS}"));
        scene.wait_for_port(8000);
        let got = scene.client(&format!("ncat --recv-only {ADDRESS} 8000"));
        assert_eq!(
            got,
            "served by a child\n".repeat(200) + "and by its parent\n"
        );
        assert_eq!(server.end(), Some(0), "{}", server.output());
    });
}

/// Promise 70.
#[test]
fn a_client_that_never_reads_blocks_no_other() {
    const NEVER_READ: usize = 200;
    alone(|| {
        let scene = Scene::new();
        scene.file("file", 64 << 20);
        let line = format!(
            "/usr/bin/python3 -m http.server 8000 --bind {ADDRESS} --directory {}",
            scene.folder()
        );
        let server = scene.serve("python", &line);
        scene.wait_for_port(8000);
        let script = scene.script("deaf.py", include_str!("deaf.py"));
        let line = format!("/usr/bin/python3 {script} {ADDRESS} {NEVER_READ}");
        let deaf = scene.at_client("deaf", &line);
        wait_until("all to have asked", PATIENCE, || {
            server.output().matches("\"GET /file").count() == NEVER_READ
        });
        let folder = scene.folder();
        scene.client(&format!(
            "cd {folder} && curl -sS -o got http://{ADDRESS}:8000/file && cmp got file"
        ));
        deaf.signal(Signal::SIGKILL);
        deaf.end();
        server.signal(Signal::SIGINT);
        server.end();
    });
}

/// Promise 52.
#[test]
fn a_program_that_scribbles_over_its_session_harms_only_itself() {
    alone(|| {
        let scene = Scene::new();
        let script = scene.script("scribble.py", include_str!("scribble.py"));
        let other = scene.serve(
            "redis",
            "redis-server --port 6379 --protected-mode no --save ''",
        );
        scene.wait_for_port(6379);
        let out = scene.run_on_dataplane(&format!("/usr/bin/python3 {script} {ADDRESS}"));
        let text = text_of(&out);
        assert!(text.contains("scribbled"), "{text}");
        assert!(
            text.contains("the dataplane has terminated this application"),
            "{text}"
        );
        let ping = format!("redis-cli -h {ADDRESS} ping");
        assert_eq!(scene.client(&ping).trim(), "PONG", "the other is served");
        other.signal(Signal::SIGTERM);
        assert_eq!(other.end(), Some(0));
    });
}
