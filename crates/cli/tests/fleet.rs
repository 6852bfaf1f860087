//! Tests of `cofferdam report fleet`: it runs `cofferdam-fleet`, or names the package to install.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Runs `report fleet ARGUMENTS` of a program that is installed without `cofferdam-fleet`, or with
/// a stand-in for it.
fn run(arguments: &[&str], stand_in: Option<&str>) -> Output {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dir.path().join("cofferdam");
    // A hard link: the program takes the folder of the link for its own.
    fs::hard_link(env!("CARGO_BIN_EXE_cofferdam"), &program).unwrap();
    if let Some(script) = stand_in {
        let fleet = dir.path().join("cofferdam-fleet");
        fs::write(&fleet, script).unwrap();
        fs::set_permissions(&fleet, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Command::new(program)
        .args(["report", "fleet"])
        .args(arguments)
        .output()
        .unwrap()
}

/// Promise 17.
#[test]
fn without_cofferdam_fleet_the_package_is_named() {
    let out = run(&["a.jsonl"], None);
    let printed = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{printed}");
    assert!(
        printed.contains("install the package cofferdam-fleet"),
        "{printed}"
    );
}

/// Promise 17.
#[test]
fn cofferdam_fleet_gets_the_options_and_gives_the_exit_code() {
    let out = run(
        &["--memory", "256MiB", "--host", "n 1", "a b.jsonl"],
        Some("#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n"),
    );
    let printed = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(7), "{printed}");
    assert!(printed.starts_with("report|"), "{printed}");
    assert!(
        printed.contains("--memory|268435456B|") && printed.contains("--host|n 1|"),
        "{printed}"
    );
    assert!(printed.ends_with("--|a b.jsonl|"), "{printed}");
}

/// Promise 17.
#[test]
fn the_options_are_checked_before_cofferdam_fleet_runs() {
    assert_eq!(run(&[], None).status.code(), Some(2));
    assert_eq!(run(&["--memory", "5MiB", "a"], None).status.code(), Some(2));
}
