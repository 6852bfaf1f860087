//! How a person names a container on the command line and in the configuration.

use crate::{Container, NetnsId};
use globset::{GlobBuilder, GlobMatcher};
use std::fmt;
use std::str::FromStr;

/// A name, `id:PREFIX`, `cgroup:PATH`, `netns:INODE` or `pid:N`. Names and paths take globs:
/// `*` and `?` stop at `/`, `**` does not.
#[derive(Clone, Debug)]
pub enum Selector {
    /// The container's name.
    Name(Pattern),
    /// Beginning of the runtime's id, lower-case.
    Id(String),
    /// Path of its cgroup below the v2 mount.
    Cgroup(Pattern),
    /// Its network namespace: a name under `/run/netns`, or an inode number.
    Netns(String),
    /// A process in it.
    Pid(u32),
}

/// A glob together with its source text.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    glob: GlobMatcher,
}

/// A selector that cannot be understood.
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
    /// Cgroup paths begin at the mount.
    #[error("selector '{0}': a cgroup path begins with '/', such as cgroup:/machine.slice/web")]
    RelativePath(String),
    /// The glob does not parse.
    #[error("selector '{selector}': {reason}")]
    BadGlob {
        /// As written.
        selector: String,
        /// The parser's words.
        reason: String,
    },
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let pattern = |body: &str| {
            GlobBuilder::new(body)
                .literal_separator(true)
                .build()
                .map(|g| Pattern {
                    text: body.to_owned(),
                    glob: g.compile_matcher(),
                })
                .map_err(|e| SelectorError::BadGlob {
                    selector: text.to_owned(),
                    reason: e.kind().to_string(),
                })
        };
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
            "cgroup" => Ok(Selector::Cgroup(pattern(body)?)),
            "netns" => Ok(Selector::Netns(body.to_owned())),
            _ => Ok(Selector::Name(pattern(body)?)),
        }
    }
}

impl Selector {
    /// Whether `container` is meant. Selectors that need the host (`netns:NAME` with a name,
    /// `pid:N`) are first made concrete by `cofferdam_host::resolve`; here `netns:` compares
    /// the inode number and `pid:` the known process only.
    pub fn matches(&self, container: &Container) -> bool {
        match self {
            Selector::Name(p) => p.glob.is_match(&container.name),
            Selector::Id(prefix) => container
                .id
                .as_deref()
                .is_some_and(|id| id.starts_with(prefix.as_str())),
            Selector::Cgroup(p) => p.glob.is_match(&container.cgroup_path),
            Selector::Netns(inode) => inode
                .parse()
                .is_ok_and(|n| container.netns == Some(NetnsId(n))),
            Selector::Pid(pid) => container.pid == Some(*pid),
        }
    }
}

impl Selector {
    /// Whether it names cgroups, rather than picks some of the containers: one path, or a glob
    /// without `**`, which stands for all containers below a path.
    pub fn names_cgroups(&self) -> bool {
        matches!(self, Selector::Cgroup(p) if !p.text.contains("**"))
    }

    /// Whether it names the cgroup at `path` (below the v2 mount).
    pub fn names(&self, path: &std::path::Path) -> bool {
        matches!(self, Selector::Cgroup(p) if self.names_cgroups() && p.glob.is_match(path))
    }

    /// The selector that means the cgroup at `path` and no other.
    pub fn cgroup_at(path: &std::path::Path) -> Option<Selector> {
        let text = path.to_str()?;
        let glob = GlobBuilder::new(&globset::escape(text)).build().ok()?;
        Some(Selector::Cgroup(Pattern {
            text: text.to_owned(),
            glob: glob.compile_matcher(),
        }))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Name(p) => f.write_str(&p.text),
            Selector::Id(id) => write!(f, "id:{id}"),
            Selector::Cgroup(p) => write!(f, "cgroup:{}", p.text),
            Selector::Netns(n) => write!(f, "netns:{n}"),
            Selector::Pid(p) => write!(f, "pid:{p}"),
        }
    }
}
