//! What the program was built from, for the manifest of each run.
//!
//! The program announces it at its start. A build script of this crate would know it as well, and would
//! build the crate again at each commit, which takes minutes.

use std::sync::OnceLock;

static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Tells the commit, where the build knew one. The first call counts.
pub fn announce(commit: Option<&'static str>) {
    if let Some(commit) = commit {
        let _told_before = COMMIT.set(commit);
    }
}

/// The commit; `None` where none was announced.
pub(crate) fn commit() -> Option<String> {
    COMMIT.get().map(|commit| (*commit).to_owned())
}
