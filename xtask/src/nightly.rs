//! Checks that a schedule runs, since `.ci/run` does not, and the table of their last results.
//!
//! A lane is a target of the Makefile. `nightly LANE` runs one and writes its row below
//! `target/nightly`; `nightly --record` takes the rows from there into docs/data/nightly.csv, which
//! a page of the book shows. A workflow does both every night and commits the table.

use crate::{figures, run, tree};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

/// Targets of the Makefile that a schedule runs, with their arguments.
const LANES: [(&str, &[&str]); 7] = [
    // Five minutes for each target.
    ("fuzz", &["SECONDS=300"]),
    ("kernels", &[]),
    ("test-kubernetes", &[]),
    ("test-package", &[]),
    ("reproducible", &[]),
    ("crates", &[]),
    ("image", &[]),
];

/// Targets that `.ci/run` runs for every change.
const EVERY_CHANGE: [&str; 2] = ["lint", "test"];

/// Targets that check nothing of their own; `reproducible` and `test-package` make the packages.
const OTHER: [&str; 10] = [
    "help",
    "demo",
    "bench-spark",
    "leftovers",
    "install",
    "uninstall",
    "deb",
    "tarball",
    "nightly",
    "nightly-record",
];

/// Table of the last results.
const TABLE: &str = "docs/data/nightly.csv";

/// Folder of the rows that a run writes.
const ROWS: &str = "target/nightly";

const WORKFLOWS: &str = ".github/workflows";

/// First lines of the table: the keys of provenance, then the columns.
const HEAD: &str = "# commit: of each row\n# machine: of the workflow; its kernel in each row\n\
    # date: of each row\n# command: make LANE\n# runs: 1\n# interval: none\n\
    lane,result,date,minutes,commit,kernel\n";

/// Result of a lane that no schedule has run.
const NOT_RUN: &str = "not run";

/// Runs `nightly LANE…`, or `nightly --record`.
pub fn nightly(arguments: &[String]) -> Result<()> {
    match arguments {
        [flag] if flag == "--record" => record(),
        [] => bail!(
            "usage: cargo xtask nightly --record | LANE…; lanes: {}",
            names().join(", ")
        ),
        lanes => {
            let mut failed = Vec::new();
            for lane in lanes {
                if !run_lane(lane)? {
                    failed.push(lane.as_str());
                }
            }
            ensure!(failed.is_empty(), "{} failed", failed.join(", "));
            Ok(())
        }
    }
}

fn names() -> Vec<&'static str> {
    LANES.iter().map(|(name, _)| *name).collect()
}

/// Runs one lane and writes its row. Returns whether it passed.
fn run_lane(lane: &str) -> Result<bool> {
    let found = LANES.iter().find(|(name, _)| *name == lane);
    let (name, arguments) = found.with_context(|| {
        let lanes = names().join(", ");
        format!("there is no lane {lane}; there are: {lanes}")
    })?;
    let mut make = Command::new("make");
    make.arg(name).args(*arguments).current_dir(tree::root());
    let (begin, start) = (SystemTime::now(), Instant::now());
    let has_passed = run::check(make).inspect_err(|e| eprintln!("{e:#}")).is_ok();
    let minutes = start.elapsed().as_secs().div_ceil(60);
    let date = humantime::format_rfc3339_seconds(begin).to_string();
    let date = date.get(..10).unwrap_or_default();
    let result = if has_passed { "passed" } else { "failed" };
    let (commit, kernel) = (commit()?, kernel()?);
    let row = format!("{name},{result},{date},{minutes},{commit},{kernel}\n");
    let folder = tree::root().join(ROWS);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("{name}.csv")), row)?;
    Ok(has_passed)
}

fn commit() -> Result<String> {
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(tree::root())
        .args(["rev-parse", "--short=8", "HEAD"]);
    let output = git.output().context("cannot run git")?;
    ensure!(output.status.success(), "git rev-parse failed");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn kernel() -> Result<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(release.trim().replace(',', ""))
}

/// Takes the rows of [`ROWS`] into the table, and renders the page.
fn record() -> Result<()> {
    let mut rows = Vec::new();
    let folder = tree::root().join(ROWS);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("{ROWS}: no lane was run"))?;
    for entry in entries {
        rows.push(std::fs::read_to_string(entry?.path())?);
    }
    let path = tree::root().join(TABLE);
    let table = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, merged(&table, &rows)?)?;
    figures::figures(&[])
}

/// `table` with each of `rows` in place of the one of its lane, all lanes in order.
fn merged(table: &str, rows: &[String]) -> Result<String> {
    let mut by_lane: BTreeMap<&str, &str> = BTreeMap::new();
    for row in table.lines().chain(rows.iter().map(|row| row.trim_end())) {
        let Some((lane, _)) = row.split_once(',') else {
            continue;
        };
        if names().contains(&lane) {
            let columns = row.matches(',').count() + 1;
            ensure!(
                columns == 6 && !row.contains('\n'),
                "\"{row}\" is no row of a lane"
            );
            by_lane.insert(lane, row);
        }
    }
    let mut text = HEAD.to_owned();
    for lane in names() {
        match by_lane.get(lane) {
            Some(row) => text.push_str(row),
            None => text.push_str(&format!("{lane},{NOT_RUN},,,,")),
        }
        text.push('\n');
    }
    Ok(text)
}

/// Fails for a target that neither a change nor a schedule runs, for a workflow that calls what the
/// Makefile does not have, and for a table without a lane.
pub fn check() -> Result<()> {
    let makefile = tree::read(Path::new("Makefile"))?;
    let ci = tree::read(Path::new(".ci/run"))?;
    let mut workflows = String::new();
    for file in workflow_files()? {
        workflows.push_str(&tree::read(&file)?);
    }
    let mut faults = faults(&makefile, &ci, &workflows);
    let table = tree::read(Path::new(TABLE))?;
    if merged(&table, &[])? != table {
        faults.push(format!("{TABLE} has not the rows of all lanes in order"));
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(())
}

fn workflow_files() -> Result<Vec<PathBuf>> {
    let files = tree::files(&[".yml"])?.into_iter();
    Ok(files.filter(|file| file.starts_with(WORKFLOWS)).collect())
}

fn faults(makefile: &str, ci: &str, workflows: &str) -> Vec<String> {
    let phony = makefile
        .lines()
        .find_map(|line| line.strip_prefix(".PHONY:"));
    let targets: BTreeSet<&str> = phony.unwrap_or_default().split_whitespace().collect();
    let mut faults = Vec::new();
    for target in &targets {
        let lists = [&EVERY_CHANGE[..], &names(), &OTHER[..]];
        if !lists.iter().any(|list| list.contains(target)) {
            faults.push(format!(
                "make {target} is in no list of xtask/src/nightly.rs"
            ));
        }
    }
    for target in EVERY_CHANGE {
        if !called(ci).contains(target) {
            faults.push(format!(".ci/run does not call make {target}"));
        }
        if !called(workflows).contains(target) {
            faults.push(format!("no workflow calls make {target}"));
        }
    }
    for lane in names() {
        if !workflows.contains(&format!("- {lane}\n")) {
            faults.push(format!("no workflow runs the lane {lane}"));
        }
    }
    let strange = called(workflows)
        .into_iter()
        .filter(|name| !targets.contains(name));
    faults.extend(strange.map(|name| format!("a workflow calls make {name}, which is no target")));
    faults
}

/// Targets that follow the word `make`.
fn called(text: &str) -> BTreeSet<&str> {
    let lines = text
        .lines()
        .map(|line| line.trim_start().trim_start_matches("- "));
    let commands = lines.map(|line| line.strip_prefix("run: ").unwrap_or(line));
    commands
        .filter_map(|command| command.strip_prefix("make ")?.split_whitespace().next())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: &str = ".PHONY: help lint test fuzz\n";
    const CI: &str = "set -e\nmake lint\nmake test\n";

    fn workflows() -> String {
        let lanes: String = names().iter().map(|lane| format!("  - {lane}\n")).collect();
        format!("steps:\n  - run: make lint\n  - run: make test\n{lanes}")
    }

    /// Promise 80.
    #[test]
    fn every_target_is_run_by_a_change_or_a_schedule() {
        assert_eq!(faults(MAKEFILE, CI, &workflows()), [""; 0]);
        for (makefile, ci, workflows, words) in [
            (
                ".PHONY: lint test prove\n",
                CI,
                workflows(),
                "make prove is in no list",
            ),
            (
                MAKEFILE,
                "make lint\n",
                workflows(),
                ".ci/run does not call make test",
            ),
            (
                MAKEFILE,
                CI,
                workflows().replace("make test", "cargo test"),
                "no workflow calls",
            ),
            (
                MAKEFILE,
                CI,
                workflows().replace("- fuzz\n", ""),
                "runs the lane fuzz",
            ),
            (
                MAKEFILE,
                CI,
                workflows() + "- run: make it\n",
                "calls make it, which is no target",
            ),
        ] {
            let found = faults(makefile, ci, &workflows);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
    }

    /// Promise 80.
    #[test]
    fn a_result_replaces_the_one_before() {
        let empty = merged("", &[]).unwrap();
        assert_eq!(empty.matches(NOT_RUN).count(), LANES.len());
        let row = "kernels,passed,2026-11-30,40,abcdef12,6.1.0\n".to_owned();
        let once = merged(&empty, std::slice::from_ref(&row)).unwrap();
        assert_eq!(once.matches(NOT_RUN).count(), LANES.len() - 1);
        assert!(once.contains(&row));
        let later = row.replace("passed", "failed");
        let twice = merged(&once, std::slice::from_ref(&later)).unwrap();
        assert!(twice.contains(&later) && !twice.contains(&row));
        assert_eq!(merged(&twice, &[]).unwrap(), twice);
        assert!(merged("", &["fuzz,passed\n".to_owned()]).is_err());
        assert_eq!(
            merged("", &["strange,passed,,,,\n".to_owned()]).unwrap(),
            empty
        );
    }

    /// Promise 80.
    #[test]
    fn the_lanes_of_this_tree_are_scheduled() {
        check().unwrap();
    }
}
