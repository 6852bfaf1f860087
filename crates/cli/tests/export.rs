//! Tests of `cofferdam export`: every format has all records, and files are never incomplete.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use cofferdam_history::{Frame, Limits, Store};
use cofferdam_records::accounting::AccountingRecord;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

const BINARY: &str = env!("CARGO_BIN_EXE_cofferdam");
const HOSTILE: &str = "evil\u{1b}[31m\"name\",\nline";

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

/// Record of one second with two containers and a cgroup of the host.
fn record(second: u64) -> AccountingRecord {
    let container = |id: u64, name: &str, runtime: &str| {
        json!({
            "name": name, "cgroup_id": id, "cgroup_path": format!("/c/{id}"), "id": null,
            "runtime": runtime, "pod": null, "netns": null, "host_network": false,
            "caused_rx_ns": second, "caused_tx_ns": 1, "caused_hardirq_ns": 0,
            "caused_ns": second + 1, "rx_packets": 0, "rx_bytes": 0, "tx_packets": 0,
            "tx_bytes": 0, "charged_network_ns": 0, "charged_other_ns": 0, "owed_ns": second + 1,
            "cpu_usage_ns": 5, "corrected_cpu_ns": second + 6, "ns_per_packet": null,
            "caused_by_cpu_ns": [second + 1], "charged_by_cpu_ns": [0], "received_from": {},
        })
    };
    serde_json::from_value(json!({
        "schema": "cofferdam.accounting/2", "time": cofferdam_records::time(at(second)),
        "interval_s": 1.0,
        "containers": [
            container(1, "web", "docker"), container(2, HOSTILE, "podman"),
            container(3, "/ssh.service", "host"),
        ],
        "unattributed_ns": {"host_traffic": 7},
        "conservation": {"measured_ns": 9, "attributed_ns": 9, "worst_cpu_error_pct": 0.0},
        "health": {
            "containers_without_slot": 0, "events_lost": 0, "containers_gone": 0, "cpu_hotplugs": 0,
            "segments_rejected": 0, "markers_missed": 0, "softirqs_unseen": 0,
            "cpu_usage_unreadable": 0,
        },
        "cpus": [{
            "cpu": 0, "softirq_ns": 9, "network_softirq_ns": 9, "hardirq_ns": 0,
            "napi_thread_ns": 0, "drain_ns": 0, "measured_ns": 9, "attributed_ns": 9,
            "charged_ns": 9, "charged_nobody_ns": 0,
        }],
        "diagnosis": null,
    }))
    .unwrap()
}

struct RecordedHistory {
    folder: tempfile::TempDir,
}

impl RecordedHistory {
    fn new() -> RecordedHistory {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("history"), Limits::default()).unwrap();
        for second in 1..=100 {
            store
                .append(&Frame::new(record(second), Vec::new()).unwrap())
                .unwrap();
        }
        RecordedHistory { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Exports seconds 11 to 20 of the history.
    fn export(&self, more: &[&str]) -> Output {
        let history = self.path("history");
        let times = [
            "--from",
            "2027-01-15T08:00:10Z",
            "--to",
            "2027-01-15T08:00:20Z",
        ];
        export(&history, &[&times, more].concat())
    }

    fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = files
            .map(|f| f.unwrap().file_name().into_string().unwrap())
            .filter(|n| !n.starts_with("history"))
            .collect();
        names.sort();
        names
    }
}

fn export(history: &Path, more: &[&str]) -> Output {
    Command::new(BINARY)
        .args(["export", "--history", history.to_str().unwrap()])
        .args(more)
        .output()
        .unwrap()
}

fn refused(output: &Output, code: i32) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Promise 16.
#[test]
fn json_lines_are_those_of_a_recording() {
    let history = RecordedHistory::new();
    let text = done(&history.export(&["--all"]));
    let found: Vec<AccountingRecord> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let mut expected: Vec<_> = (11..=20).map(record).collect();
    for record in &mut expected {
        record.containers.sort_by_key(|c| (-c.owed_ns, c.cgroup_id));
    }
    assert_eq!(found, expected);
    let text = done(&history.export(&["--container", "web", "--resolution", "10s"]));
    let [line] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    let sum: AccountingRecord = serde_json::from_str(line).unwrap();
    let [web] = &sum.containers[..] else {
        panic!("{text}");
    };
    assert_eq!(sum.interval_s, 10.0);
    assert_eq!(web.caused_rx_ns, (11..=20).sum::<u64>());
}

/// Promise 16.
#[test]
fn csv_has_a_row_for_each_container_and_interval() {
    let history = RecordedHistory::new();
    let out = history.path("night.csv");
    let output = history.export(&["--format", "csv", "--output", out.to_str().unwrap()]);
    assert_eq!(done(&output), "");
    let mut rows = csv::Reader::from_path(&out).unwrap();
    let heading = rows.headers().unwrap().clone();
    // The columns are those of Parquet, from one declaration.
    let columns: Vec<_> = cofferdam_columnar::COLUMNS.iter().map(|c| c.name).collect();
    assert_eq!(heading.iter().collect::<Vec<_>>(), columns);
    let column = |name: &str| heading.iter().position(|h| h == name).unwrap();
    let (name, caused) = (column("name"), column("caused_ns"));
    let rows: Vec<_> = rows.records().map(|r| r.unwrap()).collect();
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().any(|r| r[name] == *HOSTILE));
    let sum: u64 = rows.iter().map(|r| r[caused].parse::<u64>().unwrap()).sum();
    assert_eq!(sum, (11..=20).map(|s| 2 * (s + 1)).sum::<u64>());
    assert_eq!(history.files(), ["night.csv"]);
}

/// Promise 16.
#[test]
fn parquet_has_the_same_records() {
    let history = RecordedHistory::new();
    let out = history.path("night.parquet");
    done(&history.export(&["--format", "parquet", "--output", out.to_str().unwrap()]));
    let bytes = std::fs::read(&out).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let reader = cofferdam_columnar::Reader::open(&out).unwrap();
    assert_eq!(reader.records(), Some(10));
    let refused_text = refused(&history.export(&["--format", "parquet"]), 2);
    assert!(refused_text.contains("give --output"), "{refused_text}");
}

/// Promise 16.
#[test]
fn force_replaces_a_file_only_by_a_complete_one() {
    let recorded = RecordedHistory::new();
    let out = recorded.path("out");
    std::fs::write(&out, "precious").unwrap();
    let out_text = out.to_str().unwrap();
    let text = refused(&recorded.export(&["--output", out_text]), 1);
    assert!(
        text.contains("exists: give another --output, or --force"),
        "{text}"
    );
    // Nothing was recorded then: the file stays.
    let history = recorded.path("history");
    let none = [
        "--from",
        "2020-01-01",
        "--to",
        "2020-01-02",
        "--output",
        out_text,
        "--force",
    ];
    let text = refused(&export(&history, &none), 1);
    assert!(
        text.contains("nothing was recorded then") && text.contains("2027-01-15T08:00:00.000Z"),
        "{text}"
    );
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "precious");
    done(&recorded.export(&["--output", out_text, "--force"]));
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 10);
    let text = refused(&recorded.export(&["--output", "/dev/full", "--force"]), 1);
    assert!(text.contains("is not a regular file"), "{text}");
    let text = refused(&recorded.export(&["--output", "/nowhere/out"]), 1);
    assert!(text.contains("cannot write to /nowhere/out"), "{text}");
    assert_eq!(recorded.files(), ["out"]);
}

/// Promise 16.
#[test]
fn a_refused_export_is_one_line() {
    let recorded = RecordedHistory::new();
    let history = recorded.path("history");
    for (args, code, words) in [
        (vec!["--from", "soon"], 2, "yesterday 03:00"),
        (
            vec!["--from", "1h ago", "--to", "2h ago"],
            2,
            "is not before",
        ),
        (
            vec!["--from", "2020-01-01", "--container", "pid:1"],
            2,
            "is not in the history",
        ),
        (
            vec![
                "--from",
                "2027-01-15",
                "--to",
                "2028-01-01",
                "--container",
                "nobody",
            ],
            1,
            "no container 'nobody'",
        ),
        (
            vec!["--from", "2020-01-01", "--format", "xml"],
            2,
            "parquet",
        ),
    ] {
        let text = refused(&export(&history, &args), code);
        assert!(text.contains(words), "{args:?}: {text}");
    }
    let text = refused(&export(&recorded.path("none"), &["--from", "1h ago"]), 1);
    assert!(text.contains("give --history"), "{text}");
    let notes = recorded.path("notes");
    std::fs::write(&notes, "mine").unwrap();
    let text = refused(&export(&notes, &["--from", "1h ago"]), 1);
    assert!(text.contains("is not a history of cofferdam"), "{text}");
}

/// Promise 65.
#[test]
fn damaged_frames_are_named_and_the_rest_is_exported() {
    let recorded = RecordedHistory::new();
    let path = recorded.path("history");
    let mut bytes = std::fs::read(&path).unwrap();
    // A byte in the middle of the pages of frames.
    let place = bytes.len() / 2;
    bytes[place] ^= 0x55;
    std::fs::write(&path, &bytes).unwrap();
    let output = export(
        &path,
        &[
            "--from",
            "2027-01-15T08:00:00Z",
            "--to",
            "2027-01-15T09:00:00Z",
        ],
    );
    let lines = done(&output).lines().count();
    assert!((50..=100).contains(&lines), "{lines}");
}
