//! Tests of the reports of sockets, of their options, and of calls that wait.

use crate::support::{ADDRESS, CLIENT, PATIENCE, Scene, alone};
use cofferdam_lab::fixtures::wait_until;
use nix::sys::signal::Signal;

/// Promise 53.
#[test]
fn sockets_report_their_connections_and_their_options_act() {
    alone(|| {
        let scene = Scene::new();
        let mirror = scene.script("mirror.py", include_str!("mirror.py"));
        let line = format!("/usr/bin/python3 {mirror} {CLIENT} 8000 8001");
        let mirror = scene.at_client("mirror", &line);
        wait_until("the mirror", PATIENCE, || {
            scene
                .try_client(&format!("ncat -z {CLIENT} 8000"))
                .is_some()
        });
        let script = scene.script("options.py", include_str!("options.py"));
        let silent = scene.path("silent");
        let line = format!(
            "/usr/bin/python3 {script} {CLIENT} {ADDRESS} {}",
            silent.display()
        );
        let program = scene.serve("options", &line);
        wait_until("the program to ask for silence", PATIENCE, || {
            let printed = program.output();
            let has_failed = ["instead of", "less than", "Traceback"]
                .iter()
                .any(|word| printed.contains(word));
            assert!(!has_failed, "{printed}");
            printed.contains("silence")
        });
        // The link stays, and addresses are resolved: only TCP is silent.
        scene.client("iptables -A INPUT -p tcp -j DROP && iptables -A OUTPUT -p tcp -j DROP");
        std::fs::write(&silent, "").unwrap();
        assert_eq!(program.end(), Some(0), "{}", program.output());
        assert!(program.output().contains("done"), "{}", program.output());
        mirror.signal(Signal::SIGKILL);
        mirror.end();
    });
}

/// Promise 52.
#[test]
fn calls_that_wait_for_nanoseconds_are_woken_by_data() {
    alone(|| {
        let scene = Scene::new();
        let program = compiled(&scene, "waits", include_str!("waits.c"));
        let imports = scene.client(&format!("nm --dynamic --undefined-only {program}"));
        for call in ["epoll_pwait2", "__ppoll_chk"] {
            assert!(imports.contains(call), "{call}: {imports}");
        }
        serve_an_echo(&scene, &program);
    });
}

/// Promise 52.
#[test]
fn a_signal_handler_may_fork_while_its_thread_waits() {
    alone(|| {
        let scene = Scene::new();
        let program = compiled(&scene, "handlers", include_str!("handlers.c"));
        serve_an_echo(&scene, &program);
    });
}

/// Compiles a program in C, and returns its path.
fn compiled(scene: &Scene, name: &str, text: &str) -> String {
    scene.script("serve.h", include_str!("serve.h"));
    let source = scene.script(&format!("{name}.c"), text);
    let program = scene.path(name).display().to_string();
    scene.client(&format!(
        "cc -O2 -Wall -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -o {program} {source}"
    ));
    program
}

/// Runs a server whose client sends a byte, and then returns each byte that it gets.
fn serve_an_echo(scene: &Scene, program: &str) {
    let server = scene.serve("server", &format!("{program} {ADDRESS} 8000"));
    scene.wait_for_port(8000);
    scene.client(&format!(
        "ncat {ADDRESS} 8000 --exec '/usr/bin/python3 {}'",
        scene.script("echo.py", ECHO)
    ));
    assert_eq!(server.end(), Some(0), "{}", server.output());
}

/// Program that sends a byte, and returns all bytes that come.
const ECHO: &str = "import os\nos.write(1, b'x')\nos.read(0, 1)\n\
    while part := os.read(0, 100): os.write(1, part)\n";
