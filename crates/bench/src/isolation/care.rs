//! Cofferdam's own agent, looking after the tenants of a stage while it lives.

use super::experiment::Experiment;
use super::stage::Stage;
use crate::agent::process::Agent;
use crate::error::BenchError;
use cofferdam_lab::names::CGROUP_PREFIX;

/// Starts it with rules for every tenant that the stage will have: network CPU enforced, and
/// for those with a limit a strict reservation of the CPU limit.
pub(super) fn start(experiment: &Experiment, stage: &Stage) -> Result<Agent, BenchError> {
    let rules = rules(&stage.tag, experiment.cpus());
    Agent::start(&stage.tenant_dir("agent")?, &rules, "off")
}

/// The first rule that matches wins: who has no limit gets no reservation either.
fn rules(tag: &str, cpus: f64) -> String {
    let name = format!("{CGROUP_PREFIX}{tag}-");
    format!(
        "[[rule]]\nmatch = \"{name}?-free*\"\nnetwork_cpu = \"enforce\"\n\n\
         [[rule]]\nmatch = \"{name}*\"\nnetwork_cpu = \"enforce\"\ncpu = \"strict\"\ncpus = {cpus:?}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_limit_gets_no_reservation() {
        let text = rules("7-i0", 0.5);
        let free = text.find("cofferdam-bench-7-i0-?-free*").unwrap();
        let all = text.find("\"cofferdam-bench-7-i0-*\"").unwrap();
        let strict = text.find("cpus = 0.5").unwrap();
        assert!(free < all && all < strict, "{text}");
        assert_eq!(text.matches("strict").count(), 1);
    }
}
