//! Tests of Ctrl-C at random moments of every command that takes a while. They need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use cofferdam_lab::fixtures::{
    FakeContainer, Namespace, Net, VethPair, exclusive, leftovers, number_from_env, time_limit,
    wait_until,
};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_cofferdam");
/// Default number of moments for each command; `COFFERDAM_INTERRUPTS` sets another.
const MOMENTS: u64 = 2;
/// Default seed of the moments; `COFFERDAM_INTERRUPT_SEED` sets another.
const SEED: u64 = 1;
/// Latest moment: within the first seconds every command loads, builds and measures.
const LATEST: Duration = Duration::from_secs(4);
/// Time limit for the end of the slowest command: it removes containers, namespaces and programs
/// one by one.
const END: Duration = Duration::from_secs(60);

/// Benchmarks of all kinds; `OUT` is a folder that does not exist.
const BENCHES: [&str; 8] = [
    "bench penalty --quick --output OUT",
    "bench accounting --quick --output OUT",
    "bench latency --quick --output OUT",
    "bench reservation --quick --output OUT",
    "bench simulation --quick --output OUT",
    "bench agent --quick --output OUT",
    "bench dataplane --quick --output OUT",
    "bench isolation --quick --runtime process --output OUT",
];

const OTHERS: [&str; 5] = [
    "accounting record --output OUT",
    "latency record --output OUT",
    "latency serve --socket OUT",
    "demo --output OUT",
    "agent --config CONFIG",
];

const AGENT: &str = "[[rule]]\nmatch = \"*\"\nnetwork_cpu = \"enforce\"\n";

const DATAPLANE: &str = "device.name = \"eth0\"\nnetwork.addresses = [\"10.98.7.9/24\"]\n";

/// Starts a command as a shell does: in its own process group, which Ctrl-C reaches.
fn start(words: &[&str], folder: &Path) -> Child {
    Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Command and its descendants; killed if a test ends without ending them.
struct Group(Child);

impl Group {
    fn signal(&self, signal: Signal) -> nix::Result<()> {
        killpg(Pid::from_raw(self.0.id().cast_signed()), signal)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Both are errors when it has ended already, as it should have.
        let _ = self.signal(Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Files of the product in `/run/cofferdam`.
fn run_files() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/run/cofferdam").into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn interrupt_at_random(line: &str, prefix: &[&str], random: &mut fastrand::Rng) {
    let before = (leftovers::list(), run_files());
    for _ in 0..number_from_env("COFFERDAM_INTERRUPTS").unwrap_or(MOMENTS) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("CONFIG"), AGENT).unwrap();
        std::fs::write(folder.path().join("DATAPLANE"), DATAPLANE).unwrap();
        // A test that was started in the background ignores Ctrl-C, and so would its children.
        let words: Vec<&str> = ["env", "--default-signal=INT"]
            .iter()
            .chain(prefix)
            .copied()
            .chain([BINARY])
            .chain(line.split(' '))
            .collect();
        let moment = Duration::from_micros(random.u64(0..LATEST.as_micros() as u64));
        let mut child = Group(start(&words, folder.path()));
        std::thread::sleep(moment);
        let early = child.0.try_wait().unwrap();
        assert!(
            early.is_none(),
            "{line} ended by itself: {early:?}, {}",
            std::io::read_to_string(child.0.stderr.take().unwrap()).unwrap()
        );
        child.signal(Signal::SIGINT).unwrap();
        let mut status = None;
        wait_until(&format!("the end of {line} after {moment:?}"), END, || {
            status = child.0.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        // Before the program has started, the signal itself ends the process.
        let is_orderly = matches!(status.code(), Some(0 | 130));
        assert!(
            is_orderly || status.signal() == Some(Signal::SIGINT as i32),
            "{line} after {moment:?}: {status:?}, {}",
            std::io::read_to_string(child.0.stderr.take().unwrap()).unwrap()
        );
        let after = (leftovers::list(), run_files());
        assert_eq!(after, before, "{line}, interrupted after {moment:?}");
    }
}

/// Runs `body` as the only test of the machine, with a time limit; asserts that nothing is left
/// behind.
fn alone(body: impl FnOnce(&mut fastrand::Rng) + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(600), || {
        let seed = number_from_env("COFFERDAM_INTERRUPT_SEED").unwrap_or(SEED);
        println!("seed {seed}");
        body(&mut fastrand::Rng::with_seed(seed));
    });
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// Promise 67.
#[test]
fn an_interrupted_benchmark_leaves_nothing_behind() {
    alone(|random| {
        for line in BENCHES {
            interrupt_at_random(line, &[], random);
        }
    });
}

/// Promise 67.
#[test]
fn an_interrupted_measurement_leaves_nothing_behind() {
    alone(|random| {
        let _container = FakeContainer::new("interrupted");
        for line in OTHERS {
            interrupt_at_random(line, &[], random);
        }
    });
}

/// Promise 67.
#[test]
fn an_interrupted_dataplane_leaves_nothing_behind() {
    alone(|random| {
        let (server, client) = (Namespace::new("server"), Namespace::new("client"));
        let _link = VethPair::new((&server, "eth0"), (&client, "eth0"));
        server.up("eth0");
        client.up("eth0");
        let prefix = ["ip", "netns", "exec", server.name()];
        interrupt_at_random("dataplane run --config DATAPLANE", &prefix, random);
    });
}
