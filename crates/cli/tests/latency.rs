//! `cofferdam latency` on real namespaces: recording, pinging, and the socket inside.

use cofferdam_testkit::{FakeContainer, Namespace, Net, Router, exclusive, time_limit, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const COFFERDAM: &str = env!("CARGO_BIN_EXE_cofferdam");

fn alone(body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(60), body);
}

struct Scene {
    web: FakeContainer,
    other: FakeContainer,
    peer: Namespace,
    _router: Router,
}

fn scene() -> Scene {
    let scene = Scene {
        web: FakeContainer::new("web"),
        other: FakeContainer::new("other"),
        peer: Namespace::new("peer"),
        _router: Router::new("router"),
    };
    for net in [scene.web.namespace(), scene.other.namespace(), &scene.peer] {
        scene._router.attach(net);
    }
    // The peer is 10.98.3.2.
    scene.web.ping("10.98.3.2");
    scene.other.ping("10.98.3.2");
    scene
}

/// Ends its process when dropped, as Ctrl-C does.
struct Serve {
    child: Child,
    socket: PathBuf,
}

impl Serve {
    fn start(dir: &std::path::Path) -> Serve {
        let socket = dir.join("latency.sock");
        let child = Command::new(COFFERDAM)
            .args(["latency", "serve", "--socket"])
            .arg(&socket)
            .spawn()
            .expect("the binary runs");
        let serve = Serve { child, socket };
        wait_until("the socket", Duration::from_secs(20), || {
            UnixStream::connect(&serve.socket).is_ok()
        });
        serve
    }

    fn stop(&mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
        self.child.wait().ok()?.code()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request from inside a namespace, with nothing but a socket.
fn ask(net: &Namespace, serve: &Serve, request: &'static str) -> Vec<String> {
    let socket = serve.socket.clone();
    // A socket tells its peer by its process: a process of its own for each namespace.
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", net.name(), COFFERDAM, "latency"])
        .args(request.split(' '))
        .arg("--socket")
        .arg(socket);
    let out = command.output().expect("ip runs");
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{request}: {error}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_three_steps_inside_a_container() {
    alone(|| {
        let scene = scene();
        let dir = tempfile::tempdir().expect("a directory");
        let mut serve = Serve::start(dir.path());
        let (web, other) = (scene.web.namespace(), scene.other.namespace());
        ask(web, &serve, "on --protocol icmp");
        web.sh("busybox ping -q -c 3 -i 0.1 10.98.3.2");
        other.sh("busybox ping -q -c 5 -i 0.1 10.98.3.2");
        let lines = ask(web, &serve, "read --mace");
        let of = |way: &str| lines.iter().filter(|l| l.contains(way)).count();
        assert_eq!((of(" egress: "), of(" ingress: ")), (3, 3), "{lines:?}");
        for line in &lines {
            // [1552589043.315681] (1) egress: 80932
            let (time, rest) = line.split_once("] (").expect(line);
            assert!(time.starts_with('[') && time.contains('.'), "{line}");
            let (_, ns) = rest.rsplit_once(": ").expect(line);
            assert!(ns.parse::<u64>().is_ok_and(|ns| ns > 0), "{line}");
        }
        // The neighbour sees nothing of it, before and after its own measurement.
        assert_eq!(ask(other, &serve, "read"), Vec::<String>::new());
        ask(other, &serve, "on");
        web.sh("busybox ping -q -c 3 -i 0.1 10.98.3.2");
        assert!(
            !ask(other, &serve, "read")
                .iter()
                .any(|l| l.contains("10.98.1.2")),
            "another namespace's packets"
        );
        ask(web, &serve, "off");
        assert_eq!(serve.stop(), Some(130));
        assert!(!serve.socket.exists(), "the socket's file stays");
    });
}

#[test]
fn the_host_itself_is_refused_and_a_second_server_too() {
    alone(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut serve = Serve::start(dir.path());
        let mut stream = BufReader::new(UnixStream::connect(&serve.socket).expect("it listens"));
        stream.get_mut().write_all(b"on\n").expect("it reads");
        let mut line = String::new();
        stream.read_line(&mut line).expect("it answers");
        assert!(line.starts_with("error this is the host's own"), "{line}");
        let second = Command::new(COFFERDAM)
            .args(["latency", "serve", "--socket"])
            .arg(&serve.socket)
            .output()
            .expect("the binary runs");
        assert_eq!(second.status.code(), Some(1));
        let text = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(text.contains("another 'cofferdam latency serve'"), "{text}");
        // Killed, it leaves a file that the next one replaces.
        serve.child.kill().expect("it runs");
        serve.child.wait().expect("it ran");
        let mut next = Serve::start(dir.path());
        assert_eq!(next.stop(), Some(130));
    });
}

#[test]
fn a_ping_from_a_container_is_corrected() {
    alone(|| {
        let scene = scene();
        let out = Command::new(COFFERDAM)
            .args([
                "latency",
                "ping",
                "10.98.3.2",
                "--json",
                "-c",
                "5",
                "-i",
                "20ms",
            ])
            .args(["--container", scene.web.name()])
            .stderr(Stdio::inherit())
            .output()
            .expect("the binary runs");
        assert!(out.status.success());
        let record: Value = serde_json::from_slice(&out.stdout).expect("one JSON document");
        assert_eq!(record["schema"], "cofferdam.latency-ping/1");
        assert_eq!(record["received"], 5);
        assert_eq!(record["measured"], 5, "{record}");
        for round in record["rounds"].as_array().expect("rounds") {
            let ns = |name: &str| round[name].as_u64().expect(name);
            assert!(ns("rtt_ns") > ns("added_ns"), "{round}");
            assert_eq!(ns("corrected_ns"), ns("rtt_ns") - ns("added_ns"));
            assert!(ns("wire_ns") < ns("corrected_ns"), "{round}");
        }
    });
}

#[test]
fn connections_are_pinged_too() {
    alone(|| {
        let scene = scene();
        let peer = &scene.peer;
        let server = peer.thread(|| {
            let listener = std::net::TcpListener::bind("0.0.0.0:9000").expect("a free port");
            for _ in 0..3 {
                drop(listener.accept());
            }
        });
        let out = Command::new(COFFERDAM)
            .args([
                "latency",
                "ping",
                "10.98.3.2",
                "--json",
                "-c",
                "3",
                "-i",
                "20ms",
            ])
            .args(["--tcp-connect", "9000", "--container", scene.web.name()])
            .output()
            .expect("the binary runs");
        assert!(out.status.success(), "{out:?}");
        let record: Value = serde_json::from_slice(&out.stdout).expect("one JSON document");
        assert_eq!(record["measured"], 3, "{record}");
        server.join().expect("three connections");
    });
}

#[test]
fn packets_are_recorded_as_json_lines() {
    alone(|| {
        let scene = scene();
        let child = Command::new(COFFERDAM)
            .args(["latency", "record", "--format", "jsonl", "--per", "packet"])
            .args(["--duration", "3s", "--container", scene.web.name()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        scene
            .web
            .namespace()
            .sh("busybox ping -q -c 20 -i 0.1 10.98.3.2");
        let out = child.wait_with_output().expect("it ends");
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).expect("text");
        let lines: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).expect("one object a line"))
            .collect();
        let (packets, rest): (Vec<_>, Vec<_>) = lines.iter().partition(|l| l["kind"] == "packet");
        assert!(packets.len() > 10, "{text}");
        for packet in &packets {
            assert_eq!(packet["schema"], "cofferdam.latency/1");
            assert_eq!(packet["container"], scene.web.name());
            let parts = packet["stages_ns"].as_object().expect("parts");
            let sum: u64 = parts.values().filter_map(Value::as_u64).sum();
            assert_eq!(packet["total_ns"].as_u64(), Some(sum));
        }
        assert_eq!(rest.len(), 1, "the summary");
        let flows = rest[0]["flows"].as_array().expect("flows");
        assert!(flows.iter().any(|f| f["protocol"] == "icmp"
            && f["direction"] == "egress"
            && f["reports"].as_u64() > Some(10)));
    });
}

#[test]
fn bad_input_is_one_clear_line() {
    alone(|| {
        let scene = scene();
        let fails = |arguments: &[&str], code: i32, words: &str| {
            let out = Command::new(COFFERDAM)
                .arg("latency")
                .args(arguments)
                .output()
                .expect("the binary runs");
            let text = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(code), "{arguments:?}: {text}");
            assert!(text.contains(words), "{arguments:?}: {text}");
            assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        };
        let lonely = FakeContainer::new("lonely");
        fails(
            &["record", "--container", lonely.name()],
            1,
            "no network interface of its own",
        );
        fails(&["record", "--container", "nobody-here"], 1, "no container");
        fails(
            &[
                "record",
                "--container",
                scene.web.name(),
                "--interface",
                "eth7",
            ],
            1,
            "no selected container has an interface 'eth7': there are eth0",
        );
        fails(&["record", "--port", "0"], 2, "--port");
        fails(
            &["ping", "10.98.3.2", "--socket", "/nowhere"],
            1,
            "latency serve",
        );
        let full = ["record", "--duration", "100ms", "--output", "/dev/full"];
        fails(&full, 1, "No space left");
    });
}
