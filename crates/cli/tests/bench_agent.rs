//! Tests of benchmarks that start Cofferdam's agent, from the command line. They need root.

use cofferdam_lab::fixtures::{exclusive, time_limit};
use std::process::Command;
use std::time::Duration;

/// Promise 47.
#[test]
fn bench_agent_measures_a_running_agent_and_leaves_nothing() {
    let _alone = exclusive();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let output = time_limit(Duration::from_secs(120), move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
        command.args(["bench", "agent", "--quick", "--rounds", "1"]);
        command.args(["--containers", "12", "--output"]).arg(&dir);
        (command.output().unwrap(), dir)
    });
    let (output, dir) = output;
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complained}");
    for word in [
        "manages 12 containers",
        "enforces (1,000 rules)",
        "two containers, one CPU",
    ] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    let text = std::fs::read_to_string(dir.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    for row in result["cost"].as_array().unwrap() {
        assert!(row["cpu_pct"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["resident_bytes"].as_u64().unwrap() > 1 << 20, "{row}");
    }
    for row in result["diagnosis"].as_array().unwrap() {
        assert!(row["off"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let programs = row["programs"].as_array().unwrap();
        assert!(!programs.is_empty(), "the programs did not run: {row}");
    }
    assert!(dir.join("report.html").exists());
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// The benchmark starts and ends the agent for its sample. Its own accounting continues after that,
/// and no change stays in force.
/// Promise 42.
#[test]
fn bench_penalty_measures_a_flood_with_the_agent() {
    let _alone = exclusive();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("run");
    let cell = "cpu/flood/receiver/veth/3x200B";
    let (output, dir) = time_limit(Duration::from_secs(120), move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cofferdam"));
        command.args(["bench", "penalty", "--cell", cell, "--with", "agent"]);
        command.args(["--pairs", "2", "--victim-time", "300ms", "--output"]);
        (command.arg(&dir).output().unwrap(), dir)
    });
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complained}");
    let text = std::fs::read_to_string(dir.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["failed"], serde_json::json!({}));
    let treated = &result["cells"][0]["treated"][0];
    assert_eq!(treated["treatment"], "agent");
    assert!(treated["penalty"]["median"].as_f64().unwrap() > 0.0);
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let ledgers = read("ledger.jsonl").lines().count();
    assert_eq!(ledgers, 4, "of all samples but the agent's");
    assert!(read("grid.md").contains(&format!("`{cell}` by the agent")));
    let journal = std::fs::read_to_string("/run/cofferdam/journal").unwrap_or_default();
    assert_eq!(journal.trim(), "");
    cofferdam_lab::fixtures::assert_nothing_left();
}
