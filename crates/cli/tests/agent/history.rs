//! Tests of the history of a real agent.

use crate::harness::*;
use cofferdam_history::{Frame, Reader};
use cofferdam_lab::fixtures::{FakeContainer, wait_until};
use cofferdam_records::status::{HistoryRecord, StatusReport};
use nix::sys::signal::Signal;
use std::fs::Permissions;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

const LIMIT: Duration = Duration::from_secs(40);

fn at(path: &Path) -> String {
    format!("history.path = \"{}\"\n", path.display())
}

fn history(agent: &Agent) -> HistoryRecord {
    agent.status().history.expect("a history is kept")
}

fn has_frames(agent: &Agent, most: u64) {
    wait_until("frames are written", LIMIT, || {
        history(agent).frames >= most
    });
}

fn failing(status: &StatusReport) -> usize {
    let named = |d: &&cofferdam_records::status::DegradedRecord| d.name == "history_unavailable";
    status.degraded.iter().filter(named).count()
}

fn all(path: &Path) -> Vec<Frame> {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    let end = SystemTime::now() + Duration::from_secs(60);
    let second = Duration::from_secs(1);
    let read = reader.each(SystemTime::UNIX_EPOCH, end, second, |frame| {
        frames.push(frame);
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert_eq!(reader.damage(), []);
    frames
}

/// Exports as user `nobody` in `group`.
fn export_as(path: &Path, group: u32) -> Output {
    Command::new(BINARY)
        .args([
            "export",
            "--from",
            "1h ago",
            "--history",
            path.to_str().unwrap(),
        ])
        .uid(65534)
        .gid(group)
        .output()
        .unwrap()
}

/// Promise 16.
/// Promise 65.
#[test]
fn the_history_is_complete_also_after_a_kill() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let container = FakeContainer::new("kept");
        let config = "socket.group = \"4242\"\n".to_owned() + &at(&path);
        let agent = Agent::start(&config);
        has_frames(&agent, 4);
        let record = history(&agent);
        assert_eq!(record.path, path.display().to_string());
        assert_eq!((record.frames_dropped, record.frames_delayed), (0, 0));
        assert_eq!((record.limit_bytes, record.error), (1 << 30, None));
        assert!(record.bytes > 0 && record.since.is_some());
        let file = std::fs::metadata(&path).unwrap();
        assert_eq!((file.mode() & 0o777, file.gid()), (0o640, 4242));
        let text = String::from_utf8(agent.ask(&["status"]).stdout).unwrap();
        assert!(text.contains("history: since "), "{text}");

        // While the agent writes, members of the group can read, and nobody else.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(export_as(&path, 4242).status.code(), Some(0));
        let denied = line(&export_as(&path, 4243));
        assert!(denied.contains("as a member of [socket] group"), "{denied}");

        assert_eq!(agent.end(Signal::SIGKILL), None);
        // The group can also read the complete history of the killed agent.
        let export = export_as(&path, 4242);
        assert_eq!(export.status.code(), Some(0), "{export:?}");
        let lines = export.stdout.iter().filter(|byte| **byte == b'\n').count();
        let before = all(&path);
        assert_eq!(lines, before.len());
        assert!(
            before.len() as u64 >= record.frames,
            "{} of {}",
            before.len(),
            record.frames
        );
        // Half a second without an agent is not yet a gap.
        std::thread::sleep(Duration::from_secs(1));
        let agent = Agent::start(&config);
        has_frames(&agent, 3);
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        let frames = all(&path);
        assert!(frames.len() >= before.len() + 3);
        assert_eq!(frames[..before.len()], before);
        for frame in &frames {
            let record = &frame.record;
            let name = container.name();
            assert!(
                record.containers.iter().any(|c| c.name == name),
                "{record:?}"
            );
            assert!(
                frame.length >= Duration::from_millis(900),
                "{:?}",
                frame.length
            );
            // The time measured on each CPU belongs to containers or to a reason.
            let caused: u64 = record.containers.iter().map(|c| c.caused_ns).sum();
            let unattributed: u64 = record.unattributed_ns.values().sum();
            let attributed: u64 = record.cpus.iter().map(|c| c.attributed_ns).sum();
            assert_eq!(caused + unattributed, attributed);
        }
        assert!(frames.iter().any(|f| f.record.diagnosis.is_some()));
        // No agent writes: the files for sharing do not exist, and are not needed.
        assert_eq!(export_as(&path, 4242).status.code(), Some(0));
        let gaps = frames.windows(2).filter(|f| f[0].gap_to(&f[1]).is_some());
        assert_eq!(gaps.count(), 1, "while there was no agent");
    });
}

/// Opens, reads and closes the history with another program's SQLite.
fn look_as_another_client(path: &Path) {
    let script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
                  c.execute('select count(*) from sqlite_master').fetchone()\nc.close()\n";
    let client = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .arg(path)
        .status();
    assert!(client.unwrap().success());
}

/// Promise 65.
#[test]
fn no_other_client_costs_a_frame() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        // In the run that creates the file.
        let agent = Agent::start(&at(&path));
        has_frames(&agent, 3);
        look_as_another_client(&path);
        has_frames(&agent, 8);
        let record = history(&agent);
        assert_eq!((record.frames_dropped, record.error), (0, None));
        assert_eq!(agent.end(Signal::SIGKILL), None);
        let before = all(&path).len() as u64;
        assert!(before >= record.frames, "{before} of {}", record.frames);

        let agent = Agent::start(&at(&path));
        has_frames(&agent, 3);
        std::fs::remove_file(folder.path().join("history-wal")).unwrap();
        let interrupted = |status: &StatusReport| {
            let mut degraded = status.degraded.iter();
            degraded.any(|d| d.name == "history_interrupted" && d.text.contains("history-wal"))
        };
        wait_until("it is reported", LIMIT, || interrupted(&agent.status()));
        has_frames(&agent, 6);
        let record = history(&agent);
        assert_eq!(record.frames_dropped, 0);
        assert!(record.error.is_some_and(|why| why.contains("history-wal")));
        assert_eq!(agent.end(Signal::SIGKILL), None);
        let after = all(&path).len() as u64;
        assert!(
            after >= before + record.frames,
            "{before} and {} are {after}",
            record.frames
        );
    });
}

/// Promise 65.
#[test]
fn the_agent_runs_without_a_writable_history_and_reports_it() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/history");
        let agent = Agent::start(&at(&path));
        wait_until("it says so", LIMIT, || failing(&agent.status()) == 1);
        let status = agent.status();
        let text = &status.degraded[0].text;
        assert!(
            text.contains("missing/history") && text.contains("No such file"),
            "{text}"
        );
        wait_until("frames are counted", LIMIT, || {
            history(&agent).frames_dropped > 0
        });
        std::fs::create_dir(folder.path().join("missing")).unwrap();
        has_frames(&agent, 2);
        assert_eq!(failing(&agent.status()), 0);
        // A reload changes to another file, a second one to none.
        let other = folder.path().join("other");
        write(agent.folder.path(), &at(&other));
        agent.signal(Signal::SIGHUP);
        wait_until("it is kept there", LIMIT, || {
            let record = history(&agent);
            record.path == other.display().to_string() && record.since.is_some()
        });
        write(agent.folder.path(), "history.path = \"off\"\n");
        agent.signal(Signal::SIGHUP);
        wait_until("it is off", LIMIT, || agent.status().history.is_none());
        assert_eq!(failing(&agent.status()), 0);
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        assert!(!all(&path).is_empty() && !all(&other).is_empty());
    });
}

/// Promise 77.
#[test]
fn a_file_that_is_not_a_history_stays_unchanged() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "not yours").unwrap();
        let agent = Agent::start(&at(&path));
        wait_until("it says so", LIMIT, || failing(&agent.status()) == 1);
        let text = agent.status().degraded[0].text.clone();
        assert!(text.contains("is not a history of cofferdam"), "{text}");
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "not yours");
    });
}

/// Promise 65.
#[test]
fn a_full_disk_pauses_the_history_and_not_the_agent() {
    alone(|| {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path();
        // A small disk that only this agent sees; the test reaches it through the agent's root.
        let mount = format!(
            "mount -t tmpfs -o size=1m none {0} && \
         head -c 2m /dev/zero > {0}/filler 2>/dev/null; exec \"$@\"",
            disk.display()
        );
        let before = ["unshare", "-m", "sh", "-c", &mount, "sh"];
        let path = disk.join("history");
        let agent = Agent::with(&at(&path), &before);
        wait_until("it says so", LIMIT, || failing(&agent.status()) == 1);
        let seen = format!("/proc/{}/root{}", agent.status().agent.pid, disk.display());
        std::fs::remove_file(Path::new(&seen).join("filler")).unwrap();
        has_frames(&agent, 2);
        let status = agent.status();
        assert_eq!(failing(&status), 0);
        assert!(status.history.unwrap().frames_dropped > 0);
        assert_eq!(agent.end(Signal::SIGTERM), Some(0));
    });
}
