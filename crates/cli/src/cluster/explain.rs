//! `kubectl cofferdam explain POD`: asks the agent of the pod's node.

use super::session::Session;
use super::text::cpus;
use crate::args::KubectlExplainArgs;
use crate::exit::{Failure, Outcome, one_line};
use crate::interrupt::Interrupt;
use crate::output::{Output, json};
use cofferdam_records::explain::{EXPLAIN, Explanation, Finding, text};
use cofferdam_records::node::{NODE, NodeReport, PodRecord};
use std::fmt::Write;

/// Most neighbours that are named.
const MOST_NAMED: usize = 10;

/// Explains a pod.
pub fn run(args: &KubectlExplainArgs, interrupt: &Interrupt) -> Outcome {
    let session = Session::open(&args.cluster)?;
    let (namespace, name) = match args.pod.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name),
        None => (
            session.default_namespace(args.namespace.as_deref()),
            args.pod.as_str(),
        ),
    };
    let node = session.node_of(&namespace, name)?;
    let agent = session.agent_of(&node)?;
    let report: NodeReport = session.document(agent, ("/v1/node", NODE), interrupt)?;
    let explanation: Explanation = session.document(agent, ("/v1/explain", EXPLAIN), interrupt)?;
    let full = format!("{namespace}/{name}");
    let Some(pod) = report.pods.iter().find(|p| p.pod && p.name == full) else {
        return Err(Failure::failed(format!(
            "the agent on node {node} does not list pod {full}: \
             it has just started or ended, or is not among \
             the {} of {} pods that the agent names",
            report.pods.len(),
            report.pods_total
        )));
    };
    let explanation = about(explanation, pod);
    let text = match args.cluster.json {
        true => json(&explanation)?,
        false => story(pod, &report, &node, &explanation),
    };
    Output::stdout().write(&text)
}

/// The explanation with only the findings that concern `pod`.
fn about(mut explanation: Explanation, pod: &PodRecord) -> Explanation {
    let concerns = |finding: &Finding| {
        let parties = [&finding.offender, &finding.victim];
        let mut parties = parties.iter().filter_map(|p| p.as_ref());
        parties.any(|p| pod.cgroup_ids.contains(&p.cgroup_id))
    };
    explanation.findings.retain(concerns);
    explanation.summary = match explanation.findings.first() {
        Some(worst) => worst.sentence.clone(),
        None => format!("Nothing is wrong with {}.", pod.name),
    };
    explanation
}

fn story(pod: &PodRecord, report: &NodeReport, node: &str, explanation: &Explanation) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{} on node {}: uses {} CPUs, causes {} CPUs of network work, is charged {}; over {:.0} s",
        one_line(&pod.name),
        one_line(node),
        cpus(pod.used_cpus),
        cpus(pod.caused_cpus),
        cpus(pod.charged_cpus),
        report.interval_s,
    );
    if let Some(reserved) = pod.reserved_cpus {
        let _ = writeln!(
            out,
            "reserved: {} CPUs; lost to others: {}",
            cpus(reserved),
            cpus(pod.lost_cpus)
        );
    }
    let pays = report.flows.iter().filter(|f| f.victim == pod.name);
    for flow in pays.take(MOST_NAMED) {
        let offender = flow.offender.as_deref().unwrap_or("no container");
        let _ = writeln!(
            out,
            "pays {} CPUs for the packets of {}",
            cpus(flow.cpus),
            one_line(offender)
        );
    }
    let harms = report
        .flows
        .iter()
        .filter(|f| f.offender.as_deref() == Some(&pod.name));
    for flow in harms.take(MOST_NAMED) {
        let _ = writeln!(
            out,
            "costs {} {} CPUs by its packets",
            one_line(&flow.victim),
            cpus(flow.cpus)
        );
    }
    match explanation.findings.is_empty() {
        true => out + &format!("{}\n", one_line(&explanation.summary)),
        false => out + "\n" + &text::screen(explanation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_records::explain::{Figures, Party};
    use cofferdam_records::node::FlowRecord;

    fn finding(offender: u64, victim: u64) -> Finding {
        let party = |id| {
            Some(Party {
                name: format!("c{id}"),
                cgroup_id: id,
            })
        };
        Finding {
            name: "pays_for_others".to_owned(),
            sentence: format!("c{victim} pays for c{offender}."),
            reasons: vec![],
            offender: party(offender),
            victim: party(victim),
            cpus: Some(0.3),
            since: None,
            for_s: None,
            certainty: "certain".to_owned(),
            evidence: "3 readings".to_owned(),
            command: None,
            effect: String::new(),
        }
    }

    /// Promise 25.
    #[test]
    fn only_findings_that_concern_the_pod_are_printed() {
        let explanation = Explanation {
            schema: EXPLAIN.to_owned(),
            time: String::new(),
            agent: "running".to_owned(),
            summary: "c9 pays for c8.".to_owned(),
            findings: vec![finding(8, 9), finding(1, 2)],
            figures: Figures {
                readings: 3,
                measured_s: 6.0,
                containers: 4,
                caused_cpus: 0.3,
                most_paid_cpus: 0.3,
                most_paid_by: None,
                most_taken_cpus: None,
                most_taken_from: None,
                ledger_error_pct: 0.0,
            },
        };
        let pod = PodRecord {
            name: "bank/db".to_owned(),
            pod: true,
            cgroup_ids: vec![2, 3],
            ..PodRecord::default()
        };
        let about_pod = about(explanation.clone(), &pod);
        assert_eq!(about_pod.findings.len(), 1);
        assert_eq!(about_pod.summary, "c2 pays for c1.");
        let report = NodeReport {
            flows: vec![FlowRecord {
                offender: Some("shop/web".to_owned()),
                victim: "bank/db".to_owned(),
                cpus: 0.3,
            }],
            ..NodeReport::default()
        };
        let text = story(&pod, &report, "n1", &about_pod);
        assert!(
            text.contains("pays 0.30 CPUs for the packets of shop/web"),
            "{text}"
        );
        let calm = PodRecord {
            cgroup_ids: vec![7],
            ..pod
        };
        let about_pod = about(explanation, &calm);
        assert_eq!(about_pod.summary, "Nothing is wrong with bank/db.");
    }
}
