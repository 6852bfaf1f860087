//! Tests of refusals, which name the reason.

use crate::support::{BINARY, MINUTE, Scene, alone, shell, text_of};
use std::os::unix::fs::PermissionsExt;

/// Promise 52.
#[test]
fn programs_that_would_run_past_the_dataplane_are_refused() {
    alone(|| {
        let scene = Scene::new();
        let copy = scene.path("suid");
        std::fs::copy("/bin/true", &copy).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let script = scene.path("script");
        std::fs::write(&script, "#!/bin/busybox sh\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        for (line, code, words) in [
            ("/bin/busybox true", 1, "statically linked"),
            (
                &script.display().to_string(),
                1,
                "/bin/busybox: is statically linked",
            ),
            (&copy.display().to_string(), 1, "set-uid"),
            ("no-such-program", 1, "no program 'no-such-program' in PATH"),
            ("/etc/passwd", 1, "neither an ELF program"),
            ("", 2, "required"),
        ] {
            let out = scene.run_on_dataplane(line);
            assert_eq!(out.status.code(), Some(code), "{line}: {}", text_of(&out));
            assert!(text_of(&out).contains(words), "{line}: {}", text_of(&out));
        }
        // A dataplane that does not exist, and a name that it does not have.
        let exec = format!("{BINARY} dataplane exec --wait 0s");
        for (words, reason) in [
            (
                "--name web --socket /nowhere -- /bin/true".to_owned(),
                "no dataplane answers",
            ),
            (
                format!("--socket {} -- /bin/true", scene.socket()),
                "no application 'true'",
            ),
        ] {
            let out = shell(&scene.server, &format!("{exec} {words}"), MINUTE);
            assert_eq!(out.status.code(), Some(1), "{}", text_of(&out));
            assert!(text_of(&out).contains(reason), "{}", text_of(&out));
        }
        let out = scene.run_on_dataplane("sh -c 'exit 7'");
        assert_eq!(out.status.code(), Some(7), "the program's own");
    });
}

/// Promise 52.
#[test]
fn io_uring_is_refused_to_the_program() {
    alone(|| {
        let scene = Scene::new();
        let text = "import ctypes\n\
                    c = ctypes.CDLL(None, use_errno=True)\n\
                    params = ctypes.create_string_buffer(256)\n\
                    print(c.syscall(425, 8, params), ctypes.get_errno())\n";
        std::fs::write(scene.path("ring.py"), text).unwrap();
        let out = scene.run_on_dataplane(&format!("/usr/bin/python3 {}/ring.py", scene.folder()));
        assert_eq!(text_of(&out).trim(), "-1 38");
    });
}
