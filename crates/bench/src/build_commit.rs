//! Commit that the program was built from, for the manifest of each run.
//!
//! The program announces the commit at its start. A build script of this crate could find it out,
//! but would rebuild the crate at each commit, which takes minutes.

use std::sync::OnceLock;

static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Sets the commit, if the build knew it. Later calls have no effect.
pub fn announce(commit: Option<&'static str>) {
    if let Some(commit) = commit {
        let _announced_before = COMMIT.set(commit);
    }
}

/// The commit; `None` if none was announced.
pub(crate) fn commit() -> Option<String> {
    COMMIT.get().map(|commit| (*commit).to_owned())
}
