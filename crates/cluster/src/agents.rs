//! List of the agents: the pods of the DaemonSet, page by page.

use crate::http::Limits;
use crate::kubectl::{Api, ApiError, shown};
use serde::Deserialize;
use std::net::IpAddr;
use std::time::Instant;

/// Pods of one page. A pod is a few kilobytes.
const PAGE: usize = 500;
/// Largest page, bytes.
const MOST_PAGE_BYTES: usize = 32 << 20;
/// Most agents: a cluster of Kubernetes has 5,000 nodes.
pub const MOST_AGENTS: usize = 20_000;
/// Labels of the chart's pods, as a selector in a query.
const SELECTOR: &str =
    "app.kubernetes.io%2Fname%3Dcofferdam%2Capp.kubernetes.io%2Fcomponent%3Dagent";
/// Labels of the chart's DaemonSet, as a selector in a query.
const SET_SELECTOR: &str = "app.kubernetes.io%2Fname%3Dcofferdam";

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Node of the agent; name of the pod while that has no node.
    pub node: String,
    /// Pod of the agent.
    pub pod: String,
    /// Address of the node.
    pub address: Option<IpAddr>,
    /// Port of the gateway.
    pub port: u16,
    /// Reason why the agent cannot be asked; `None` if it can.
    pub why_not: Option<String>,
}

/// All agents of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// Agents in the order of their nodes.
    pub agents: Vec<Agent>,
    /// Number of nodes on which there should be an agent.
    pub wanted: u64,
}

/// Reason why there are no agents to ask.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// The API server failed.
    #[error("cannot list the agents in namespace {namespace}: {why}")]
    Api {
        /// Namespace of the agents.
        namespace: String,
        /// Failure of the API server.
        why: ApiError,
    },
    /// The API server answered with something else.
    #[error("the API server's list of pods cannot be read: {0}")]
    Garbled(#[source] serde_json::Error),
    /// There are more agents than a cluster has nodes.
    #[error("the API server lists more than {MOST_AGENTS} agents")]
    TooMany,
    /// There is no agent.
    #[error(
        "there is no agent in namespace {0}: install the chart, or name the namespace with --agents"
    )]
    None(String),
    /// A name is invalid.
    #[error("'{0}' is not a name of a namespace or pod")]
    Name(String),
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    more: Option<String>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct Meta {
    name: String,
    #[serde(default)]
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    containers: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    ports: Vec<Port>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    container_port: u16,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    #[serde(rename = "hostIP")]
    host_ip: String,
    reason: Option<String>,
    message: Option<String>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    state: State,
    last_state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<serde::de::IgnoredAny>,
    waiting: Option<Reason>,
    terminated: Option<Reason>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reason {
    reason: Option<String>,
    message: Option<String>,
    exit_code: Option<i64>,
}

#[derive(Deserialize)]
struct Set {
    #[serde(default)]
    status: SetStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetStatus {
    desired_number_scheduled: u64,
}

/// Checks that a name can be part of a path: letters, digits, dots and dashes.
///
/// # Errors
/// [`AgentsError::Name`] if it cannot.
pub fn check_name(name: &str) -> Result<&str, AgentsError> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let is_name =
        (1..=253).contains(&name.len()) && name.bytes().all(fits) && !name.starts_with(['.', '-']);
    match is_name {
        true => Ok(name),
        false => Err(AgentsError::Name(shown(name))),
    }
}

/// Lists the agents in `namespace`.
///
/// # Errors
/// Any [`AgentsError`].
pub fn list(api: &Api, namespace: &str, deadline: Instant) -> Result<Agents, AgentsError> {
    let namespace = check_name(namespace)?;
    let limits = Limits {
        deadline,
        most_bytes: MOST_PAGE_BYTES,
    };
    let get = |path: &str| {
        api.get(path, &[], limits).map_err(|why| AgentsError::Api {
            namespace: namespace.to_owned(),
            why,
        })
    };
    let sets =
        format!("/apis/apps/v1/namespaces/{namespace}/daemonsets?labelSelector={SET_SELECTOR}");
    let wanted = wanted(&get(&sets)?)?;
    let mut all = Agents {
        wanted,
        ..Agents::default()
    };
    let mut more: Option<String> = None;
    loop {
        let mut path =
            format!("/api/v1/namespaces/{namespace}/pods?labelSelector={SELECTOR}&limit={PAGE}");
        if let Some(token) = &more {
            path += &format!("&continue={}", escaped(token));
        }
        let (agents, next) = page(&get(&path)?)?;
        let is_empty = agents.is_empty();
        all.agents.extend(agents);
        if all.agents.len() > MOST_AGENTS {
            return Err(AgentsError::TooMany);
        }
        more = next;
        // A server that announces more pages and sends empty ones would continue for ever.
        if more.is_none() || is_empty {
            break;
        }
    }
    if all.agents.is_empty() && wanted == 0 {
        return Err(AgentsError::None(namespace.to_owned()));
    }
    all.agents.sort_by(|a, b| a.node.cmp(&b.node));
    Ok(all)
}

/// Identity and place of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// UID of the pod.
    pub uid: String,
    /// Node of the pod; `None` while it is on none.
    pub node: Option<String>,
}

/// Reads the place of the pod `name` in `namespace`.
///
/// # Errors
/// Any [`AgentsError`].
pub fn place(
    api: &Api,
    namespace: &str,
    name: &str,
    deadline: Instant,
) -> Result<Place, AgentsError> {
    let (namespace, name) = (check_name(namespace)?, check_name(name)?);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let limits = Limits {
        deadline,
        most_bytes: MOST_PAGE_BYTES,
    };
    let body = api
        .get(&path, &[], limits)
        .map_err(|why| AgentsError::Api {
            namespace: namespace.to_owned(),
            why,
        })?;
    let pod: Pod = serde_json::from_slice(&body).map_err(AgentsError::Garbled)?;
    Ok(Place {
        uid: pod.metadata.uid,
        node: pod.spec.node_name,
    })
}

fn wanted(body: &[u8]) -> Result<u64, AgentsError> {
    let sets: List<Set> = serde_json::from_slice(body).map_err(AgentsError::Garbled)?;
    let all = sets.items.iter().map(|s| s.status.desired_number_scheduled);
    Ok(all.fold(0, u64::saturating_add))
}

/// Agents of a page, and the token of the next page.
fn page(body: &[u8]) -> Result<(Vec<Agent>, Option<String>), AgentsError> {
    let list: List<Pod> = serde_json::from_slice(body).map_err(AgentsError::Garbled)?;
    let agents = list.items.into_iter().map(agent).collect();
    Ok((agents, list.metadata.more.filter(|token| !token.is_empty())))
}

fn agent(pod: Pod) -> Agent {
    let gateway = pod.spec.containers.iter().find(|c| c.name == "gateway");
    let port = gateway
        .and_then(|c| c.ports.first())
        .map(|p| p.container_port);
    let why_not = match (check_name(&pod.metadata.name), port) {
        (Err(why), _) => Some(why.to_string()),
        (Ok(_), None) => {
            Some("it has no gateway: set gateway.enabled in the chart's values".to_owned())
        }
        (Ok(_), Some(_)) => trouble(&pod),
    };
    Agent {
        node: shown(pod.spec.node_name.as_deref().unwrap_or(&pod.metadata.name)),
        address: pod.status.host_ip.parse().ok(),
        port: port.unwrap_or_default(),
        pod: pod.metadata.name,
        why_not,
    }
}

/// Reason why the gateway of a pod does not run; `None` if it runs.
fn trouble(pod: &Pod) -> Option<String> {
    let status = &pod.status;
    let runs = |c: &ContainerStatus| c.name == "gateway" && c.state.running.is_some();
    if status.container_statuses.iter().any(runs) {
        return None;
    }
    let all = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses);
    for container in all {
        let states = [&container.state, &container.last_state];
        for reason in states
            .iter()
            .flat_map(|s| [&s.terminated, &s.waiting])
            .flatten()
        {
            // A container that has done its work is no trouble.
            let message = reason.message.as_deref().filter(|m| !m.trim().is_empty());
            if reason.exit_code == Some(0)
                || (message.is_none() && reason.reason.as_deref() == Some("PodInitializing"))
            {
                continue;
            }
            let what = message
                .or(reason.reason.as_deref())
                .unwrap_or("it does not run");
            let last = what.lines().rfind(|l| !l.trim().is_empty()).unwrap_or(what);
            return Some(format!("{}: {}", shown(&container.name), shown(last)));
        }
    }
    let message = status.message.as_deref().or(status.reason.as_deref());
    Some(match message {
        Some(message) => format!("{}: {}", shown(&status.phase), shown(message)),
        None => format!("its pod is {}", shown(&status.phase)),
    })
}

/// Percent-encoding of everything except letters and digits.
fn escaped(text: &str) -> String {
    let one = |b: u8| match b.is_ascii_alphanumeric() {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn of(pod: &str) -> Agent {
        let (mut agents, _) = page(format!(r#"{{"items":[{pod}]}}"#).as_bytes()).unwrap();
        agents.remove(0)
    }

    #[test]
    fn an_agent_that_runs_is_asked_on_its_port() {
        let agent = of(
            r#"{"metadata":{"name":"cofferdam-x7","uid":"u"},"spec":{"nodeName":"node1","containers":[
            {"name":"agent"},{"name":"gateway","ports":[{"name":"gateway","containerPort":9479}]}]},
            "status":{"phase":"Running","hostIP":"192.0.2.1",
            "containerStatuses":[{"name":"gateway","state":{"running":
            {"startedAt":"t"}}}]}}"#,
        );
        assert_eq!(agent.address, Some([192, 0, 2, 1].into()));
        assert_eq!(agent.node, "node1");
        assert_eq!((agent.port, agent.why_not), (9479, None));
    }

    /// Promise 25.
    #[test]
    fn an_agent_that_does_not_run_has_a_reason() {
        let ports = r#""spec":{"nodeName":"n","containers":
            [{"name":"gateway","ports":[{"containerPort":9479}]}]}"#;
        for (status, words) in [
            (
                r#"{"phase":"Pending","initContainerStatuses":[{"name":"doctor","state":{"terminated":{"exitCode":3,
                "reason":"Error",
                "message":"{\n}\ncofferdam: the accounting cannot run on this host: no BTF\n"}}}],
                "containerStatuses":[{"name":"gateway","state":{"waiting":{"reason":"PodInitializing"}}}]}"#,
                "doctor: cofferdam: the accounting cannot run on this host: no BTF",
            ),
            (
                r#"{"phase":"Pending","initContainerStatuses":[{"name":"doctor","state":{"waiting":
                {"reason":"CrashLoopBackOff"}},
                "lastState":{"terminated":{"exitCode":3,"message":"no BTF"}}}]}"#,
                "CrashLoopBackOff",
            ),
            (
                r#"{"phase":"Pending","containerStatuses":[{"name":"gateway","state":{"waiting":
                {"reason":"ImagePullBackOff","message":"Back-off pulling image \"x\""}}}]}"#,
                "Back-off pulling",
            ),
            (
                r#"{"phase":"Failed","reason":"Evicted","message":"low on memory"}"#,
                "Failed: low on memory",
            ),
            (r#"{"phase":"Pending"}"#, "its pod is Pending"),
        ] {
            let agent = of(&format!(
                r#"{{"metadata":{{"name":"c"}},{ports},"status":{status}}}"#
            ));
            let why = agent.why_not.unwrap();
            assert!(why.contains(words), "{why}");
        }
        let agent = of(r#"{"metadata":{"name":"c"},"spec":{"containers":[{"name":"agent"}]}}"#);
        assert!(agent.why_not.unwrap().contains("gateway.enabled"));
    }

    /// Promise 73.
    #[test]
    fn names_that_would_change_a_path_are_refused() {
        for name in [
            "",
            "..",
            "../x",
            "a/b",
            "a?b",
            "a b",
            "A",
            "-a",
            "a%2f",
            "a\r\nX: y",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["a", "cofferdam-8x2lp", "node-1.example"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let agent = of(r#"{"metadata":{"name":"../../secrets"},"spec":{"containers":[]}}"#);
        assert!(agent.why_not.is_some());
    }

    #[test]
    fn the_next_page_is_requested_by_the_servers_token() {
        let (_, more) = page(br#"{"metadata":{"continue":"a+b/c="},"items":[]}"#).unwrap();
        assert_eq!(escaped(&more.unwrap()), "a%2Bb%2Fc%3D");
        assert_eq!(
            page(br#"{"metadata":{"continue":""},"items":[]}"#)
                .unwrap()
                .1,
            None
        );
    }

    #[test]
    fn a_body_that_is_not_a_list_is_an_error() {
        for body in [
            "",
            "[]",
            "{}",
            "null",
            r#"{"items":[{}]}"#,
            r#"{"items":[{"metadata":{"name":1}}]}"#,
        ] {
            assert!(page(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!(
            wanted(br#"{"items":[{"status":{"desiredNumberScheduled":3}},{"status":{}}]}"#)
                .unwrap(),
            3
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = page(&bytes);
            let _ = wanted(&bytes);
        }

        #[test]
        fn no_status_panics(text in "\\PC{0,80}", code in any::<i64>()) {
            let text = serde_json::to_string(&text).unwrap();
            let pod = format!(r#"{{"metadata":{{"name":{text}}},
                "spec":{{"nodeName":{text},"containers":[]}},
                "status":{{"phase":{text},"containerStatuses":[{{"name":{text},"state":
                {{"terminated":{{"exitCode":{code},"message":{text}}}}}}}]}}}}"#);
            let agent = of(&pod);
            prop_assert!(agent.why_not.is_some());
        }
    }
}
