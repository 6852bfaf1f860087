use super::*;
use crate::data::{Role, Sample, Treatment};
use crate::penalty::data::PenaltyResult;
use crate::penalty::data::PenaltySamples;
use crate::run::error::DataError;
use crate::run::{RunData, RunSamples};

fn about() -> About {
    About {
        kind: Kind::Penalty,
        quick: true,
        victim_cpu: 0,
        peer_cpu: 1,
        seed: 7,
        warnings: vec!["busy".to_owned()],
        is_busy: true,
    }
}

fn sample() -> Sample {
    Sample {
        schema: SCHEMA,
        time: now(),
        cell: "cpu/flood/receiver/veth/3x200B".to_owned(),
        pair: 0,
        attempt: 0,
        position: 1,
        role: Role::Traffic,
        treatment: Treatment::Vanilla,
        elapsed_s: 1.5,
        victim_cpu_s: 0.7,
        checksum: "00ff".to_owned(),
        latency: None,
        softirq_fraction: Some(0.5),
        softirq_source: Some(crate::data::SoftirqSource::ProcStat),
        steal_fraction: None,
        offered: Some(crate::data::Rate {
            packets_per_s: 1e6,
            bytes_per_s: 2e8,
        }),
        received: None,
        received_idle: None,
        offender_caused_fraction: None,
        offender_corrected_fraction: None,
        victim_charged_fraction: None,
    }
}

/// Promise 45.
#[test]
fn what_is_written_is_read_back() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("deep/run");
    let mut dir = RunDir::create(Some(&path), &about()).unwrap();
    // Formatted once: it has the time of day.
    let sample = sample();
    dir.sample(&sample).unwrap();
    dir.result(&RunResult::Penalty(PenaltyResult::default()))
        .unwrap();
    dir.finish(false).unwrap();
    let data = RunData::load(&path).unwrap();
    assert_eq!(&data.manifest, dir.manifest());
    assert_eq!(
        data.samples,
        RunSamples::Penalty(PenaltySamples::from(vec![sample]))
    );
    assert_eq!(
        data.result,
        Some(RunResult::Penalty(PenaltyResult::default()))
    );
    assert!(data.manifest.finished.is_some());
    let leftovers = fs::read_dir(&path).unwrap().flatten();
    assert!(
        leftovers
            .into_iter()
            .all(|e| !e.path().to_string_lossy().ends_with(".tmp"))
    );
}

/// Promise 45.
#[test]
fn an_interrupted_run_keeps_whole_lines_only() {
    let temp = tempfile::tempdir().unwrap();
    let mut dir = RunDir::create(Some(temp.path()), &about()).unwrap();
    dir.sample(&sample()).unwrap();
    let mut torn = append(&temp.path().join("samples.jsonl"), None).unwrap();
    torn.write_all(b"{\"schema\":1,\"ti").unwrap();
    let data = RunData::load(temp.path()).unwrap();
    assert_eq!(data.samples.count(), 1);
    assert_eq!(data.result, None);
}

#[test]
fn refuses_a_directory_with_something_in_it() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("mine"), "x").unwrap();
    let e = RunDir::create(Some(temp.path()), &about())
        .unwrap_err()
        .to_string();
    assert!(e.contains("not empty") && e.contains("--output"), "{e}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
}

#[test]
fn names_an_unwritable_path_and_a_full_disk() {
    let e = RunDir::create(Some(Path::new("/proc/nowhere/run")), &about()).unwrap_err();
    assert!(e.to_string().contains("/proc/nowhere/run"), "{e}");
    // /dev/full answers every write with "no space left on device".
    let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let e = line(&mut full, Path::new("/run/samples.jsonl"), &sample()).unwrap_err();
    let e = e.to_string();
    assert!(
        e.contains("/run/samples.jsonl") && e.contains("free some space"),
        "{e}"
    );
}

/// Promise 45.
#[test]
fn refuses_a_newer_schema_by_name() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RunDir::create(Some(temp.path()), &about()).unwrap();
    let newer = format!("{{\"schema\":{},\"whatever\":1}}\n", SCHEMA + 1);
    fs::write(temp.path().join("samples.jsonl"), &newer).unwrap();
    let refused = RunData::load(dir.path()).unwrap_err();
    assert!(matches!(refused, DataError::NewerSchema { found, .. } if found == SCHEMA + 1));
    fs::write(temp.path().join("samples.jsonl"), "\n").unwrap();
    fs::write(temp.path().join("result.json"), &newer).unwrap();
    assert!(
        RunData::load(dir.path())
            .unwrap_err()
            .to_string()
            .contains("newer cofferdam")
    );
}

/// Promise 76.
#[test]
fn says_where_a_file_is_damaged() {
    let temp = tempfile::tempdir().unwrap();
    let mut dir = RunDir::create(Some(temp.path()), &about()).unwrap();
    dir.sample(&sample()).unwrap();
    let mut file = append(&temp.path().join("samples.jsonl"), None).unwrap();
    file.write_all(b"{\"schema\":1}\n").unwrap();
    let e = RunData::load(temp.path()).unwrap_err().to_string();
    assert!(e.contains("samples.jsonl, line 2"), "{e}");
}

#[test]
fn a_run_without_samples_can_be_discarded() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("run");
    RunDir::create(Some(&path), &about())
        .unwrap()
        .discard_if_empty();
    assert!(!path.exists());
    let mut dir = RunDir::create(Some(&path), &about()).unwrap();
    dir.sample(&sample()).unwrap();
    dir.discard_if_empty();
    assert_eq!(RunData::load(&path).unwrap().samples.count(), 1);
    // A directory that existed before stays, empty as it was.
    let existing = tempfile::tempdir().unwrap();
    RunDir::create(Some(existing.path()), &about())
        .unwrap()
        .discard_if_empty();
    assert_eq!(fs::read_dir(existing.path()).unwrap().count(), 0);
}
