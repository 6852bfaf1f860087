//! Commit of a git tree, read from git's own files. No program is needed, and the tree of another
//! user can be read too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit that are printed.
const DIGITS: usize = 12;

/// A git tree, or a work tree of one.
pub struct Tree {
    root: PathBuf,
    /// Directory of this work tree's `HEAD`.
    own: PathBuf,
    /// Directory of the branches.
    common: PathBuf,
}

impl Tree {
    /// Tree whose root is `root`; `None` if it is no tree, such as an unpacked archive. A tree
    /// around `root` belongs to another project.
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

    /// Commit, with `-dirty` appended if git reports changed tracked files.
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

    /// Whether git reports changed files; false if git is missing or refuses the tree of another
    /// user.
    fn is_dirty(&self) -> bool {
        let mut git = Command::new("git");
        // Otherwise root would rewrite the index of another user's tree.
        git.env("GIT_OPTIONAL_LOCKS", "0").arg("-C").arg(&self.root);
        let status = git.args(["diff", "--quiet", "HEAD"]).status();
        status.is_ok_and(|status| status.code() == Some(1))
    }

    /// Files that change together with the commit. Missing files are left out: cargo treats a
    /// missing file as changed each time.
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
