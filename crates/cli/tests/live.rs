//! Tests of the binary with a running accounting. They need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use cofferdam_lab::fixtures::leftovers;
use cofferdam_lab::fixtures::traffic::{Udp, compute, udp_send, udp_sink};
use cofferdam_lab::fixtures::{
    Cgroup, FakeContainer, ForkedProcess, Namespace, Net, Terminal, VethPair, exclusive,
    time_limit, wait_until,
};
use cofferdam_records::accounting::{ACCOUNTING, AccountingRecord};
use cofferdam_records::flows::{FLOWS, FlowsRecord};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const TO: &str = "10.99.0.2:9000";

/// Runs `body` as the only root test of the machine, with a time limit. Asserts that nothing is
/// left behind.
fn alone(body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(120), body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Container that receives datagrams until it is dropped.
struct FloodedContainer {
    _traffic: [ForkedProcess; 2],
    _link: VethPair,
    container: FakeContainer,
    _source: Namespace,
}

fn flooded(label: &str) -> FloodedContainer {
    let container = FakeContainer::new(label);
    let source = Namespace::new("source");
    let link = VethPair::new((&source, "veth0"), (container.namespace(), "eth0"));
    source.address("veth0", "10.99.0.1/24");
    container.namespace().address("eth0", "10.99.0.2/24");
    let to: SocketAddr = TO.parse().unwrap();
    let sink = udp_sink(&container, None, to, u64::MAX);
    let sender = udp_send(&source, None, Udp::to(to).packets(10_000_000).rate(5_000));
    FloodedContainer {
        _traffic: [sender, sink],
        _link: link,
        container,
        _source: source,
    }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the binary to its end; waits while another accounting runs.
fn cofferdam(args: &[&str]) -> Output {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let output = command(args).output().unwrap();
        let busy = String::from_utf8_lossy(&output.stderr).contains("another cofferdam");
        if !busy || Instant::now() > until {
            return output;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Starts an endless recording to `path` and waits for its first line.
fn recording(path: &Path, more: &[&str]) -> Running {
    let until = Instant::now() + Duration::from_secs(60);
    let path = path.to_str().unwrap();
    let mut args = vec![
        "accounting",
        "record",
        "--duration",
        "1h",
        "--interval",
        "100ms",
    ];
    args.extend(["--format", "jsonl", "--output", path]);
    args.extend(more);
    loop {
        let mut child = Running::start(&args);
        while child.0.try_wait().unwrap().is_none() && lines(path) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        if lines(path) > 0 || Instant::now() > until {
            return child;
        }
        // Ended without a line: another accounting runs.
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn lines(path: &str) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

/// Running command; killed if a test ends without ending it.
struct Running(Child);

impl Running {
    fn start(args: &[&str]) -> Running {
        Running(command(args).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }

    /// Waits for the end: exit code and standard error.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut line = String::new();
        let stderr = self.0.stderr.take();
        stderr.unwrap().read_to_string(&mut line).unwrap();
        (self.0.wait().unwrap().code(), line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both are errors when it has ended already, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn top_shows_the_receiver() {
    alone(|| {
        let flooded = flooded("web");
        let name = flooded.container.name();
        let output = cofferdam(&["top", "--json", "--container", name]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let record: AccountingRecord = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record.schema, ACCOUNTING);
        let [web] = &record.containers[..] else {
            panic!("one container was asked for: {:?}", record.containers);
        };
        assert_eq!(
            (web.name.as_str(), web.cgroup_id),
            (name, flooded.container.id())
        );
        assert!(web.rx_packets > 0 && web.caused_rx_ns > 0, "{web:?}");
        assert_eq!(web.caused_by_cpu_ns.len(), record.cpus.len());
        assert!(
            record.conservation.worst_cpu_error_pct <= 1.0,
            "{:?}",
            record.conservation
        );

        let output = cofferdam(&["top", "--once", "--interval", "1s"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
        assert!(text.contains("conservation error"), "{text}");
    });
}

#[test]
fn an_unknown_container_is_reported_with_a_similar_one() {
    alone(|| {
        let container = FakeContainer::new("web");
        let wrong = format!("{}x", container.name());
        let output = cofferdam(&["top", "--once", "--container", &wrong]);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(
            line.contains(&wrong) && line.contains(container.name()),
            "{line}"
        );
    });
}

#[test]
fn a_signal_ends_a_recording_with_its_data() {
    alone(|| {
        let dir = tempfile::tempdir().unwrap();
        for (i, which) in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
            .into_iter()
            .enumerate()
        {
            let path = dir.path().join(format!("{i}.jsonl"));
            let child = recording(&path, &[]);
            child.signal(which);
            assert_eq!(child.ended(), (Some(130), String::new()), "{which}");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.ends_with('\n'));
            for line in text.lines() {
                let record: AccountingRecord = serde_json::from_str(line).unwrap();
                assert_eq!(record.schema, ACCOUNTING);
            }
        }
    });
}

/// Asserts a sound document: the flooded container with its packets, and ledgers that add up.
fn assert_sane(output: &Output, name: &str) {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let record: AccountingRecord = serde_json::from_slice(&output.stdout).unwrap();
    let web = record.containers.iter().find(|c| c.name == name);
    let web = web.unwrap_or_else(|| panic!("no {name} in {:?}", record.containers));
    assert!(web.rx_packets > 0 && web.caused_rx_ns > 0, "{web:?}");
    let error_pct = record.conservation.worst_cpu_error_pct;
    assert!(error_pct <= 1.0, "{:?}", record.conservation);
}

/// Promise 66.
#[test]
fn several_readers_share_one_source() {
    alone(|| {
        let flooded = flooded("web");
        let name = flooded.container.name();
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let top = ["top", "--once", "--json", "--interval", "1s"];

        let owner = recording(&first, &[]);
        let programs = leftovers::bpf_programs();
        assert_sane(&command(&top).output().unwrap(), name);
        let reader = recording(&second, &["--container", name]);
        assert_eq!(
            leftovers::bpf_programs(),
            programs,
            "nothing is loaded twice"
        );
        // A container that starts while another process receives the events.
        let late = FakeContainer::new("late");
        wait_until("the late container", Duration::from_secs(20), || {
            let args = ["top", "--once", "--json", "--container", late.name()];
            command(&args).output().unwrap().status.success()
        });

        // The owner ends: the reader counts itself, and loses no container.
        owner.signal(Signal::SIGINT);
        assert_eq!(owner.ended().0, Some(130));
        let before = lines(second.to_str().unwrap());
        wait_until(
            "lines after the owner's end",
            Duration::from_secs(30),
            || lines(second.to_str().unwrap()) > before + 3,
        );
        assert_sane(&command(&top).output().unwrap(), name);
        reader.signal(Signal::SIGINT);
        assert_eq!(reader.ended(), (Some(130), String::new()));
        let text = std::fs::read_to_string(&second).unwrap();
        let last: AccountingRecord =
            serde_json::from_str(text.lines().rev().nth(1).unwrap()).unwrap();
        assert!(last.containers[0].rx_packets > 0, "{last:?}");
        // Never more than the maximum: the counts of two sources are not mixed.
        let most = 5_000.0 * 3.0;
        for line in text.lines() {
            let record: AccountingRecord = serde_json::from_str(line).unwrap();
            for web in &record.containers {
                let rate = web.rx_packets as f64 / record.interval_s.max(0.05);
                assert!(rate < most, "{rate} packets/s: {record:?}");
            }
        }
    });
}

/// Promise 7.
#[test]
fn a_plain_cgroup_that_is_selected_is_a_container() {
    alone(|| {
        let cgroup = Cgroup::new("plain");
        let _process = compute(&cgroup, None, Duration::from_secs(60));
        let path = cgroup.path().display().to_string();
        let selector = format!("cgroup:{path}");
        let top = ["top", "--once", "--json", "--container", &selector];
        let output = cofferdam(&top);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let record: AccountingRecord = serde_json::from_slice(&output.stdout).unwrap();
        let paths: Vec<&str> = record
            .containers
            .iter()
            .map(|c| c.cgroup_path.as_str())
            .collect();
        assert_eq!(paths, [path.as_str()]);
    });
}

/// The owner acts as a benchmark in a measurement: it has the programs, and answers nobody.
/// Promise 66.
#[test]
fn a_busy_owner_is_read_without_being_asked() {
    alone(|| {
        let flooded = flooded("web");
        let options = cofferdam_accounting::Options::default();
        let owner = cofferdam_accounting::Accountant::start(options).unwrap();
        let top = ["top", "--once", "--json", "--interval", "1s"];
        assert_sane(&command(&top).output().unwrap(), flooded.container.name());
        drop(owner);
    });
}

/// Promise 44.
#[test]
fn a_benchmark_does_not_measure_next_to_a_reader() {
    alone(|| {
        let dir = tempfile::tempdir().unwrap();
        let child = recording(&dir.path().join("first"), &[]);
        let run = dir.path().join("run").display().to_string();
        let args = ["bench", "accounting", "--quick", "--output", &run];
        let second = command(&args).output().unwrap();
        let line = String::from_utf8(second.stderr).unwrap();
        assert_eq!(second.status.code(), Some(1), "{line}");
        assert!(
            line.contains(&format!("another cofferdam (pid {})", child.0.id())),
            "{line}"
        );
        child.signal(Signal::SIGINT);
        assert_eq!(child.ended().0, Some(130));
    });
}

/// Promise 80.
#[test]
fn a_running_recording_is_in_use_and_not_left_over() {
    alone(|| {
        let dir = tempfile::tempdir().unwrap();
        let child = recording(&dir.path().join("x"), &[]);
        let left = leftovers::list();
        assert!(
            !left.iter().any(|l| l.starts_with("BPF program")),
            "{left:?}"
        );
        let in_use = leftovers::in_use();
        let process = format!("process {} (", child.0.id());
        assert!(in_use.iter().any(|l| l.starts_with(&process)), "{in_use:?}");
        child.signal(Signal::SIGINT);
        assert_eq!(child.ended().0, Some(130));
    });
}

#[test]
fn a_container_that_vanishes_ends_its_recording() {
    alone(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        let container = FakeContainer::new("short");
        let name = container.name().to_owned();
        let child = recording(&path, &["--container", &name]);
        drop(container);
        let (code, line) = child.ended();
        assert_eq!(code, Some(1), "{line}");
        assert!(line.contains(&name) && line.contains("is gone"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(lines(path.to_str().unwrap()) > 0);
    });
}

#[test]
fn a_full_disk_and_a_closed_pipe_end_a_recording() {
    alone(|| {
        let full = [
            "accounting",
            "record",
            "--duration",
            "1s",
            "--output",
            "/dev/full",
        ];
        let output = cofferdam(&full);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(
            line.contains("/dev/full") && line.contains("No space left"),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1, "{line}");

        let args = [
            "accounting",
            "record",
            "--duration",
            "1h",
            "--interval",
            "100ms",
        ];
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let mut child = Running::start(&args);
            let mut first = String::new();
            let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
            stdout.read_line(&mut first).unwrap();
            drop(stdout);
            let (code, line) = child.ended();
            if line.contains("another cofferdam") && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            assert!(!first.is_empty());
            assert_eq!((code, line.as_str()), (Some(0), ""));
            break;
        }
    });
}

/// Closing a window hangs its terminal up.
/// Promise 67.
#[test]
fn a_screen_whose_terminal_is_gone_ends() {
    alone(|| {
        for words in ["top", "latency watch"] {
            let folder = tempfile::tempdir().unwrap();
            let program = env!("CARGO_BIN_EXE_cofferdam");
            let mut shown = Terminal::start(folder.path(), &format!("{program} {words}"));
            wait_until(
                &format!("{words} names its keys"),
                Duration::from_secs(60),
                || String::from_utf8_lossy(&shown.screen()).contains("quit"),
            );
            shown.hang_up();
            shown.ended(Duration::from_secs(30));
        }
    });
}

/// Promise 15.
#[test]
fn flows_names_the_sender() {
    alone(|| {
        let flooded = flooded("web");
        let name = flooded.container.name();
        let output = cofferdam(&["flows", name, "--duration", "1s", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let record: FlowsRecord = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (record.schema.as_str(), record.container.as_str()),
            (FLOWS, name)
        );
        let [flow, ..] = &record.flows[..] else {
            panic!("no flow: {record:?}");
        };
        assert_eq!(
            (flow.protocol.as_str(), flow.source.as_str()),
            ("udp", "10.99.0.1")
        );
        assert_eq!(flow.destination_port, Some(9000));
        assert!(flow.packets > 0 && flow.cost_ns > Some(0.0), "{flow:?}");

        let output = cofferdam(&["flows", name, "--duration", "1s", "--top", "1"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("→ 10.99.0.2:9000"), "{text}");
        let output = cofferdam(&["flows", &format!("{name}x")]);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(line.contains(name) && line.lines().count() == 1, "{line}");
    });
}

/// Runs on a terminal: list, details with processes and flows, CPUs, a stop by job control, the
/// end.
/// Promise 13.
/// Promise 67.
#[test]
fn keys_reach_every_view_and_the_terminal_is_restored() {
    alone(|| {
        let flooded = flooded("web");
        let folder = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_cofferdam");
        let name = flooded.container.name();
        let command = format!("{program} top --interval 300ms --container {name}");
        let mut shown = Terminal::start(folder.path(), &command);
        let sockets = || {
            let text = flooded.container.exec("cat /proc/net/packet");
            text.lines().count()
        };
        let before = sockets();
        let limit = Duration::from_secs(60);
        let count = |shown: &Terminal, what: &str| {
            String::from_utf8_lossy(&shown.screen())
                .matches(what)
                .count()
        };
        wait_until("the list", limit, || count(&shown, "OWED%") > 0);
        shown.press("\rf");
        wait_until("the sampling", limit, || sockets() == before + 1);

        let pid = std::fs::read_to_string(folder.path().join("terminal.pid")).unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let (entered, left) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
        assert_eq!((count(&shown, entered), count(&shown, left)), (1, 0));
        let stop_and_continue = |shown: &mut Terminal, times: usize| {
            shown.press("\u{1a}");
            wait_until("the stop", limit, || state().contains(") T "));
            kill(Pid::from_raw(pid), Signal::SIGCONT).unwrap();
            wait_until("the screen again", limit, || {
                shown.go_on();
                count(shown, entered) > times
            });
        };
        stop_and_continue(&mut shown, 1);
        let screen = String::from_utf8_lossy(&shown.screen()).into_owned();
        let (given_back, taken) = (screen.find(left), screen.rfind(entered));
        assert!(given_back.is_some() && given_back < taken, "{screen:?}");
        // The whole screen is drawn again; later frames have only the differences.
        wait_until("its flows", limit, || count(&shown, "10.99.0.2:9000") > 0);
        shown.press("\u{1b}");
        wait_until("the end of the sampling", limit, || sockets() == before);
        shown.press("c");
        // The line of a CPU's bar. The screen is drawn again here too: a cell that was the same in
        // the list would be omitted.
        stop_and_continue(&mut shown, 2);
        wait_until("the CPUs", limit, || count(&shown, "CPU 0      ") > 0);
        shown.press("q");
        shown.ended(limit);
        wait_until("the terminal restored", limit, || count(&shown, left) == 3);
        assert!(
            count(&shown, "\u{1b}[?1000l") >= 2,
            "the mouse is restored too"
        );
    });
}
