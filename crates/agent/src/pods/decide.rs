//! Decision about a container from the requests of its pod and from the rules.
//!
//! Order of precedence, for each class by itself:
//!
//! 1. a rule that was set over the socket;
//! 2. the annotation, if the pod's namespace may ask; the container's before the pod's;
//! 3. the first rule of the configuration that matches;
//! 4. observe and standard.
//!
//! One exception: an annotation does not lift `network_cpu = "enforce"` of a rule. A pod that
//! floods others must not be able to opt out.

use super::Claim;
use super::claim::short_text;
use crate::rules::Rule;
use cofferdam_nri::Container;
use cofferdam_types::{CpuAmount, CpuPolicy, Degradation, NetworkCpu, Policy};

/// The pod's namespace may not ask.
pub(crate) const MAY_NOT_ASK: &str = "namespace_may_not_ask";
/// There is no request to reserve.
pub(crate) const NO_REQUEST: &str = "cpu_request_missing";
/// The kubelet pins containers itself.
pub(crate) const CPU_MANAGER: &str = "cpu_manager_conflict";
/// A rule takes precedence over an annotation.
pub(crate) const OVERRULED: &str = "annotation_overruled";

/// Classes of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub policy: Policy,
    /// Whether its idle CPUs may be lent.
    pub lends: bool,
    /// Whether its latency is measured even if not all containers' is.
    pub measures_latency: bool,
    /// Requests that are refused.
    pub problems: Vec<Degradation>,
}

impl Decision {
    /// Decision for a container to which only a rule applies.
    pub fn of_rule(policy: Policy) -> Decision {
        Decision {
            policy,
            lends: true,
            measures_latency: false,
            problems: Vec::new(),
        }
    }
}

/// Decides for `container`, whose annotations are in `claim`. `may_ask` says whether its namespace
/// may ask. `is_pinned` says whether another party has chosen its CPUs.
pub(crate) fn decide(
    rule: Option<&Rule>,
    claim: Claim,
    container: &Container,
    may_ask: bool,
    is_pinned: bool,
) -> Decision {
    let policy = rule.map(|r| r.policy).unwrap_or_default();
    let mut decision = Decision::of_rule(policy);
    let by_request = rule.is_some_and(|r| r.by_request);
    let is_live = rule.is_some_and(Rule::is_set_over_socket);
    decision.problems = claim.problems.clone();
    let problems = &mut decision.problems;
    let mut refuse = |name: &str, text: String| {
        problems.push(Degradation {
            name: name.to_owned(),
            text,
        });
    };
    let claim = match claim.is_empty() || may_ask {
        true => claim,
        false => {
            let namespace = short_text(&container.pod.namespace);
            refuse(
                MAY_NOT_ASK,
                format!(
                    "pods of namespace '{namespace}' may not ask by annotation: add it to may_ask \
                     of [nri], or remove the annotations"
                ),
            );
            Claim::default()
        }
    };
    if is_live && (claim.strict.is_some() || claim.network_cpu.is_some()) {
        refuse(
            OVERRULED,
            "its annotations have no effect while a rule that was set over the socket matches it"
                .to_owned(),
        );
    }
    let asks = |of: Option<NetworkCpu>| of.filter(|_| !is_live);
    match (asks(claim.network_cpu), policy.network_cpu) {
        (Some(NetworkCpu::Observe), NetworkCpu::Enforce) => refuse(
            OVERRULED,
            format!(
                "annotation {}/network-cpu does not lift what the rule in line {} enforces",
                super::PREFIX,
                rule.map_or(0, |r| r.line)
            ),
        ),
        (Some(requested_cpu), _) => decision.policy.network_cpu = requested_cpu,
        (None, _) => {}
    }
    let strict = claim.strict.filter(|_| !is_live);
    let amount = match (strict, policy.cpu) {
        (Some(false), _) => None,
        (None, CpuPolicy::Strict(amount)) => Some(Ok(amount)),
        (None, CpuPolicy::Standard) if !by_request => None,
        // The pod asks, or a rule asks for what the pod requests.
        (None | Some(true), _) => Some(requested(container)),
    };
    decision.policy.cpu = match amount {
        None => CpuPolicy::Standard,
        Some(_) if is_pinned => {
            refuse(
                CPU_MANAGER,
                format!(
                    "its CPUs are not reserved: the kubelet's CPU manager has bound it to {}; use \
                     cpuManagerPolicy none on this node, or leave reservations to the kubelet",
                    short_text(&container.resources.cpus)
                ),
            );
            CpuPolicy::Standard
        }
        Some(Ok(amount)) => CpuPolicy::Strict(amount),
        Some(Err(why)) => {
            refuse(NO_REQUEST, why);
            CpuPolicy::Standard
        }
    };
    decision.lends = claim.lends.unwrap_or(true);
    decision.measures_latency = claim.latency.unwrap_or(false);
    decision
}

/// CPUs that the container requests of the scheduler, which are the ones to reserve.
fn requested(container: &Container) -> Result<CpuAmount, String> {
    let milli = container.resources.request_milli_cpus.ok_or_else(|| {
        "its CPUs are not reserved: it has no CPU request; give it resources.requests.cpu, \
         such as \"1500m\""
            .to_owned()
    })?;
    CpuAmount::try_from(f64::from(milli) / 1000.0)
        .map_err(|why| format!("its CPUs are not reserved: its request is no amount: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_nri::{Pod, Resources};
    use std::sync::Arc;

    fn container(request: Option<u32>) -> Container {
        Container {
            id: "c".into(),
            name: "app".into(),
            labels: Default::default(),
            annotations: Default::default(),
            resources: Resources {
                request_milli_cpus: request,
                ..Resources::default()
            },
            cgroups_path: String::new(),
            is_stopped: false,
            pod: Arc::new(Pod {
                id: "p".into(),
                namespace: "shop".into(),
                name: "web".into(),
                uid: "u".into(),
                qos: None,
                labels: Default::default(),
                annotations: Default::default(),
                netns: None,
            }),
        }
    }

    fn rule(line: usize, network_cpu: NetworkCpu, cpu: CpuPolicy) -> Rule {
        Rule {
            line,
            matcher: "*".parse().unwrap(),
            policy: Policy { network_cpu, cpu },
            by_request: false,
        }
    }

    fn names(decision: &Decision) -> Vec<&str> {
        decision.problems.iter().map(|p| p.name.as_str()).collect()
    }

    const STRICT: Claim = Claim {
        strict: Some(true),
        network_cpu: None,
        latency: None,
        lends: None,
        problems: Vec::new(),
    };

    #[test]
    fn a_pod_that_may_ask_gets_what_it_requests() {
        let given = decide(None, STRICT, &container(Some(1500)), true, false);
        let amount: CpuAmount = "1.5".parse().unwrap();
        assert_eq!(given.policy.cpu, CpuPolicy::Strict(amount));
        assert!(given.problems.is_empty() && given.lends);
    }

    /// Promise 39.
    #[test]
    fn an_impossible_request_is_refused_by_name() {
        for (request, may_ask, is_pinned, name) in [
            (Some(1500), false, false, MAY_NOT_ASK),
            (None, true, false, NO_REQUEST),
            (Some(1000), true, true, CPU_MANAGER),
        ] {
            let given = decide(None, STRICT, &container(request), may_ask, is_pinned);
            assert_eq!(given.policy.cpu, CpuPolicy::Standard);
            assert_eq!(names(&given), [name]);
        }
    }

    /// Promise 39.
    #[test]
    fn annotations_rank_between_live_rules_and_the_file() {
        let amount: CpuAmount = "1".parse().unwrap();
        let file = rule(7, NetworkCpu::Observe, CpuPolicy::Strict(amount));
        let standard = Claim {
            strict: Some(false),
            network_cpu: Some(NetworkCpu::Enforce),
            lends: Some(false),
            latency: Some(true),
            ..Claim::default()
        };
        let given = decide(Some(&file), standard.clone(), &container(None), true, false);
        assert_eq!(given.policy.cpu, CpuPolicy::Standard);
        assert_eq!(given.policy.network_cpu, NetworkCpu::Enforce);
        assert!(!given.lends && given.measures_latency && given.problems.is_empty());
        let live = rule(0, NetworkCpu::Observe, CpuPolicy::Strict(amount));
        let given = decide(Some(&live), standard, &container(None), true, false);
        assert_eq!(given.policy, live.policy);
        assert_eq!(names(&given), [OVERRULED]);
    }

    /// Promise 39.
    #[test]
    fn nobody_opts_out_of_enforcement() {
        let file = rule(3, NetworkCpu::Enforce, CpuPolicy::Standard);
        let observe = Claim {
            network_cpu: Some(NetworkCpu::Observe),
            ..Claim::default()
        };
        let given = decide(Some(&file), observe, &container(None), true, false);
        assert_eq!(given.policy.network_cpu, NetworkCpu::Enforce);
        assert_eq!(names(&given), [OVERRULED]);
        assert!(given.problems[0].text.contains("line 3"));
    }

    /// Promise 39.
    #[test]
    fn a_rule_may_reserve_what_each_container_requests() {
        let mut file = rule(3, NetworkCpu::Observe, CpuPolicy::Standard);
        file.by_request = true;
        let given = decide(
            Some(&file),
            Claim::default(),
            &container(Some(250)),
            false,
            false,
        );
        let amount: CpuAmount = "0.25".parse().unwrap();
        assert_eq!(given.policy.cpu, CpuPolicy::Strict(amount));
        assert!(given.problems.is_empty());
    }
}
