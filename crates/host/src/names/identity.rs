//! Helpers of the readers of all runtimes: their result, its validation, and the home of a rootless
//! container's owner.

use crate::fs::HostFs;
use std::path::{Path, PathBuf};

/// Names of one container in a runtime's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub name: Option<String>,
    /// Pod, as `namespace/name`.
    pub pod: Option<String>,
}

/// Finds the home of the user whose systemd slice has a rootless container's cgroup.
pub(crate) fn owner_home(fs: &HostFs, cgroup_path: &Path) -> Option<PathBuf> {
    let uid = cgroup_path.iter().find_map(|c| {
        c.to_str()?
            .strip_prefix("user-")?
            .strip_suffix(".slice")?
            .parse::<u32>()
            .ok()
    })?;
    passwd_home(&fs.read_text("/etc/passwd").ok()?, uid)
}

/// Finds the home directory of a user id, in the text of `/etc/passwd`.
pub fn passwd_home(text: &str, uid: u32) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let id: u32 = fields.nth(2)?.parse().ok()?;
        let home = fields.nth(2)?;
        (id == uid && home.starts_with('/')).then(|| PathBuf::from(home))
    })
}

/// Returns `name` if it is fit for a table: not empty, not long, without control characters. The
/// state of a rootless runtime belongs to its user and may contain anything.
pub(crate) fn plausible_name(name: &str) -> Option<String> {
    let name = name.strip_prefix('/').unwrap_or(name);
    let sound = !name.is_empty() && name.len() <= 255 && !name.chars().any(char::is_control);
    sound.then(|| name.to_owned())
}
