//! Tests of reports of synthetic fleets, from files to the page: sums, bad input, memory.
#![allow(clippy::unwrap_used)]

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use cofferdam_columnar::Writer;
use cofferdam_fleet::error::FleetError;
use cofferdam_fleet::page::CONSERVED_WITHIN;
use cofferdam_fleet::report::{Report, Request, make};
use cofferdam_fleet::synthetic::Host;
use cofferdam_fleet::{stages, store};
use cofferdam_history::{Frame, Limits, Store};
use cofferdam_records::accounting::AccountingRecord;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::slice::from_ref;

const MINUTE: f64 = 60.0;

struct Fleet {
    dir: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Fleet {
        Fleet {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a ledger as Parquet: records `from` to `to` of `host`.
    fn columns(&self, file: &str, host: &str, from: u64, to: u64) -> PathBuf {
        let (path, synthetic) = (self.at(file), Host::new(host, 4, 20));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut writer = Writer::create(&path, host).unwrap();
        for number in from..to {
            writer.write(&synthetic.record(number, MINUTE)).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    /// Writes records as lines.
    fn lines(&self, file: &str, records: impl IntoIterator<Item = AccountingRecord>) -> PathBuf {
        let path = self.at(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, &record).unwrap();
            text.push(b'\n');
        }
        fs::write(&path, text).unwrap();
        path
    }

    fn request(&self, ledgers: &[PathBuf]) -> Request {
        Request {
            ledgers: ledgers.to_vec(),
            host: None,
            output: self.at("report"),
            force: false,
            memory_bytes: 128 << 20,
            threads: 2,
            temporary: self.dir.path().to_owned(),
        }
    }

    fn make(&self, ledgers: &[PathBuf]) -> Result<Report, FleetError> {
        make(&self.request(ledgers), &|_| ())
    }

    fn page(&self) -> String {
        fs::read_to_string(self.at("report/fleet.html")).unwrap()
    }

    /// Checks that no temporary file stays.
    fn assert_clean(&self) {
        for folder in [self.dir.path(), &self.at("report")] {
            let Ok(entries) = fs::read_dir(folder) else {
                continue;
            };
            for entry in entries {
                let name = entry.unwrap().file_name().to_string_lossy().into_owned();
                assert!(!name.contains("fleet-"), "{name} stays");
            }
        }
    }
}

fn records(host: &str, numbers: std::ops::Range<u64>) -> Vec<AccountingRecord> {
    let host = Host::new(host, 4, 20);
    numbers.map(|n| host.record(n, MINUTE)).collect()
}

fn failure(report: Result<Report, FleetError>) -> String {
    report.expect_err("refused").to_string()
}

fn column(path: &Path, schema: &arrow_schema::SchemaRef, name: &str) -> f64 {
    let source = store::read(path, schema);
    let batches = (source.open)().map(Result::unwrap);
    let sum = |batch: arrow_array::RecordBatch| -> f64 {
        batch[name]
            .as_primitive::<Float64Type>()
            .values()
            .iter()
            .sum()
    };
    batches.map(sum).sum()
}

/// Promise 17.
#[test]
fn sums_conserve_and_are_those_of_the_records() {
    let fleet = Fleet::new();
    let mut ledgers = vec![fleet.lines("c.jsonl", records("c", 0..90))];
    ledgers.push(fleet.columns("hosts/a.parquet", "a", 0, 90));
    ledgers.push(fleet.columns("hosts/b-1.parquet", "b", 0, 45));
    ledgers.push(fleet.columns("hosts/b-2.parquet", "b", 45, 90));
    let report = fleet.make(&ledgers).unwrap();
    let all: Vec<AccountingRecord> = ["a", "b", "c"]
        .iter()
        .flat_map(|h| records(h, 0..90))
        .collect();
    let sum = |of: fn(&cofferdam_records::accounting::ContainerRecord) -> f64| -> f64 {
        all.iter().flat_map(|r| &r.containers).map(of).sum::<f64>() / 1e9
    };
    let figures = &report.figures;
    let near = |a: f64, b: f64| {
        assert!(
            (a - b).abs() <= b.abs() * CONSERVED_WITHIN + 1e-9,
            "{a} {b}"
        )
    };
    near(figures.all.billed_s, sum(|c| c.cpu_usage_ns as f64));
    near(figures.all.corrected_s, sum(|c| c.corrected_cpu_ns as f64));
    near(figures.all.caused_s, sum(|c| c.caused_ns as f64));
    assert_eq!(figures.all.containers, 60.0);
    // Corrected exceeds billed by the time that no container was billed for, less the time that no
    // container caused.
    assert!(figures.conservation_error_s() <= figures.all.billed_s * CONSERVED_WITHIN);
    assert!(figures.flows.to_nobody_s > 0.0 && figures.flows.harm_s > 0.0);
    // The lists agree with the files, which are complete.
    let file = |name| fleet.at("report").join(name);
    let hosts = column(&file(stages::HOSTS), &stages::hosts_schema(), "billed_s");
    near(hosts, figures.all.billed_s);
    let suffered = column(
        &file(stages::CONTAINERS),
        &stages::containers_schema(),
        "suffered_s",
    );
    near(suffered, figures.flows.harm_s);
    let harm = column(&file(stages::HOURS), &stages::hours_schema(), "harm_s");
    near(harm, figures.flows.harm_s);
    let covered = column(&file(stages::HOURS), &stages::hours_schema(), "covered_s");
    near(covered, 3.0 * 90.0 * MINUTE);
    assert!(fleet.page().contains("The corrected bill"));
    fleet.assert_clean();
}

/// Promise 77.
#[test]
fn a_copy_counts_once_and_an_overlap_is_refused() {
    let fleet = Fleet::new();
    let once = fleet.columns("a.parquet", "a", 0, 10);
    let copy = fleet.at("copy.parquet");
    fs::copy(&once, &copy).unwrap();
    let lines = fleet.lines("a.jsonl", records("a", 0..10));
    let report = fleet.make(&[once.clone(), copy, lines]).unwrap();
    assert_eq!(report.census.copies.len(), 2);
    assert_eq!(report.census.hosts["a"].records, 10);
    assert!(fleet.page().contains("counted once"));
    let later = fleet.columns("later.parquet", "a", 8, 20);
    let refused = failure(make(
        &Request {
            force: true,
            ..fleet.request(&[once, later])
        },
        &|_| (),
    ));
    assert!(
        refused.contains("a.parquet") && refused.contains("later.parquet"),
        "{refused}"
    );
    assert!(refused.contains("counted twice"), "{refused}");
    fleet.assert_clean();
}

/// Promise 77.
#[test]
fn a_repeated_record_is_refused() {
    let fleet = Fleet::new();
    let twice = fleet.lines(
        "a.jsonl",
        records("a", 0..5).into_iter().chain(records("a", 2..3)),
    );
    assert!(failure(fleet.make(&[twice])).contains("twice"));
    // Equal times with other counts: the clock was set back by three minutes.
    let mut all = records("b", 0..5);
    for mut record in records("b", 5..8) {
        let earlier = records("b", 0..8)[all.len() - 3].time.clone();
        record.time = earlier;
        record.cpus[0].measured_ns += 1;
        all.push(record);
    }
    let stepped = fleet.lines("b.jsonl", all);
    let report = fleet.make(&[stepped]).unwrap();
    assert_eq!(report.census.hosts["b"].records, 8);
    assert!(fleet.page().contains("Clocks were set back"));
}

/// Promise 77.
#[test]
fn a_truncated_line_is_skipped_and_a_broken_one_refused() {
    let fleet = Fleet::new();
    let path = fleet.lines("a.jsonl", records("a", 0..3));
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 20]).unwrap();
    let report = fleet.make(from_ref(&path)).unwrap();
    assert_eq!(report.census.hosts["a"].records, 2);
    assert_eq!(report.cut_off, from_ref(&path));
    assert!(fleet.page().contains("cut off"));
    let mut broken = text.clone();
    broken[2] = b'}';
    fs::write(&path, broken).unwrap();
    let refused = failure(make(
        &Request {
            force: true,
            ..fleet.request(&[path])
        },
        &|_| (),
    ));
    assert!(refused.contains("a.jsonl, line 1"), "{refused}");
    fleet.assert_clean();
}

/// Promise 17.
#[test]
fn the_history_of_an_agent_is_a_ledger() {
    let fleet = Fleet::new();
    let path = fleet.at("node-1/history");
    fs::create_dir(fleet.at("node-1")).unwrap();
    let mut store = Store::open(&path, Limits::default()).unwrap();
    for record in records("a", 0..5) {
        store
            .append(&Frame::new(record, Vec::new()).unwrap())
            .unwrap();
    }
    drop(store);
    let report = fleet.make(&[fleet.at("node-1")]).unwrap();
    let all: f64 = records("a", 0..5)
        .iter()
        .flat_map(|r| &r.containers)
        .map(|c| c.cpu_usage_ns as f64 / 1e9)
        .sum();
    assert!((report.figures.all.billed_s - all).abs() < 1e-6 * all);
    assert!(report.census.hosts.contains_key("node-1"));
    fs::write(
        fleet.at("other"),
        [b"SQLite format 3\0".as_slice(), &[0; 4096]].concat(),
    )
    .unwrap();
    let other = Request {
        force: true,
        ..fleet.request(&[fleet.at("other")])
    };
    let refused = failure(make(&other, &|_| ()));
    assert!(refused.contains("other"), "{refused}");
}

/// Promise 77.
#[test]
fn a_file_that_is_no_ledger_is_refused_by_name() {
    let fleet = Fleet::new();
    let whole = fs::read(fleet.columns("a.parquet", "a", 0, 3)).unwrap();
    let with = |name: &str, bytes: &[u8]| {
        let path = fleet.at(name);
        fs::write(&path, bytes).unwrap();
        failure(fleet.make(&[path]))
    };
    assert!(with("empty.jsonl", b"").contains("empty.jsonl holds no record"));
    assert!(with("cut.parquet", &whole[..whole.len() / 2]).contains("truncated"));
    assert!(with("note.txt", b"hello").contains("no ledger"));
    assert!(with("blank.jsonl", b"{").contains("holds no record"));
    assert!(failure(fleet.make(&[fleet.at("none")])).contains("cannot read"));
    // The report's own results are Parquet of another schema.
    fleet.make(&[fleet.at("a.parquet")]).unwrap();
    let own = fleet.at("report").join(stages::TENANTS);
    let refused = failure(make(
        &Request {
            force: true,
            ..fleet.request(&[own])
        },
        &|_| (),
    ));
    assert!(refused.contains("'cofferdam.fleet/1'"), "{refused}");
    fleet.assert_clean();
}

/// Promise 77.
#[test]
fn a_ledger_that_cannot_be_opened_is_named() {
    // Tests run as root, who may read everything. A link to itself cannot be opened by any user.
    let fleet = Fleet::new();
    let loops = fleet.at("loop.jsonl");
    std::os::unix::fs::symlink("loop.jsonl", &loops).unwrap();
    let refused = failure(fleet.make(&[loops]));
    assert!(
        refused.contains("loop.jsonl") && refused.contains("cannot read"),
        "{refused}"
    );
}

/// Promise 77.
#[test]
fn a_report_that_exists_is_kept_unless_forced() {
    let fleet = Fleet::new();
    let ledger = fleet.columns("a.parquet", "a", 0, 3);
    fleet.make(from_ref(&ledger)).unwrap();
    let before = fleet.page();
    let refused = failure(fleet.make(from_ref(&ledger)));
    assert!(refused.contains("--force"), "{refused}");
    assert_eq!(fleet.page(), before);
    make(
        &Request {
            force: true,
            ..fleet.request(from_ref(&ledger))
        },
        &|_| (),
    )
    .unwrap();
    // Equal data give equal bytes.
    assert_eq!(fleet.page(), before);
    let file = fleet.at("file");
    fs::write(&file, "mine").unwrap();
    let refused = failure(make(
        &Request {
            output: file,
            ..fleet.request(&[ledger])
        },
        &|_| (),
    ));
    assert!(refused.contains("cannot write"), "{refused}");
}

/// Promise 74.
#[test]
fn foreign_names_are_escaped_in_the_page() {
    let fleet = Fleet::new();
    let host = "<script>alert(1)</script>\u{1b}[31m&\"";
    let mut all = records("a", 0..3);
    for record in &mut all {
        for container in &mut record.containers {
            container.name = format!("<img src=x onerror=alert({})>\u{7}", container.cgroup_id);
            container.pod = None;
        }
    }
    let path = fleet.at("x.parquet");
    let mut writer = Writer::create(&path, host).unwrap();
    all.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap();
    fleet.make(&[path]).unwrap();
    let page = fleet.page();
    assert!(page.contains("&lt;script&gt;") && page.contains("&lt;img src=x"));
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
}

/// Promise 17.
#[test]
fn ten_thousand_ledgers_need_few_descriptors() {
    let fleet = Fleet::new();
    fs::create_dir(fleet.at("many")).unwrap();
    let record = records("a", 0..1).remove(0);
    let mut line = serde_json::to_vec(&AccountingRecord {
        containers: record.containers[..2].to_vec(),
        ..record
    })
    .unwrap();
    line.push(b'\n');
    const LEDGERS: usize = 10_000;
    const DESCRIPTORS: u64 = 64;
    for n in 0..LEDGERS {
        let mut file = fs::File::create(fleet.at(&format!("many/host-{n}.jsonl"))).unwrap();
        file.write_all(&line).unwrap();
    }
    // Run in a process of its own, with a low limit on descriptors.
    let script = format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"");
    let out = std::process::Command::new("sh")
        .args([
            "-c",
            &script,
            env!("CARGO_BIN_EXE_cofferdam-fleet"),
            "report",
            "--memory",
            "128MiB",
        ])
        .args(["--output".as_ref(), fleet.at("report").as_os_str()])
        .arg(fleet.at("many"))
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(String::from_utf8_lossy(&out.stderr).contains("10000 hosts"));
}

#[test]
fn one_host_cannot_be_named_for_ledgers_of_several() {
    let fleet = Fleet::new();
    let (a, b) = (
        fleet.columns("a.parquet", "a", 0, 3),
        fleet.columns("b.parquet", "b", 3, 6),
    );
    let lines = fleet.lines("whatever.jsonl", records("a", 6..9));
    let with = |host: &str, ledgers: &[PathBuf]| {
        make(
            &Request {
                host: Some(host.to_owned()),
                ..fleet.request(ledgers)
            },
            &|_| (),
        )
    };
    let refused = failure(with("c", &[a.clone(), b]));
    assert!(
        refused.contains("'a'") && refused.contains("'b'"),
        "{refused}"
    );
    let report = with("c", &[a, lines]).unwrap();
    assert_eq!(report.census.hosts.keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(report.census.hosts["c"].records, 6);
}

/// Promise 17.
#[test]
fn hosts_that_lack_hours_are_named() {
    let fleet = Fleet::new();
    let a = fleet.columns("a.parquet", "a", 0, 5 * 60);
    let b = fleet.lines(
        "b.jsonl",
        records("b", 0..60)
            .into_iter()
            .chain(records("b", 180..300)),
    );
    let report = fleet.make(&[a, b]).unwrap();
    let missing = &report.figures.missing;
    assert_eq!(missing.len(), 1);
    assert_eq!(
        (missing[0].host.as_str(), missing[0].gap.missing_hours),
        ("b", 2)
    );
    assert!(fleet.page().contains("1 host lacks hours"));
}
