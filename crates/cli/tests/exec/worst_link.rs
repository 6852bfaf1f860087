//! A link that loses, repeats and reorders.

use crate::support::{ADDRESS, PATIENCE, Scene, alone};
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::Signal;

/// Bytes that cross the bad link in each direction.
const BAD_LINK_BYTES: usize = 8 << 20;

#[test]
fn bytes_are_exact_over_a_link_that_loses_repeats_and_reorders() {
    alone(|| {
        let scene = Scene::with_bad_link();
        let file = scene.file("file", BAD_LINK_BYTES).display().to_string();
        let folder = scene.folder();
        let script = scene.path("sink.py");
        std::fs::write(&script, include_str!("sink.py")).unwrap();
        let line = format!(
            "/usr/bin/python3 {} {ADDRESS} 8000 {file}",
            script.display()
        );
        let server = scene.serve("server", &line);
        scene.wait_for_port(8000);
        // Both ways at once.
        scene.client(&format!(
            "cd {folder} && ncat {ADDRESS} 8000 < {file} > got && cmp got {file}"
        ));
        wait_until("all to be there", PATIENCE, || {
            server.said().contains("same")
        });
        let (lost, repeated, reordered) = scene.link_did();
        assert!(
            lost > 0 && repeated > 0 && reordered > 0,
            "{lost} {repeated} {reordered}"
        );
        server.signal(Signal::SIGINT);
        server.end();
    });
}
