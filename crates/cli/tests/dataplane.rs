//! Tests of `cofferdam dataplane` as a user runs it: commands, a file, two namespaces. They need
//! root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use cofferdam_lab::fixtures::{
    Namespace, Net, Process, VethPair, exclusive, time_limit, try_run, wait_until,
};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_cofferdam");
/// Time limit of any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const WEB: &str = "[[application]]\nname = \"web\"\nuser = \"root\"\nbind = [\"tcp/*:80\"]\n";

fn alone(body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(120), body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Namespace of a server with the dataplane's device, and one of a client.
struct Testbed {
    pair: VethPair,
    server: Namespace,
    client: Namespace,
    folder: tempfile::TempDir,
    net: u8,
}

impl Testbed {
    /// Creates the namespaces. The dataplane's address is 10.98.NET.9; Linux has 10.98.NET.1 on the
    /// same link.
    fn new(net: u8) -> Testbed {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let pair = VethPair::new((&server, "eth0"), (&client, "eth0"));
        server.address("eth0", &format!("10.98.{net}.1/24"));
        client.address("eth0", &format!("10.98.{net}.2/24"));
        client.offload("eth0", "tx", false);
        Testbed {
            pair,
            server,
            client,
            folder: tempfile::tempdir().unwrap(),
            net,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> String {
        self.path("dataplane.sock").display().to_string()
    }

    /// Writes the configuration, followed by `more`.
    fn configure(&self, address: &str, device: &str, more: &str) -> String {
        let path = self.path("dataplane.toml");
        let text = format!(
            "socket = \"{}\"\n[device]\nname = \"{device}\"\n\
             [network]\naddresses = [\"{address}/24\"]\n{more}",
            self.socket()
        );
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn start(&self, label: &str, words: &str) -> Running {
        Running::start(&self.server, self.folder.path(), label, words)
    }

    /// Starts a dataplane and waits until it serves.
    fn dataplane(&self) -> Running {
        let config = self.configure(&format!("10.98.{}.9", self.net), "eth0", WEB);
        let running = self.start("run", &format!("run --config {config}"));
        wait_until("the dataplane", PATIENCE, || {
            running.out().contains("serving")
        });
        running
    }

    /// Starts the web server on the dataplane.
    fn web(&self) -> Running {
        let words = format!(
            "serve http 10.98.{}.9:80 --name web --socket {}",
            self.net,
            self.socket()
        );
        let running = self.start("web", &words);
        wait_until("the web server", PATIENCE, || self.page().is_some());
        running
    }

    /// Page that a client fetches; `None` without an answer.
    fn page(&self) -> Option<String> {
        let url = format!("http://10.98.{}.9/", self.net);
        let curl = ["curl", "-sS", "--max-time", "2", &url];
        let name = self.client.name().to_owned();
        let mut argv = vec!["ip", "netns", "exec", &name];
        argv.extend(curl);
        try_run(&argv).ok()
    }

    fn is_served(&self) {
        assert_eq!(self.page().as_deref(), Some("Served by the dataplane.\n"));
    }
}

/// Running command, whose output goes to files.
struct Running {
    process: Process,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    fn start(net: &Namespace, folder: &Path, label: &str, words: &str) -> Running {
        let file = |kind: &str| folder.join(format!("{label}.{kind}"));
        let (script, out, err) = (file("sh"), file("out"), file("err"));
        let text = format!(
            "exec {BINARY} dataplane {words} >{} 2>{}\n",
            out.display(),
            err.display()
        );
        std::fs::write(&script, text).unwrap();
        // Output of an earlier command with this label must not be taken for this one's.
        let _ = (std::fs::remove_file(&out), std::fs::remove_file(&err));
        Running {
            process: net.spawn(&format!("sh {}", script.display())),
            out,
            err,
        }
    }

    fn out(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    fn err(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// Waits for the end: exit code, and the one line on standard error.
    fn end(&self) -> (Option<i32>, String) {
        let code = self.process.wait();
        (code, self.err())
    }

    /// Asserts that the server ends in order with its dataplane.
    fn ends_with_its_dataplane(&self) {
        let (code, err) = self.end();
        assert_eq!((code, err.lines().count()), (Some(0), 1), "{err}");
        assert!(err.contains("the dataplane has ended"), "{err}");
    }

    fn fails_with(&self, words: &[&str]) {
        let (code, err) = self.end();
        assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");
        for word in words {
            assert!(err.contains(word), "no `{word}` in {err}");
        }
    }
}

/// Runs a command to its end, in this namespace.
fn cofferdam(args: &[&str]) -> Output {
    Command::new("timeout")
        .args(["--kill-after=5", "60", BINARY, "dataplane"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Promise 66.
/// Promise 78.
#[test]
fn a_dataplane_serves_and_leaves_nothing_at_sigterm() {
    alone(|| {
        let testbed = Testbed::new(3);
        let dataplane = testbed.dataplane();
        assert_eq!(
            dataplane.out(),
            format!(
                "serving 10.98.3.9 on eth0 (AF_XDP); applications attach at {}\n",
                testbed.socket()
            )
        );
        let web = testbed.web();
        testbed.is_served();
        testbed.client.ping("10.98.3.1");

        let socket = testbed.socket();
        let seen = cofferdam(&["top", "--json", "--socket", &socket]);
        let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
        assert_eq!(seen["schema"], cofferdam_dataplane::SCHEMA);
        assert_eq!(seen["applications"][0]["name"], "web");
        let once = ["top", "--once", "--interval", "100ms", "--socket", &socket];
        let seen = text(&cofferdam(&once).stdout);
        assert!(
            seen.starts_with("eth0: ") && seen.contains("\nweb "),
            "{seen}"
        );
        // The segments of the page that was fetched; the figures are up to 10 ms old.
        wait_until("the segments", PATIENCE, || {
            let seen = cofferdam(&["groups", "--json", "--socket", &socket]);
            let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
            assert_eq!(seen["schema"], "cofferdam.dataplane-groups/1");
            seen["flow_groups"][0]["segments"].as_u64() > Some(0)
        });
        let seen = text(&cofferdam(&["groups", "--socket", &socket]).stdout);
        assert!(seen.contains(" of 128 flow groups, "), "{seen}");
        let moved = cofferdam(&["move", "5", "0", "--socket", &socket]);
        assert_eq!(text(&moved.stdout), "flow group 5 is on core 0 already\n");
        let refused = cofferdam(&["move", "5", "1", "--socket", &socket]);
        assert_eq!(refused.status.code(), Some(1));
        let why = "there is no core 1: this dataplane has one core, 0";
        assert!(text(&refused.stderr).contains(why), "{refused:?}");
        let seen = cofferdam(&["top", "--socket", &socket]);
        assert_eq!(seen.status.code(), Some(2), "no terminal: {seen:?}");

        dataplane.process.signal(Signal::SIGTERM);
        assert_eq!(dataplane.end(), (Some(0), String::new()));
        web.ends_with_its_dataplane();
        assert!(!Path::new(&socket).exists(), "its socket is left");
        let link = testbed.server.run("ip link show eth0");
        assert!(!link.contains("xdp"), "its program is left: {link}");
        let seen = cofferdam(&["top", "--once", "--socket", &socket]);
        assert_eq!(seen.status.code(), Some(1));
        assert!(
            text(&seen.stderr).contains("no dataplane answers"),
            "{seen:?}"
        );
    });
}

/// Promise 66.
#[test]
fn a_server_that_is_started_first_waits_for_its_dataplane() {
    alone(|| {
        let testbed = Testbed::new(8);
        let socket = testbed.socket();
        let words = format!("serve http 10.98.8.9:80 --name web --socket {socket}");
        let hasty = testbed.start("hasty", &format!("{words} --wait 100ms"));
        let (code, err) = hasty.end();
        assert_eq!((code, err.lines().count()), (Some(1), 2), "{err}");
        assert!(err.contains("waiting up to 100ms"), "{err}");
        assert!(
            err.contains("no dataplane answers") && err.contains("dataplane run"),
            "{err}"
        );
        let none = testbed.start("none", &format!("{words} --wait 0s"));
        none.fails_with(&["no dataplane answers"]);

        let web = testbed.start("web", &format!("{words} --wait 20s"));
        wait_until("the notice", PATIENCE, || web.err().contains("waiting"));
        let dataplane = testbed.dataplane();
        wait_until("the page", PATIENCE, || testbed.page().is_some());
        dataplane.process.signal(Signal::SIGTERM);
        assert_eq!(dataplane.process.wait(), Some(0));
    });
}

/// Promise 66.
#[test]
fn the_next_dataplane_serves_after_kill_9() {
    alone(|| {
        let testbed = Testbed::new(4);
        let dataplane = testbed.dataplane();
        let web = testbed.web();
        let config = testbed.path("dataplane.toml").display().to_string();
        let second = testbed.start("second", &format!("run --config {config}"));
        second.fails_with(&["eth0 is in use", "ip link show eth0"]);
        testbed.is_served();
        dataplane.process.signal(Signal::SIGKILL);
        assert_eq!(dataplane.process.wait(), None);
        web.fails_with(&["the dataplane is gone"]);
        let _dataplane = testbed.dataplane();
        let _web = testbed.web();
        testbed.is_served();
    });
}

/// Promise 66.
#[test]
fn a_dataplane_waits_for_a_device_that_is_set_down() {
    alone(|| {
        let (testbed, other) = (Testbed::new(5), Testbed::new(6));
        let (dataplane, others) = (testbed.dataplane(), other.dataplane());
        let (web, _others_web) = (testbed.web(), other.web());
        testbed.server.run("ip link set eth0 down");
        wait_until("the notice", PATIENCE, || {
            dataplane.err().contains("eth0 is down")
        });
        assert_eq!(testbed.page(), None);
        other.is_served();
        testbed.server.run("ip link set eth0 up");
        wait_until("the notice", PATIENCE, || {
            dataplane.err().contains("eth0 is up again")
        });
        wait_until("the page", PATIENCE, || testbed.page().is_some());

        drop(testbed.pair);
        assert_eq!(dataplane.process.wait(), Some(1));
        let err = dataplane.err();
        let last = err.lines().last().unwrap_or_default();
        assert!(last.contains("eth0 is gone: it was removed"), "{err}");
        assert_eq!(err.lines().count(), 3, "{err}");
        web.ends_with_its_dataplane();
        other.is_served();
        assert_eq!(others.err(), "");
    });
}

/// Promise 49.
#[test]
fn an_address_of_linux_and_a_missing_device_are_refused() {
    alone(|| {
        let testbed = Testbed::new(7);
        for (address, device, words) in [
            (
                "10.98.7.1",
                "eth0",
                ["10.98.7.1 is an address of Linux, on eth0", "of its own"],
            ),
            ("10.98.7.9", "eth7", ["no network device eth7", "ip link"]),
        ] {
            let config = testbed.configure(address, device, "");
            let run = testbed.start("run", &format!("run --config {config}"));
            run.fails_with(&words);
            assert!(!Path::new(&testbed.socket()).exists());
        }
        // The device and its address still belong to Linux.
        testbed.client.ping("10.98.7.1");
    });
}

/// Promise 75.
#[test]
fn a_wrong_file_is_reported_with_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dataplane.toml");
    let path = path.to_str().unwrap();
    let good = "[device]\nname = \"eth0\"\n[network]\naddresses = [\"10.0.0.9/24\"]\n";
    for (more, words) in [
        (
            "[loop]\nbatch = 0\n",
            ":6:9: loop.batch = 0 is outside 1..=256",
        ),
        ("[lop]\n", ":5:2: unknown field `lop`"),
        (
            "[[core]]\ncpu = 900\n",
            ":6:7: cpu = 900: this host has no such CPU",
        ),
        ("[loop]\nspin = \"5\"\n", ":6:8: loop.spin"),
        (
            "[[application]]\nname = \"web\"\nuser = \"no-such-user\"\n",
            ":7:8: application 'web'",
        ),
    ] {
        std::fs::write(path, format!("{good}{more}")).unwrap();
        let output = cofferdam(&["run", "--config", path]);
        let err = text(&output.stderr);
        let ended = (output.status.code(), err.lines().count());
        assert_eq!(ended, (Some(1), 1), "{err}");
        assert!(err.contains(&format!("{path}{words}")), "{err}");
        // The check prints each mistake as a line on standard output, like that of the agent.
        let output = cofferdam(&["run", "--check-config", "--config", path]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let expected = words.replacen(": ", ": error: ", 1);
        assert_eq!(out.lines().count(), 1, "{out}");
        assert!(out.starts_with(&format!("{path}{expected}")), "{out}");
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(err, format!("cofferdam: {path}: 1 error, refused\n"));
    }
    std::fs::write(
        path,
        format!("{good}[loop]\nbatch = 0\nspin = \"5\"\n[lop]\n"),
    )
    .unwrap();
    let output = cofferdam(&["run", "--check-config", "--config", path]);
    assert_eq!(text(&output.stdout).lines().count(), 3, "{output:?}");
    let output = cofferdam(&["run", "--config", path]);
    assert!(text(&output.stderr).contains("and 2 more"), "{output:?}");
    std::fs::write(path, good).unwrap();
    let output = cofferdam(&["run", "--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = cofferdam(&["run", "--config", "/no/such/file"]);
    assert!(
        text(&output.stderr).contains("cannot read /no/such/file"),
        "{output:?}"
    );
}

/// Whether this host has protection keys.
fn has_keys() -> bool {
    cofferdam_dataplane::pkey::supported().is_ok()
}

/// Promise 69.
#[test]
fn all_attacks_on_protection_keys_are_stopped() {
    time_limit(Duration::from_secs(120), || {
        let output = cofferdam(&["attack", "--json"]);
        if has_keys() {
            let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(0), "{found:#}");
            assert_eq!(found["schema"], "cofferdam.dataplane-attack/1");
            assert_eq!(found["succeeded"], 0, "{found:#}");
            return;
        }
        assert_eq!(output.status.code(), Some(3));
        let printed = text(&output.stderr);
        for words in [
            "protection keys",
            "there is nothing to attack here",
            "use domain = \"process\"",
        ] {
            assert!(printed.contains(words), "{printed}");
        }
        assert_eq!(printed.lines().count(), 1, "{printed}");
    });
}

/// Promise 69.
#[test]
fn without_protection_keys_an_application_behind_them_is_refused() {
    alone(|| {
        let testbed = Testbed::new(95);
        let more = "[[application]]\nname = \"hot\"\nuser = \"nobody\"\nbind = [\"tcp/*:7\"]\n\
                    domain = \"pkey\"\nprogram = \"echo 10.98.95.9:7\"\n";
        let config = testbed.configure("10.98.95.9", "eth0", more);
        let checked = cofferdam(&["run", "--check-config", "--config", &config]);
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        let running = testbed.start("run", &format!("run --config {config}"));
        if has_keys() {
            wait_until("the dataplane", PATIENCE, || {
                running.out().contains("serving")
            });
            let status = cofferdam(&["top", "--json", "--socket", &testbed.socket()]);
            let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
            assert_eq!(status["applications"][0]["domain"], "pkey");
            running.process.signal(Signal::SIGTERM);
            assert_eq!(running.end(), (Some(0), String::new()));
            return;
        }
        let (code, printed) = running.end();
        assert_eq!(code, Some(3), "{printed}");
        for words in [
            "application 'hot' has domain = \"pkey\"",
            "protection keys",
            "set domain = \"process\" for it",
        ] {
            assert!(printed.contains(words), "{printed}");
        }
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert!(!testbed.path("dataplane.sock").exists());
    });
}
