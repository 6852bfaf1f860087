//! Resolves selectors to containers.

use crate::fs::{HostFs, SMALL_BYTES};
use crate::{netns, procfs};
use cofferdam_types::{Container, NetnsId, Selector, path_text};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most names listed in an error.
const MAX_LISTED: usize = 8;

/// Reason why a selector matches nothing on this host.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ResolveError {
    /// No container has that name.
    #[error("no container '{selector}'{hint}; 'cofferdam top --once' lists all containers")]
    NoMatch {
        /// Selector as written.
        selector: String,
        /// Similar names, and running containers.
        hint: String,
    },
    /// No network namespace has that name.
    #[error(
        "no network namespace '{0}' under /run/netns: 'ip netns' lists them, and \
         netns:NUMBER takes the number in 'readlink /proc/PID/ns/net'"
    )]
    NoNamespace(String),
    /// No such process exists.
    #[error("no process {0}, or it is not accessible: it has ended, or this needs root")]
    NoProcess(u32),
    /// The process is in no container.
    #[error(
        "process {pid} is in the cgroup {}, which is not a container's{hint}",
        path_text(cgroup)
    )]
    NotInContainer {
        /// Id of the process.
        pid: u32,
        /// Cgroup of the process.
        cgroup: PathBuf,
        /// Running containers.
        hint: String,
    },
}

/// Returns the containers of `all` that match `selector`, at least one.
pub fn resolve(
    selector: &Selector,
    all: &[Arc<Container>],
) -> Result<Vec<Arc<Container>>, ResolveError> {
    resolve_in(&HostFs::host(), selector, all)
}

/// Resolves as [`resolve`] does, on the host whose files are `fs`.
pub fn resolve_in(
    fs: &HostFs,
    selector: &Selector,
    all: &[Arc<Container>],
) -> Result<Vec<Arc<Container>>, ResolveError> {
    let found: Vec<Arc<Container>> = match selector {
        Selector::Netns(name) => {
            let netns = namespace(fs, name)?;
            all.iter()
                .filter(|c| c.netns == Some(netns) || c.further_netns.contains(&netns))
                .cloned()
                .collect()
        }
        Selector::Pid(pid) => {
            let path = cgroup_of(fs, *pid).ok_or(ResolveError::NoProcess(*pid))?;
            let around = all.iter().filter(|c| path.starts_with(&c.cgroup_path));
            let innermost = around
                .max_by_key(|c| c.cgroup_path.components().count())
                .cloned();
            vec![innermost.ok_or_else(|| ResolveError::NotInContainer {
                pid: *pid,
                cgroup: path,
                hint: running(all),
            })?]
        }
        _ => all
            .iter()
            .filter(|c| selector.matches(c))
            .cloned()
            .collect(),
    };
    if found.is_empty() {
        let selector = selector.to_string();
        let hint = near(&selector, all) + &running(all);
        return Err(ResolveError::NoMatch { selector, hint });
    }
    Ok(found)
}

/// Returns the namespace that `netns:NAME` names now; `None` if there is none of that name.
pub fn named_netns(fs: &HostFs, name: &str) -> Option<NetnsId> {
    namespace(fs, name).ok()
}

/// Returns the path of a process's cgroup; `None` if it has ended.
pub fn cgroup_of(fs: &HostFs, pid: u32) -> Option<PathBuf> {
    let text = fs.read(format!("/proc/{pid}/cgroup"), SMALL_BYTES).ok()?;
    procfs::proc_cgroup_v2(text)
}

fn namespace(fs: &HostFs, name: &str) -> Result<NetnsId, ResolveError> {
    let unknown = || ResolveError::NoNamespace(name.to_owned());
    if name.contains('/') || name.starts_with('.') {
        return Err(unknown());
    }
    // A name may consist of digits; then it precedes the number.
    let file = Path::new(netns::NAMED).join(name);
    let number = || name.parse().ok().map(NetnsId);
    netns::netns_of_file(fs, &file)
        .or_else(number)
        .ok_or_else(unknown)
}

fn near(written: &str, all: &[Arc<Container>]) -> String {
    let bare = written.rsplit(':').next().unwrap_or(written).to_lowercase();
    let mut near: Vec<(usize, &str)> = all
        .iter()
        .filter_map(|c| {
            let name = c.name.to_lowercase();
            let far = distance(&bare, &name);
            let related = bare.len() >= 3 && (name.contains(&bare) || bare.contains(&name));
            (far <= 2.max(bare.len() / 4) || related).then_some((far, c.name.as_str()))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    match near.first() {
        Some((_, name)) => format!("; did you mean '{name}'?"),
        None => String::new(),
    }
}

fn running(all: &[Arc<Container>]) -> String {
    let mut names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return "; no container is running".to_owned();
    }
    let mut text = format!(
        "; running: {}",
        names[..names.len().min(MAX_LISTED)].join(", ")
    );
    if names.len() > MAX_LISTED {
        let _ = write!(text, " and {} more", names.len() - MAX_LISTED);
    }
    text
}

/// Counts the characters to add, drop, change or swap to get from one to the other (optimal string
/// alignment); names longer than 64 characters count by their first 64.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            best = best.min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests;
