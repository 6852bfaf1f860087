//! Which commit a tree is at, read from git's own files: no program is needed, and a tree of another
//! user is read as well as one's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit that are shown.
const DIGITS: usize = 12;

/// A git tree, or a work tree of one.
pub struct Tree {
    root: PathBuf,
    /// Where this work tree's `HEAD` is.
    own: PathBuf,
    /// Where its branches are.
    common: PathBuf,
}

impl Tree {
    /// The tree whose root is `root`; `None` where it is none, as in an unpacked archive. A tree
    /// around `root` is another project's.
    pub fn of(root: &Path) -> Option<Tree> {
        let mut own = root.join(".git");
        if own.is_file() {
            let text = fs::read_to_string(&own).ok()?;
            own = root.join(text.strip_prefix("gitdir:")?.trim());
        }
        own.join("HEAD").is_file().then_some(())?;
        let common = match fs::read_to_string(own.join("commondir")) {
            Ok(common) => own.join(common.trim()),
            Err(_) => own.clone(),
        };
        Some(Tree {
            root: root.to_owned(),
            own,
            common,
        })
    }

    /// The commit, `-dirty` appended where git says that tracked files have changed.
    pub fn commit(&self) -> Option<String> {
        let full = self.full_commit()?;
        let short = full.get(..DIGITS)?;
        full.chars().all(|c| c.is_ascii_hexdigit()).then_some(())?;
        let dirty = if self.is_dirty() { "-dirty" } else { "" };
        Some(format!("{short}{dirty}"))
    }

    fn full_commit(&self) -> Option<String> {
        let head = fs::read_to_string(self.own.join("HEAD")).ok()?;
        let Some(branch) = head.trim().strip_prefix("ref: ") else {
            return Some(head.trim().to_owned());
        };
        if let Ok(commit) = fs::read_to_string(self.common.join(branch)) {
            return Some(commit.trim().to_owned());
        }
        let packed = fs::read_to_string(self.common.join("packed-refs")).ok()?;
        let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(_, name)| *name == branch)
            .map(|(commit, _)| commit.to_owned())
    }

    /// Where git is missing, or refuses the tree of another user, it is not known to be.
    fn is_dirty(&self) -> bool {
        let mut git = Command::new("git");
        // As root it would rewrite the index of a tree that is another user's.
        git.env("GIT_OPTIONAL_LOCKS", "0").arg("-C").arg(&self.root);
        let status = git.args(["diff", "--quiet", "HEAD"]).status();
        status.is_ok_and(|status| status.code() == Some(1))
    }

    /// What changes when the commit does. What is not there is left out: cargo takes a missing file
    /// as changed each time.
    pub fn watched(&self) -> Vec<PathBuf> {
        let head = self.own.join("HEAD");
        let branches = [
            self.common.join("packed-refs"),
            self.common.join("refs/heads"),
        ];
        let all = std::iter::once(head).chain(branches);
        all.filter(|path| path.exists()).collect()
    }
}
