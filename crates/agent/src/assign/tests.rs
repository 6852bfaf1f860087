//! Changes of the host between two lookups.

use super::*;
use std::path::Path;

/// Puts process 7, started at tick `start`, into `cgroup`.
fn process(root: &Path, cgroup: &str, start: u64) {
    let folder = root.join("proc/7");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
    let stat = format!("7 (a) S {} {start} 0", ["0"; 18].join(" "));
    std::fs::write(folder.join("stat"), stat).unwrap();
}

fn rule() -> Rule {
    Rule {
        line: 1,
        matcher: "pid:7".parse().unwrap(),
        policy: Policy::default(),
        by_request: false,
    }
}

/// Looks again, and returns the texts of the selectors and the processes that have ended.
fn follow(assigner: &mut Assigner) -> (Vec<String>, Vec<u32>) {
    assigner.resolved_at = None;
    let named = assigner
        .selectors()
        .iter()
        .map(ToString::to_string)
        .collect();
    (named, assigner.ended_processes().collect())
}

/// Promise 9.
#[test]
fn a_reused_process_number_is_ignored() {
    let root = tempfile::tempdir().unwrap();
    let mut assigner = Assigner::new(HostFs::below(root.path()), vec![rule()]);
    assert_eq!(
        follow(&mut assigner),
        (vec![], vec![]),
        "it has not come yet"
    );
    process(root.path(), "/a", 100);
    assert_eq!(
        follow(&mut assigner),
        (vec!["cgroup:/a".to_owned()], vec![])
    );
    // A process may move to another cgroup.
    process(root.path(), "/a/b", 100);
    assert_eq!(
        follow(&mut assigner),
        (vec!["cgroup:/a/b".to_owned()], vec![])
    );
    std::fs::remove_dir_all(root.path().join("proc/7")).unwrap();
    assert_eq!(follow(&mut assigner), (vec![], vec![7]));
    process(root.path(), "/b", 200);
    assert_eq!(follow(&mut assigner), (vec![], vec![7]));
    // A new file with the same rule still means the old process. A rule set again by a person means
    // the new one.
    assigner.replace(vec![rule()]);
    assert_eq!(follow(&mut assigner), (vec![], vec![7]));
    assert!(assigner.set(rule()));
    assert_eq!(
        follow(&mut assigner),
        (vec!["cgroup:/b".to_owned()], vec![])
    );
}
