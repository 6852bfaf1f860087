//! Protected half of the experiment: Cofferdam's agent manages the tenants of a testbed.

use super::experiment::Experiment;
use super::runtime::LABEL;
use super::testbed::IsolationTestbed;
use crate::agent::process::Agent;
use crate::error::BenchError;
use crate::isolation::data::RuntimeKind;
use cofferdam_lab::names::CGROUP_PREFIX;

/// Settings for tenants that are pods: the agent discovers them by the runtime's socket.
const NRI: &str = "[nri]\nsocket = \"/var/run/nri/nri.sock\"\n\n";

/// Starts an agent with rules for all tenants of the testbed: network CPU is enforced, and tenants
/// with a limit get a strict reservation of their CPU limit.
pub(super) fn start(
    experiment: &Experiment,
    runtime: RuntimeKind,
    testbed: &IsolationTestbed,
) -> Result<Agent, BenchError> {
    let rules = rules(runtime, &testbed.tag, experiment.cpus());
    Agent::start(&testbed.tenant_dir("agent")?, &rules, "off")
}

/// Rules for the tenants. The first that matches wins: a tenant without a limit gets no
/// reservation.
fn rules(runtime: RuntimeKind, tag: &str, cpus: f64) -> String {
    let (settings, name) = match runtime {
        RuntimeKind::Kubernetes => (NRI, format!("label:{LABEL}={CGROUP_PREFIX}{tag}-")),
        _ => ("", format!("{CGROUP_PREFIX}{tag}-")),
    };
    format!(
        "{settings}[[rule]]\nmatch = \"{name}?-free*\"\nnetwork_cpu = \"enforce\"\n\n\
         [[rule]]\nmatch = \"{name}*\"\nnetwork_cpu = \"enforce\"\ncpu = \"strict\"\ncpus = \
         {cpus:?}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_without_a_limit_gets_no_reservation() {
        let text = rules(RuntimeKind::Podman, "7-i0", 0.5);
        let free = text.find("cofferdam-bench-7-i0-?-free*").unwrap();
        let all = text.find("\"cofferdam-bench-7-i0-*\"").unwrap();
        let strict = text.find("cpus = 0.5").unwrap();
        assert!(free < all && all < strict, "{text}");
        assert_eq!(text.matches("strict").count(), 1);
        let pods = rules(RuntimeKind::Kubernetes, "7-i0", 0.5);
        assert!(pods.starts_with("[nri]"), "{pods}");
        let label = "\"label:cofferdam-bench=cofferdam-bench-7-i0-*\"";
        assert!(pods.contains(label), "{pods}");
    }
}
