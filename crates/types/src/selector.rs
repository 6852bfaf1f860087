//! Selectors: names of containers on the command line and in the configuration.

use crate::{Container, NetnsId, Pattern, path_text};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A name, `id:PREFIX`, `cgroup:PATH`, `netns:INODE` or `pid:N`. Names and paths are
/// [patterns](Pattern) of the [text](path_text) of the name.
#[derive(Clone, Debug)]
pub enum Selector {
    /// The container's name.
    Name(Pattern),
    /// Beginning of the runtime's id, lower-case.
    Id(String),
    /// Path of the container's cgroup below the v2 mount.
    Cgroup(Pattern),
    /// The container's network namespace: a name under `/run/netns`, or an inode number.
    Netns(String),
    /// A process in the container.
    Pid(u32),
}

/// Error of a selector that cannot be parsed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectorError {
    /// Nothing to match.
    #[error("selector '{0}' is empty: write a name, id:PREFIX, cgroup:PATH, netns:NAME or pid:N")]
    Empty(String),
    /// Not a container id.
    #[error("selector '{0}': an id has only the characters 0-9 and a-f")]
    BadId(String),
    /// Not a process id.
    #[error("selector '{0}': a pid is a positive whole number")]
    BadPid(String),
    /// Cgroup path that does not begin at the mount.
    #[error("selector '{0}': a cgroup path begins with '/', such as cgroup:/machine.slice/web")]
    RelativePath(String),
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let (kind, body) = match text.split_once(':') {
            Some((kind @ ("id" | "cgroup" | "netns" | "pid"), body)) => (kind, body),
            _ => ("name", text),
        };
        if body.is_empty() {
            return Err(SelectorError::Empty(text.to_owned()));
        }
        match kind {
            "id" => {
                let id = body.to_ascii_lowercase();
                if !id.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(SelectorError::BadId(text.to_owned()));
                }
                Ok(Selector::Id(id))
            }
            "pid" => match body.parse() {
                Ok(pid) if pid > 0 => Ok(Selector::Pid(pid)),
                _ => Err(SelectorError::BadPid(text.to_owned())),
            },
            "cgroup" if !body.starts_with('/') => Err(SelectorError::RelativePath(text.to_owned())),
            "cgroup" => Ok(Selector::Cgroup(Pattern::of_path(body))),
            "netns" => Ok(Selector::Netns(body.to_owned())),
            _ => Ok(Selector::Name(Pattern::of_path(body))),
        }
    }
}

impl Selector {
    /// Whether the selector matches `container`.
    ///
    /// `cofferdam_host::resolve` first replaces selectors that need the host (`netns:NAME` with a
    /// name, `pid:N`). Here `netns:` compares the inode number, and `pid:` never matches: another
    /// process may have the number by now.
    pub fn matches(&self, container: &Container) -> bool {
        match self {
            Selector::Name(p) => p.matches(&container.name),
            Selector::Id(prefix) => container
                .id
                .as_deref()
                .is_some_and(|id| id.starts_with(prefix.as_str())),
            Selector::Cgroup(p) => means_path(p, &container.cgroup_path),
            Selector::Netns(inode) => inode
                .parse()
                .is_ok_and(|n| container.netns == Some(NetnsId(n))),
            Selector::Pid(_) => false,
        }
    }

    /// Whether the selector names cgroups, rather than picks some of the containers: it is one
    /// path, or a pattern without `**`, which stands for all containers below a path.
    pub fn names_cgroups(&self) -> bool {
        matches!(self, Selector::Cgroup(p) if !p.as_str().contains("**"))
    }

    /// Whether the selector names the cgroup at `path` (below the v2 mount).
    pub fn names(&self, path: &Path) -> bool {
        matches!(self, Selector::Cgroup(p) if self.names_cgroups() && means_path(p, path))
    }

    /// Selector of the cgroup at `path` and no other.
    pub fn cgroup_at(path: &Path) -> Selector {
        Selector::Cgroup(Pattern::of_name(&path_text(path)))
    }

    /// Remark on a pattern that its author may have meant otherwise.
    pub fn remark(&self) -> Option<String> {
        match self {
            Selector::Cgroup(pattern) => pattern.remark(true),
            Selector::Name(pattern) => pattern.remark(false),
            Selector::Id(_) | Selector::Netns(_) | Selector::Pid(_) => None,
        }
    }
}

/// Whether `pattern` matches the cgroup at `path`: its text, or its literal characters.
fn means_path(pattern: &Pattern, path: &Path) -> bool {
    pattern.matches(&path_text(path)) || path.to_str() == Some(pattern.as_str())
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Name(p) => f.write_str(p.as_str()),
            Selector::Id(id) => write!(f, "id:{id}"),
            Selector::Cgroup(p) => write!(f, "cgroup:{}", p.as_str()),
            Selector::Netns(n) => write!(f, "netns:{n}"),
            Selector::Pid(p) => write!(f, "pid:{p}"),
        }
    }
}
