//! The C interface: cc compiles the example against the header, and Linux clients use it on a
//! dataplane.

mod support;

use cofferdam_lab::fixtures::{Host, Net, Process, exclusive, run, time_limit, wait_until};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::{ADDRESS, ECHO, Scene, bytes, connect, round_trip};

/// Folder in which cargo puts the shared library, next to the test programs.
fn libraries() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a program");
    own.parent().expect("it lies in a folder").to_owned()
}

/// Compiles the example into `folder`.
fn compile(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("echo");
    let text = |path: PathBuf| path.display().to_string();
    let path = libraries().display().to_string();
    let (include, source) = (
        text(root.join("include")),
        text(root.join("examples/echo.c")),
    );
    let rpath = format!("-Wl,-rpath,{path}");
    let out = text(program.clone());
    run(&[
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-D_POSIX_C_SOURCE=200809L",
        "-I",
        &include,
        "-o",
        &out,
        &source,
        "-L",
        &path,
        "-lcofferdam_dataplane",
        &rpath,
    ]);
    program
}

struct Echo {
    process: Process,
    out: PathBuf,
}

impl Echo {
    fn start(scene: &Scene, program: &Path, name: &str) -> Echo {
        let out = scene.folder().join("echo.out");
        let script = scene.folder().join("echo.sh");
        let text = format!(
            "exec {} {} {name} {ADDRESS}:7 >{} 2>&1\n",
            program.display(),
            scene.socket().display(),
            out.display()
        );
        std::fs::write(&script, text).expect("a script");
        let process = Host.spawn(&format!("sh {}", script.display()));
        Echo { process, out }
    }

    fn output(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }
}

/// Promise 55.
#[test]
fn the_c_example_serves_queues_and_ends() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), || {
        let scene = Scene::new("", &ECHO.replace("*:7", &format!("{ADDRESS}:7")));
        let program = compile(scene.folder());
        let echo = Echo::start(&scene, &program, "echo");
        wait_until("the example", Duration::from_secs(10), || {
            echo.output().contains("ready")
        });
        for (len, seed) in [(1, 1), (5000, 2), (2 << 20, 3)] {
            let back = scene.client(move || round_trip(connect(ADDRESS, 7), bytes(len, seed)));
            assert!(back == bytes(len, seed), "{len} bytes came back changed");
        }
        let datagram = scene.client(|| support::datagram(1200, 4));
        assert_eq!(datagram, bytes(1200, 4));
        let stuck = support::a_writer_that_never_reads(&scene);
        let back = scene.client(|| round_trip(connect(ADDRESS, 7), bytes(100_000, 5)));
        assert!(back == bytes(100_000, 5), "others are served meanwhile");
        drop(stuck);
        wait_until("the last to end", Duration::from_secs(10), || {
            scene.count("/applications/0/connections") == 0
        });
        assert_eq!(scene.count("/applications/0/held_frames"), 0);
        wait_until("two ticks", Duration::from_secs(5), || {
            scene.count("/counts/conditions") > 0
        });
        echo.process.signal(Signal::SIGTERM);
        assert_eq!(echo.process.wait(), Some(0), "{}", echo.output());
        let output = echo.output();
        let ticks = output.lines().last().and_then(|l| l.strip_suffix(" ticks"));
        assert!(ticks.is_some_and(|n| n != "0"), "{output}");
        wait_until("the clean-up", Duration::from_secs(5), || {
            scene.count("/counts/applications_ended") == 1
        });
        assert_eq!(scene.count("/counts/offences"), 0);
    });
}

/// Promise 55.
#[test]
fn the_c_example_reports_why_it_cannot_serve() {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), || {
        let scene = Scene::new("", "[[application]]\nname = \"echo\"\nuser = \"0\"\n");
        let program = compile(scene.folder());
        for (name, words) in [
            ("nobody", "no application 'nobody'"),
            ("echo", "the address was refused: reason 3"),
        ] {
            let echo = Echo::start(&scene, &program, name);
            assert_eq!(echo.process.wait(), Some(1));
            assert!(echo.output().contains(words), "{}", echo.output());
        }
    });
}
