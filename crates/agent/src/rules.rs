//! Rules, and the containers that they match.

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
    /// Line in the file; 0 for a rule set over the socket.
    pub line: usize,
    /// Containers to which it applies.
    pub matcher: Matcher,
    /// Classes that it gives.
    pub policy: Policy,
    /// Whether it reserves what each container requests of its orchestrator. `policy` then says
    /// standard.
    pub by_request: bool,
}

impl Rule {
    /// Whether it was set while the agent runs. Such rules precede all others.
    pub fn is_set_over_socket(&self) -> bool {
        self.line == 0
    }

    /// Whether it asks for any change of the host.
    pub fn changes_host(&self) -> bool {
        self.by_request || changes_host(&self.policy)
    }
}

/// Match of a rule: any [`Selector`], `label:KEY=VALUE`, `namespace:NAME` or `qos:CLASS`.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// Name, id, cgroup, network namespace or process.
    Selector(Selector),
    /// Label or OCI annotation that the runtime stores.
    Label {
        /// Complete key.
        key: String,
        /// Pattern of the value.
        value: Pattern,
    },
    /// Namespace of the pod.
    Namespace {
        /// Pattern of its name.
        name: Pattern,
    },
    /// Quality of service class of the pod.
    Qos(Qos),
}

/// Match that cannot be parsed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// The selector is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The label is invalid.
    #[error("'{0}': a label is written label:KEY=VALUE, such as label:tier=web")]
    Label(String),
    /// The namespace is invalid.
    #[error(
        "'{0}': a namespace is written namespace:NAME, such as namespace:shop or namespace:team-*"
    )]
    Namespace(String),
    /// The class is invalid.
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
    /// Whether it matches every container.
    pub fn is_catch_all(&self) -> bool {
        let text = self.to_string();
        matches!(text.as_str(), "*" | "**" | "cgroup:/**" | "cgroup:**")
    }

    /// Whether it needs the labels that the runtime stores.
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

    /// Whether it matches `container`.
    pub fn matches(&self, container: &Container, context: &MatchContext<'_>) -> bool {
        match self {
            Matcher::Selector(Selector::Netns(name)) => {
                let named = context.namespaces.get(name).copied();
                let netns = named.or_else(|| name.parse().ok().map(NetnsId));
                let has = |netns| {
                    container.netns == Some(netns) || container.further_netns.contains(&netns)
                };
                netns.is_some_and(has)
            }
            Matcher::Selector(Selector::Pid(pid)) => context
                .processes
                .get(pid)
                .is_some_and(|path| path.starts_with(&container.cgroup_path)),
            Matcher::Selector(selector) => selector.matches(container),
            Matcher::Label { key, value } => context
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

/// Facts about the host that matching needs in addition to the container.
#[derive(Clone, Copy, Debug)]
pub struct MatchContext<'a> {
    /// Labels of the container.
    pub labels: &'a BTreeMap<String, String>,
    /// Namespaces by their name below `/run/netns`.
    pub namespaces: &'a BTreeMap<String, NetnsId>,
    /// Cgroup paths of the processes that rules name, while those processes run.
    pub processes: &'a BTreeMap<u32, std::path::PathBuf>,
}

/// Whether `policy` asks for any change of the host.
pub fn changes_host(policy: &Policy) -> bool {
    policy.network_cpu == NetworkCpu::Enforce || policy.cpu != CpuPolicy::Standard
}
