//! `kubectl cofferdam doctor`: capabilities of each node, as found when its agent's pod started.

use super::session::Session;
use crate::args::KubectlDoctorArgs;
use crate::exit::{Outcome, one_line};
use crate::interrupt::Interrupt;
use crate::output::{Output, json};
use crate::table;
use cofferdam_cluster::agents::Agent;
use cofferdam_cluster::ask::document;
use cofferdam_records::doctor::{DOCTOR, DoctorReport};
use std::collections::BTreeMap;

/// Asks one node or all.
pub fn run(args: &KubectlDoctorArgs, interrupt: &Interrupt) -> Outcome {
    let session = Session::open(&args.cluster)?;
    let width = table::terminal_width();
    if let Some(node) = &args.node {
        let agent = session.agent_of(node)?;
        let report: DoctorReport = session.document(agent, ("/v1/doctor", DOCTOR), interrupt)?;
        let text = match args.cluster.json {
            true => json(&report)?,
            false => one(&report, width),
        };
        return Output::stdout().write(&text);
    }
    let results = session.ask("/v1/doctor", interrupt, |_, body| {
        document::<DoctorReport>(body, DOCTOR)
    })?;
    let agents = &session.agents.agents;
    let text = match args.cluster.json {
        true => {
            let by_node: BTreeMap<&str, Result<&DoctorReport, &String>> = agents
                .iter()
                .zip(&results)
                .map(|(agent, result)| (agent.node.as_str(), result.as_ref()))
                .collect();
            json(&by_node)?
        }
        false => all(agents, &results, width),
    };
    Output::stdout().write(&text)
}

/// Table of all nodes with their missing capabilities.
fn all(agents: &[Agent], results: &[Result<DoctorReport, String>], width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header(["node", "accounting", "missing, or in part", "examined"]);
    for (agent, result) in agents.iter().zip(results) {
        let node = one_line(&agent.node);
        match result {
            Ok(report) => {
                let lacks = report.checks.iter().filter(|c| c.status != "yes");
                let lacks: Vec<String> = lacks.map(|c| one_line(&c.id)).collect();
                let runs = if report.accounting { "yes" } else { "no" };
                table.add_row([
                    node,
                    runs.to_owned(),
                    lacks.join(" "),
                    one_line(&report.time),
                ]);
            }
            Err(why) => {
                table.add_row([node, "no answer".to_owned(), one_line(why), String::new()]);
            }
        }
    }
    table::gaps(&mut table);
    table::finish(&table) + "\n'kubectl cofferdam doctor NODE' has the details and the remedies.\n"
}

/// Table of one node with all capabilities.
fn one(report: &DoctorReport, width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header(["capability", "", "found, and what to do"]);
    for check in &report.checks {
        let found = match &check.remedy {
            Some(remedy) => format!("{} → {remedy}", check.detail),
            None => check.detail.clone(),
        };
        table.add_row([
            one_line(&check.capability),
            one_line(&check.status),
            one_line(&found),
        ]);
    }
    table::gaps(&mut table);
    let verdict = match &report.accounting_blocker {
        None => "The accounting can run on this node.".to_owned(),
        Some(why) => one_line(why),
    };
    format!("{}\n{verdict}\n", table::finish(&table))
}
