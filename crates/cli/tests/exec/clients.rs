//! Tests of clients, and of a link that loses, repeats and reorders.

use crate::support::{ADDRESS, CLIENT, PATIENCE, Scene, alone, text_of};
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::Signal;

/// Bytes that cross the bad link in each direction.
const BAD_LINK_BYTES: usize = 8 << 20;

/// Promise 52.
#[test]
fn clients_reach_other_addresses_through_the_kernel() {
    alone(|| {
        let scene = Scene::new();
        let file = scene.file("file", 20 << 20).display().to_string();
        let folder = scene.folder();
        let server = scene.at_client(
            "server",
            "/usr/bin/python3 -m http.server 8000 --bind 0.0.0.0",
        );
        wait_until("the server", PATIENCE, || {
            scene.try_client("ncat -z 127.0.0.1 8000").is_some()
        });
        for client in ["curl -sS -o", "wget -q -O"] {
            let got = format!("{folder}/got");
            let out = scene.run_on_dataplane(&format!("{client} {got} http://{CLIENT}:8000/file"));
            assert!(out.status.success(), "{}", text_of(&out));
            scene.client(&format!("cmp {got} {file}"));
        }
        assert!(
            server.output().contains(ADDRESS),
            "by the dataplane: {}",
            server.output()
        );

        let script = scene.script("client.py", include_str!("client.py"));
        let out = scene.run_on_dataplane(&format!("/usr/bin/python3 {script} {CLIENT} {ADDRESS}"));
        assert!(out.status.success(), "{}", text_of(&out));
        server.signal(Signal::SIGINT);
        server.end();
    });
}

/// Promise 53.
#[test]
fn bytes_are_exact_over_a_bad_link() {
    alone(|| {
        let scene = Scene::with_bad_link();
        let file = scene.file("file", BAD_LINK_BYTES).display().to_string();
        let folder = scene.folder();
        let script = scene.script("sink.py", include_str!("sink.py"));
        let line = format!("/usr/bin/python3 {script} {ADDRESS} 8000 {file}");
        let server = scene.serve("server", &line);
        scene.wait_for_port(8000);
        // Both directions at once.
        scene.client(&format!(
            "cd {folder} && ncat {ADDRESS} 8000 < {file} > got && cmp got {file}"
        ));
        wait_until("all to be there", PATIENCE, || {
            server.output().contains("same")
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
