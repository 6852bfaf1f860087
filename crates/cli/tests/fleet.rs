//! `cofferdam report fleet` hands over to `cofferdam-fleet`, or says what to install.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Runs `report fleet ARGUMENTS` of a program that is installed alone, or beside a stand-in.
fn run(arguments: &[&str], stand_in: Option<&str>) -> Output {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dir.path().join("cofferdam");
    // A link of the file itself: where it stands is where the program believes to be.
    fs::hard_link(env!("CARGO_BIN_EXE_cofferdam"), &program).unwrap();
    if let Some(script) = stand_in {
        let beside = dir.path().join("cofferdam-fleet");
        fs::write(&beside, script).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Command::new(program)
        .args(["report", "fleet"])
        .args(arguments)
        .output()
        .unwrap()
}

/// Promise 17.
#[test]
fn without_its_program_the_package_is_named() {
    let out = run(&["a.jsonl"], None);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(
        said.contains("install the package cofferdam-fleet"),
        "{said}"
    );
}

/// Promise 17.
#[test]
fn its_program_gets_the_options_and_gives_the_exit_code() {
    let out = run(
        &["--memory", "256MiB", "--host", "n 1", "a b.jsonl"],
        Some("#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n"),
    );
    let said = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(7), "{said}");
    assert!(said.starts_with("report|"), "{said}");
    assert!(
        said.contains("--memory|268435456B|") && said.contains("--host|n 1|"),
        "{said}"
    );
    assert!(said.ends_with("--|a b.jsonl|"), "{said}");
}

/// Promise 17.
#[test]
fn its_options_are_checked_before() {
    assert_eq!(run(&[], None).status.code(), Some(2));
    assert_eq!(run(&["--memory", "5MiB", "a"], None).status.code(), Some(2));
}
