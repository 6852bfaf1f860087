//! Tests of the commit that a build records, from git's own files.
#![allow(clippy::unwrap_used)]

#[path = "../build/commit.rs"]
mod commit;

use commit::Tree;
use std::fs;
use std::path::Path;

const ONE: &str = "0123456789abcdef0123456789abcdef01234567";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn commit_of(root: &Path) -> Option<String> {
    Tree::of(root)?.commit()
}

/// Promise 78.
#[test]
fn a_branch_is_found_loose_packed_and_detached() {
    let place = tempfile::tempdir().unwrap();
    let git = place.path().join(".git");
    write(&git.join("HEAD"), "ref: refs/heads/main\n");
    assert_eq!(commit_of(place.path()), None, "no commit yet");
    let packed = format!("# pack-refs with: peeled\n{ONE} refs/heads/main\n");
    write(&git.join("packed-refs"), &packed);
    assert_eq!(commit_of(place.path()).as_deref(), Some("0123456789ab"));
    // A loose branch is newer than a packed one.
    write(
        &git.join("refs/heads/main"),
        &format!("{}\n", ONE.replace('0', "f")),
    );
    assert_eq!(commit_of(place.path()).as_deref(), Some("f123456789ab"));
    write(&git.join("HEAD"), &format!("{ONE}\n"));
    assert_eq!(commit_of(place.path()).as_deref(), Some("0123456789ab"));
    let watched = Tree::of(place.path()).unwrap().watched();
    assert!(watched.len() == 3 && watched.iter().all(|path| path.exists()));
}

/// Promise 78.
#[test]
fn a_work_tree_has_its_own_head_and_shared_branches() {
    let place = tempfile::tempdir().unwrap();
    let git = place.path().join("main/.git");
    let own = git.join("worktrees/side");
    write(&own.join("HEAD"), "ref: refs/heads/side\n");
    write(&own.join("commondir"), "../..\n");
    write(&git.join("refs/heads/side"), &format!("{ONE}\n"));
    let side = place.path().join("side");
    write(&side.join(".git"), &format!("gitdir: {}\n", own.display()));
    assert_eq!(commit_of(&side).as_deref(), Some("0123456789ab"));
}

/// Promise 78.
#[test]
fn an_archive_and_a_damaged_tree_have_no_commit() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(commit_of(place.path()), None);
    write(&place.path().join(".git/HEAD"), "nonsense\n");
    assert_eq!(commit_of(place.path()), None);
    write(&place.path().join(".git/HEAD"), "ääääääääääää\n");
    assert_eq!(commit_of(place.path()), None);
}

/// Checks the version of this build, made in this tree.
/// Promise 78.
#[test]
fn the_version_names_the_commit() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_cofferdam"))
        .arg("--version")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let version = format!("cofferdam {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(printed.starts_with(&version), "{printed}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let expected = match (std::env::var("COFFERDAM_COMMIT"), commit_of(&root)) {
        (Ok(given), _) if !given.is_empty() => given,
        (_, Some(commit)) => commit.trim_end_matches("-dirty").to_owned(),
        (_, None) => "unknown: built outside a git tree".to_owned(),
    };
    assert!(printed.contains(&expected), "{printed} has no {expected}");
}
