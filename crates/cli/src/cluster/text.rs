//! A cluster as text for people.

use crate::exit::one_line;
use crate::table;
use crate::units;
use cofferdam_cluster::merge::{ClusterReport, FlowRow, NO_NAMESPACE, SilentAgent};
use std::fmt::Write;
use std::time::Duration;

/// Most agents without an answer, and most problems, in the lists; `--json` has all.
const MOST_LISTED: usize = 20;

/// Removes the rows that do not concern `namespace`.
pub fn only(report: &mut ClusterReport, namespace: &str) {
    let prefix = format!("{namespace}/");
    let concerns = |flow: &FlowRow| {
        let of = |name: &str| name.starts_with(&prefix);
        of(&flow.victim) || flow.offender.as_deref().is_some_and(of)
    };
    report.namespaces.retain(|row| row.namespace == namespace);
    report.pods.retain(|row| row.namespace == namespace);
    report.flows.retain(concerns);
    report.pods_total = report.pods.len() as u64;
    report.flows_total = report.flows.len() as u64;
}

/// Tables of who harms whom, at most `rows` rows each.
pub fn top(report: &ClusterReport, rows: usize, width: Option<u16>) -> String {
    let mut text = format!("{}\n", headline(report));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", answered(report));
    if !report.namespaces.is_empty() {
        let mut table = table::plain(width);
        table.set_header([
            "namespace",
            "pods",
            "caused",
            "others paid",
            "paid for others",
            "lost to others",
            "reserved",
        ]);
        for row in report.namespaces.iter().take(rows) {
            table.add_row([
                one_line(&row.namespace),
                row.pods.to_string(),
                cpus(row.caused_cpus),
                cpus(row.harm_cpus),
                cpus(row.paid_cpus),
                cpus(row.lost_cpus),
                cpus(row.reserved_cpus),
            ]);
        }
        section(
            &mut text,
            table,
            (report.namespaces.len(), rows, "namespaces"),
        );
    }
    if !report.pods.is_empty() {
        let mut table = table::plain(width);
        table.set_header([
            "pod",
            "node",
            "caused",
            "others paid",
            "paid for others",
            "lost to others",
            "packets/s",
        ]);
        for row in report.pods.iter().take(rows) {
            let pod = &row.figures;
            table.add_row([
                one_line(&pod.name),
                one_line(&row.node),
                cpus(pod.caused_cpus),
                cpus(pod.harm_cpus),
                cpus(pod.paid_cpus),
                cpus(pod.lost_cpus),
                units::count(pod.packets_per_s),
            ]);
        }
        let total = usize::try_from(report.pods_total).unwrap_or(usize::MAX);
        section(&mut text, table, (total, rows, "pods"));
    }
    if !report.flows.is_empty() {
        let mut table = table::plain(width);
        table.set_header(["pays", "for the packets of", "node", "CPUs"]);
        for row in report.flows.iter().take(rows) {
            let offender = row.offender.as_deref().unwrap_or("no container");
            table.add_row([
                one_line(&row.victim),
                one_line(offender),
                one_line(&row.node),
                cpus(row.cpus),
            ]);
        }
        let total = usize::try_from(report.flows_total).unwrap_or(usize::MAX);
        section(&mut text, table, (total, rows, "pairs"));
    }
    text += "\nFigures are CPUs; '-' stands for containers outside of pods.\n";
    text + &unanswered(&report.unanswered)
}

/// Tables of the agents, their nodes and problems.
pub fn status(report: &ClusterReport, width: Option<u16>) -> String {
    let mut text = format!("{}\n\n", answered(report));
    let mut table = table::plain(width);
    table.set_header([
        "node",
        "agent",
        "up",
        "CPUs",
        "containers",
        "rules",
        "changes",
        "reserved",
        "problems",
    ]);
    for row in &report.nodes {
        let up = Duration::from_secs(row.uptime_s.clamp(0.0, 1e12) as u64);
        table.add_row([
            one_line(&row.node),
            one_line(&row.version),
            units::duration(up),
            row.cpus.to_string(),
            row.containers.to_string(),
            row.rules.to_string(),
            row.changes_in_force.to_string(),
            cpus(row.reserved_cpus),
            row.problems_total.to_string(),
        ]);
    }
    table::numbers_right(&mut table);
    text += &table::finish(&table);
    let all = report.nodes.iter();
    let problems: Vec<String> = all
        .flat_map(|row| {
            let of = |p| format!("{}: {}", one_line(&row.node), one_line(p));
            row.problems.iter().map(move |p| of(&p.text))
        })
        .collect();
    let total: u64 = report
        .nodes
        .iter()
        .fold(0, |sum, row| sum.saturating_add(row.problems_total));
    if !problems.is_empty() {
        text.push('\n');
        for line in problems.iter().take(MOST_LISTED) {
            let _ = writeln!(text, "{line}");
        }
        let shown = problems.len().min(MOST_LISTED) as u64;
        if total > shown {
            let _ = writeln!(
                text,
                "and {} more problems (kubectl cofferdam status --json)",
                total - shown
            );
        }
    }
    text += &unanswered(&report.unanswered);
    if problems.is_empty() && report.unanswered.is_empty() {
        text += "\nAll is in force.\n";
    }
    text
}

/// Sentence about the largest harm.
fn headline(report: &ClusterReport) -> String {
    match report.flows.iter().find(|flow| flow.offender.is_some()) {
        Some(flow) => format!(
            "{} pays {} CPUs for the packets of {}, on node {}.",
            one_line(&flow.victim),
            cpus(flow.cpus),
            one_line(flow.offender.as_deref().unwrap_or(NO_NAMESPACE)),
            one_line(&flow.node),
        ),
        None => "No pod pays for the packets of another.".to_owned(),
    }
}

/// Number of nodes that answered, out of how many, and the time it took.
fn answered(report: &ClusterReport) -> String {
    let (answered, silent) = (report.nodes.len(), report.unanswered.len());
    let wanted = report.nodes_wanted.max((answered + silent) as u64);
    format!(
        "{answered} of {wanted} nodes answered, in {:.2} s.",
        report.took_s
    )
}

/// Nodes that did not answer, with the reason.
fn unanswered(all: &[SilentAgent]) -> String {
    let mut text = String::new();
    if all.is_empty() {
        return text;
    }
    text += "\nNo answer from:\n";
    for one in all.iter().take(MOST_LISTED) {
        let _ = writeln!(
            text,
            "  {} ({}): {}",
            one_line(&one.node),
            one_line(&one.pod),
            one_line(&one.why)
        );
    }
    if all.len() > MOST_LISTED {
        let _ = writeln!(
            text,
            "  and {} more (--json lists all)",
            all.len() - MOST_LISTED
        );
    }
    text
}

fn section(
    text: &mut String,
    mut table: comfy_table::Table,
    (total, rows, what): (usize, usize, &str),
) {
    table::numbers_right(&mut table);
    let _ = write!(text, "\n{}", table::finish(&table));
    if total > rows {
        let _ = writeln!(text, "and {} more {what} (--rows, or --json)", total - rows);
    }
}

/// CPUs with two decimals; `0` for nothing.
pub fn cpus(value: f64) -> String {
    match value.abs() < 0.005 {
        true => "0".to_owned(),
        false => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_cluster::merge::{NamespaceRow, NodeRow, PodRow};
    use cofferdam_records::node::PodRecord;
    use cofferdam_records::status::DegradedRecord;

    fn report() -> ClusterReport {
        let pod = |name: &str, harm, paid| PodRow {
            node: "n1".to_owned(),
            namespace: name.split('/').next().unwrap().to_owned(),
            figures: PodRecord {
                name: name.to_owned(),
                pod: true,
                harm_cpus: harm,
                paid_cpus: paid,
                ..PodRecord::default()
            },
        };
        ClusterReport {
            nodes_wanted: 3,
            took_s: 0.12,
            nodes: vec![NodeRow {
                node: "n1".to_owned(),
                version: "0.1.0".to_owned(),
                problems: vec![DegradedRecord {
                    name: "x".to_owned(),
                    text: "a\nproblem\u{1b}[2J".to_owned(),
                }],
                problems_total: 7,
                ..NodeRow::default()
            }],
            unanswered: vec![SilentAgent {
                node: "n2".to_owned(),
                pod: "cofferdam-x".to_owned(),
                why: "no complete answer in time".to_owned(),
            }],
            namespaces: vec![NamespaceRow {
                namespace: "shop".to_owned(),
                harm_cpus: 0.35,
                ..NamespaceRow::default()
            }],
            pods: vec![pod("shop/web", 0.35, 0.0), pod("bank/db", 0.0, 0.35)],
            pods_total: 2,
            flows: vec![FlowRow {
                node: "n1".to_owned(),
                offender: Some("shop/web".to_owned()),
                victim: "bank/db".to_owned(),
                cpus: 0.35,
            }],
            flows_total: 1,
            ..ClusterReport::default()
        }
    }

    #[test]
    fn the_first_line_names_who_pays_and_for_whom() {
        let text = top(&report(), 20, None);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "bank/db pays 0.35 CPUs for the packets of shop/web, on node n1."
        );
        assert!(text.contains("1 of 3 nodes answered, in 0.12 s."), "{text}");
        assert!(
            text.contains("  n2 (cofferdam-x): no complete answer in time"),
            "{text}"
        );
    }

    /// Promise 73.
    #[test]
    fn names_of_a_node_cannot_control_the_terminal() {
        let text = status(&report(), Some(80));
        assert!(text.contains(r"n1: a problem\x1b[2J"), "{text}");
        assert!(text.contains("and 6 more problems"), "{text}");
        assert!(
            !text.contains('\u{1b}') && !text.contains("All is in force"),
            "{text}"
        );
    }

    #[test]
    fn a_namespace_sees_both_sides_of_its_flows() {
        for (namespace, pods) in [("shop", 1), ("bank", 1), ("other", 0)] {
            let mut report = report();
            only(&mut report, namespace);
            assert_eq!(
                (report.pods.len(), report.flows.len()),
                (pods, pods),
                "{namespace}"
            );
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mut many = report();
        many.pods = vec![many.pods[0].clone(); 30];
        many.pods_total = 4000;
        assert!(top(&many, 20, None).contains("and 3980 more pods"));
    }
}
