//! `scripts/setup`, with programs of the distribution replaced by recorders.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Policy of an administrator.
const OWN: &str = "#!/bin/sh\nexit 0\n";

fn program(folder: &Path, name: &str, body: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `setup lint` on a host without any package. `apt-get` copies the policy that stands while
/// it installs to `seen`, and exits with `status`.
fn setup(folder: &Path, status: u8) -> Output {
    let (policy, seen) = (folder.join("policy-rc.d"), folder.join("seen"));
    program(folder, "dpkg-query", "exit 1");
    program(folder, "apt-cache", "exit 0");
    let (from, to) = (policy.display(), seen.display());
    let install = format!("case \"$*\" in *install*) cp {from} {to}; exit {status};; esac");
    program(folder, "apt-get", &install);
    let path = std::env::var("PATH").unwrap();
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/setup"))
        .arg("lint")
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("POLICY_RC_D", policy)
        .output()
        .unwrap()
}

/// Promise 79.
#[test]
fn an_installation_starts_no_services() {
    for status in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let out = setup(folder.path(), status);
        let seen = folder.path().join("seen");
        assert!(seen.exists(), "{}", String::from_utf8_lossy(&out.stderr));
        let policy = Command::new("sh").arg(seen).status().unwrap();
        // Code of policy-rc.d for "forbidden".
        assert_eq!(policy.code(), Some(101));
        assert!(!folder.path().join("policy-rc.d").exists());
        assert_eq!(out.status.success(), status == 0);
    }
}

/// Promise 79.
#[test]
fn a_policy_of_the_administrator_stays() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "policy-rc.d", "exit 0");
    let out = setup(folder.path(), 0);
    let policy = fs::read_to_string(folder.path().join("policy-rc.d")).unwrap();
    assert_eq!(policy, OWN);
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        text.contains("it decides whether installed servers start"),
        "{text}"
    );
}
