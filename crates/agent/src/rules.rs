//! Which rule a container falls under.

use cofferdam_nri::Qos;
use cofferdam_types::{
    Container, CpuPolicy, NetnsId, NetworkCpu, Pattern, Policy, Selector, SelectorError,
};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// One `[[rule]]`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its line in the file; 0 for one set over the socket.
    pub line: usize,
    /// Containers it applies to.
    pub matcher: Matcher,
    /// The classes it gives.
    pub policy: Policy,
    /// Strict, with what each container requests of its orchestrator; `policy` says standard then.
    pub by_request: bool,
}

impl Rule {
    /// Whether it was set while the agent runs, and goes before all others.
    pub fn is_set_over_socket(&self) -> bool {
        self.line == 0
    }

    /// Whether it asks for any change of the host.
    pub fn changes_host(&self) -> bool {
        self.by_request || changes_host(&self.policy)
    }
}

/// Whom a rule means: any [`Selector`], `label:KEY=VALUE`, `namespace:NAME` or `qos:CLASS`.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// By name, id, cgroup, namespace or process.
    Selector(Selector),
    /// By a label or OCI annotation that the runtime keeps.
    Label {
        /// Its whole key.
        key: String,
        /// Its value; a pattern.
        value: Pattern,
    },
    /// By the namespace of its pod.
    Namespace {
        /// A pattern.
        name: Pattern,
    },
    /// By the quality of service class of its pod.
    Qos(Qos),
}

/// A match that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// Not a selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Not a label.
    #[error("'{0}': a label is written label:KEY=VALUE, such as label:tier=web")]
    Label(String),
    /// Not a namespace.
    #[error(
        "'{0}': a namespace is written namespace:NAME, such as namespace:shop or namespace:team-*"
    )]
    Namespace(String),
    /// Not a class.
    #[error("'{0}': a class is written qos:Guaranteed, qos:Burstable or qos:BestEffort")]
    Qos(String),
}

impl FromStr for Matcher {
    type Err = MatchError;

    fn from_str(text: &str) -> Result<Matcher, MatchError> {
        if let Some(name) = text.strip_prefix("namespace:") {
            if name.is_empty() {
                return Err(MatchError::Namespace(text.to_owned()));
            }
            return Ok(Matcher::Namespace {
                name: Pattern::of_text(name),
            });
        }
        if let Some(class) = text.strip_prefix("qos:") {
            let all = [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort];
            let found = all.into_iter().find(|q| q.name() == class);
            return found
                .map(Matcher::Qos)
                .ok_or_else(|| MatchError::Qos(text.to_owned()));
        }
        let Some(label) = text.strip_prefix("label:") else {
            return Ok(Matcher::Selector(text.parse()?));
        };
        let wrong = || MatchError::Label(text.to_owned());
        let (key, value) = label.split_once('=').ok_or_else(wrong)?;
        if key.is_empty() {
            return Err(wrong());
        }
        Ok(Matcher::Label {
            key: key.to_owned(),
            value: Pattern::of_text(value),
        })
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Matcher::Selector(selector) => selector.fmt(f),
            Matcher::Label { key, value } => write!(f, "label:{key}={}", value.as_str()),
            Matcher::Namespace { name } => write!(f, "namespace:{}", name.as_str()),
            Matcher::Qos(class) => write!(f, "qos:{}", class.name()),
        }
    }
}

impl Matcher {
    /// True when it means every container.
    pub fn is_catch_all(&self) -> bool {
        let text = self.to_string();
        matches!(text.as_str(), "*" | "**" | "cgroup:/**" | "cgroup:**")
    }

    /// True if only the runtime's state can decide.
    pub fn needs_labels(&self) -> bool {
        matches!(self, Matcher::Label { .. })
    }

    /// Remark on a pattern that its author may have meant otherwise.
    pub fn remark(&self) -> Option<String> {
        match self {
            Matcher::Selector(selector) => selector.remark(),
            Matcher::Label { value: pattern, .. } | Matcher::Namespace { name: pattern } => {
                pattern.remark(false)
            }
            Matcher::Qos(_) => None,
        }
    }

    /// Whether `container` is meant.
    pub fn matches(&self, container: &Container, known: &Known<'_>) -> bool {
        match self {
            Matcher::Selector(Selector::Netns(name)) => {
                let named = known.namespaces.get(name).copied();
                let netns = named.or_else(|| name.parse().ok().map(NetnsId));
                let has = |netns| {
                    container.netns == Some(netns) || container.further_netns.contains(&netns)
                };
                netns.is_some_and(has)
            }
            Matcher::Selector(Selector::Pid(pid)) => known
                .processes
                .get(pid)
                .is_some_and(|path| path.starts_with(&container.cgroup_path)),
            Matcher::Selector(selector) => selector.matches(container),
            Matcher::Label { key, value } => known
                .labels
                .get(key)
                .is_some_and(|label| value.matches(label)),
            Matcher::Namespace { name } => container
                .pod
                .as_deref()
                .and_then(|pod| pod.split_once('/'))
                .is_some_and(|(namespace, _)| name.matches(namespace)),
            Matcher::Qos(class) => {
                let path = container.cgroup_path.to_string_lossy();
                Qos::of_cgroup(&path) == Some(*class)
            }
        }
    }
}

/// What the host knows in addition to the container itself.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Labels of the container.
    pub labels: &'a BTreeMap<String, String>,
    /// Namespaces by their name below `/run/netns`.
    pub namespaces: &'a BTreeMap<String, NetnsId>,
    /// Cgroup paths of the processes that rules name, while those run.
    pub processes: &'a BTreeMap<u32, std::path::PathBuf>,
}

/// Whether `policy` asks for any change of the host.
pub fn changes_host(policy: &Policy) -> bool {
    policy.network_cpu == NetworkCpu::Enforce || policy.cpu != CpuPolicy::Standard
}
