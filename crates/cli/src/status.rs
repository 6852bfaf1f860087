//! `cofferdam status`.

use crate::args::StatusArgs;
use crate::exit::{Outcome, one_line};
use crate::output::{Output, json};
use crate::{table, units};
use cofferdam_agent::Client;
use cofferdam_records::diagnosis::{DiagnosisRecord, NeighbourRecord};
use cofferdam_records::status::{
    AccountingStatusRecord, ContainerRecord, HistoryRecord, MeansRecord, NriRecord, PolicyRecord,
    RuleRecord, StatusReport,
};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// Most rules in the list; `--json` has all.
const MOST_RULES: usize = 40;
/// Most containers in the list of losses to others.
const MOST_LOSSES: usize = 10;
/// Time after the agent's start, seconds, in which its CPU time is mainly that of loading its
/// programs.
const START_S: f64 = 60.0;

/// Asks the running agent and prints its answer.
pub fn run(args: &StatusArgs) -> Outcome {
    let report = Client::connect(&args.agent.path())?.status()?;
    let text = if args.json {
        json(&report)?
    } else {
        text(&report, table::terminal_width())
    };
    Output::stdout().write(&text)
}

/// Accounting mode, with its begin and reason.
fn ledger(accounting: &AccountingStatusRecord) -> String {
    let why = match accounting.why.as_str() {
        "quiet" => "no container is harmed and no client watches",
        "starting" => "the agent has just started",
        "few packets" => "few packets are handled, and windows would cost more",
        "watched" => "a client reads it",
        "pressed" => "a container pays for the packets of others",
        "enforced" => "network CPU is being enforced",
        "configured" => "so configured",
        other => other,
    };
    let length = |seconds: f64| {
        let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        humantime::format_duration(length)
    };
    let windows = match accounting.mode.as_str() {
        "sampled" => format!(
            ", estimated from {} in each {}",
            length(accounting.window_s),
            length(accounting.period_s)
        ),
        _ => String::new(),
    };
    let (mode, since) = (one_line(&accounting.mode), one_line(&accounting.since));
    format!("{mode} since {since}: {}{windows}", one_line(why))
}

/// Begin, place and size of the history.
fn history(history: Option<&HistoryRecord>) -> String {
    let Some(history) = history else {
        return "not kept".to_owned();
    };
    let path = one_line(&history.path);
    match &history.since {
        Some(since) => format!(
            "since {since} in {path}, {:.1} MiB of {} MiB",
            history.bytes as f64 / f64::from(1 << 20),
            history.limit_bytes >> 20,
        ),
        None => format!("nothing yet in {path}"),
    }
}

/// Runtime that reports its pods, and the number of pods.
fn runtime(nri: &NriRecord) -> String {
    let (Some(runtime), Some(version)) = (&nri.runtime, &nri.version) else {
        return format!("not connected at {}", one_line(&nri.socket));
    };
    let of = one_line(&format!("{runtime} {version}"));
    let (pods, containers) = (nri.pods, nri.containers);
    format!("{of} over NRI, {pods} pods, {containers} containers")
}

/// Text for people: the agent, its rules, their containers, and problems.
fn text(report: &StatusReport, width: Option<u16>) -> String {
    let mut out = String::new();
    let agent = &report.agent;
    let uptime = Duration::from_secs(agent.uptime_s as u64);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "agent {} (pid {}), up {}, {}, {:.1} MiB",
        agent.version,
        agent.pid,
        units::duration(uptime),
        cost(agent.cpu_s, agent.uptime_s),
        agent.resident_bytes as f64 / f64::from(1 << 20),
    );
    let configuration = &report.configuration;
    let file = if configuration.from_file {
        format!("{}, read {}", configuration.path, configuration.loaded)
    } else {
        format!(
            "none ({} does not exist): observes only",
            configuration.path
        )
    };
    let metrics = agent.metrics_address.as_deref();
    let metrics = metrics.map_or("not served".to_owned(), |a| format!("http://{a}/metrics"));
    let _ = writeln!(
        out,
        "configuration: {}\nmetrics: {metrics}",
        one_line(&file)
    );
    let _ = writeln!(
        out,
        "containers: {} tracked, {} under enforcement or reservation; \
         {} changes in force, {} refused \
         since the start",
        report.containers_known,
        report.containers.len(),
        report.changes_in_force,
        report.failed_changes,
    );
    if let Some(accounting) = &report.accounting {
        let _ = writeln!(out, "ledger: {}", ledger(accounting));
    }
    let _ = writeln!(out, "history: {}", history(report.history.as_ref()));
    if let Some(nri) = &report.nri {
        let _ = writeln!(out, "container runtime: {}", runtime(nri));
    }
    if !report.rules.is_empty() {
        let _ = write!(out, "\n{}", rules(&report.rules, width));
    }
    if !report.containers.is_empty() {
        let _ = write!(out, "\n{}", containers(&report.containers, width));
    }
    let means = means(&report.containers, width);
    if !means.is_empty() {
        let _ = write!(out, "\n{means}");
    }
    let diagnosis = report.diagnosis.as_ref();
    let losses = diagnosis.map(|diagnosis| losses(diagnosis, width));
    if let Some(losses) = losses.filter(|text| !text.is_empty()) {
        let _ = write!(out, "\n{losses}");
    }
    out + &problems(report)
}

fn rules(rules: &[RuleRecord], width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header(["line", "match", "network CPU", "CPU", "containers"]);
    for rule in rules.iter().take(MOST_RULES) {
        table.add_row([
            rule.line.map_or("set".to_owned(), |line| line.to_string()),
            one_line(&rule.matches),
            rule.policy.network_cpu.clone(),
            cpu(&rule.policy),
            rule.containers.to_string(),
        ]);
    }
    table::gaps(&mut table);
    let mut text = table::finish(&table);
    if rules.len() > MOST_RULES {
        let _ = writeln!(
            text,
            "and {} more rules (--json lists all)",
            rules.len() - MOST_RULES
        );
    }
    text
}

/// CPU time of the agent; soon after its start, the time that the start took.
fn cost(cpu_s: f64, uptime_s: f64) -> String {
    match uptime_s < START_S {
        true => format!("{cpu_s:.2} s of CPU time since its start"),
        false => format!("{:.2}% of a CPU", cpu_s / uptime_s * 100.0),
    }
}

fn cpu(policy: &PolicyRecord) -> String {
    match policy.cpus {
        None => policy.cpu.clone(),
        Some(cpus) => format!("{} {cpus}", policy.cpu),
    }
}

fn containers(containers: &[ContainerRecord], width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header([
        "container",
        "network CPU",
        "in force",
        "debt",
        "charged",
        "returned",
        "dropped",
        "CPU",
        "CPUs",
    ]);
    for container in containers {
        let network = container.network.as_ref();
        let means = network.map(|n| in_force(&n.means)).unwrap_or_default();
        let ms = |ns: u64| format!("{:.1} ms", ns as f64 / 1e6);
        let debt = network.map(|n| match n.forgiven_ns {
            0 => ms(n.debt_ns),
            forgiven => format!("{} ({} forgiven)", ms(n.debt_ns), ms(forgiven)),
        });
        let charged = network.map(|n| ms(n.charged_ns)).unwrap_or_default();
        let returned = network.map(|n| ms(n.returned_ns)).unwrap_or_default();
        let dropped = network.map(|n| (n.dropped_rx_packets + n.dropped_tx_packets).to_string());
        table.add_row([
            one_line(&container.name),
            container.policy.network_cpu.clone(),
            means,
            debt.unwrap_or_default(),
            charged,
            returned,
            dropped.unwrap_or_default(),
            cpu(&container.policy),
            own_cpus(container),
        ]);
    }
    table::gaps(&mut table);
    table::finish(&table)
}

/// Means in force; without one, the reason.
fn in_force(means: &[MeansRecord]) -> String {
    let names: Vec<&str> = means
        .iter()
        .filter(|m| m.in_force)
        .map(|m| m.means.as_str())
        .collect();
    if !names.is_empty() {
        return names.join(" ");
    }
    let mut reasons: Vec<&str> = means.iter().map(|m| m.why.as_str()).collect();
    reasons.dedup();
    match (means.iter().find(|m| m.failed), reasons.as_slice()) {
        (Some(failed), _) => format!("nothing: {}: {}", failed.means, failed.why),
        (None, [one]) => format!("nothing: {one}"),
        // Each means has a reason of its own, which the table of the means has.
        (None, _) => "nothing".to_owned(),
    }
}

/// Means of the containers that need one now, with its reason.
fn means(containers: &[ContainerRecord], width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header(["container", "means", "in force", "why"]);
    let mut any = false;
    for container in containers {
        let all = container.network.iter().flat_map(|n| &n.means);
        // A common reason for all means is in the table of the containers.
        let same = all.clone().all(|m| !m.in_force && !m.failed)
            && all.clone().map(|m| &m.why).collect::<BTreeSet<_>>().len() <= 1;
        for m in all.filter(|_| !same) {
            any = true;
            let state = match (m.in_force, m.failed) {
                (true, _) => "yes",
                (false, true) => "FAILED",
                (false, false) => "no",
            };
            table.add_row([
                one_line(&container.name),
                m.means.clone(),
                state.to_owned(),
                one_line(&m.why),
            ]);
        }
    }
    if !any {
        return String::new();
    }
    table::gaps(&mut table);
    table::finish(&table)
}

/// Containers that lost at least a hundredth of a CPU to others; the largest loss first.
fn losses(diagnosis: &DiagnosisRecord, width: Option<u16>) -> String {
    let cpus = |ns: u64| ns as f64 / 1e9 / diagnosis.interval_s.max(0.001);
    let mut table = table::plain(width);
    table.set_header([
        "container",
        "entitled CPUs",
        "got",
        "lost to others",
        "by own quota",
        "waited behind",
    ]);
    let taken = |ns: [u64; 2]| cpus(ns.iter().sum());
    let all = diagnosis.containers.iter();
    let worst = all.map(|loss| (loss, taken([loss.forced_sharing_ns, loss.phantom_ns])));
    for (loss, taken) in worst.filter(|(_, taken)| *taken >= 0.01).take(MOST_LOSSES) {
        table.add_row([
            one_line(&loss.name),
            format!("{:.2} ({})", cpus(loss.entitled_ns), loss.entitled_by),
            format!("{:.2}", cpus(loss.got_ns)),
            format!("{taken:.2}"),
            format!("{:.2}", cpus(loss.throttled_ns)),
            match &loss.neighbour {
                None => "nobody".to_owned(),
                Some(NeighbourRecord::Host) => "the host".to_owned(),
                Some(NeighbourRecord::Container { name }) => one_line(name),
            },
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    table::gaps(&mut table);
    table::finish(&table)
}

fn own_cpus(container: &ContainerRecord) -> String {
    let Some(reservation) = &container.reservation else {
        return String::new();
    };
    let mut parts: Vec<String> = reservation.own_cpus.iter().map(u32::to_string).collect();
    if let (Some(cpu), Some(part)) = (reservation.slice_cpu, reservation.slice_cpus) {
        parts.push(format!("{part} of {cpu}"));
    }
    if !reservation.lent_cpus.is_empty() {
        parts.push(format!("({} lent)", reservation.lent_cpus.len()));
    }
    parts.join(" ")
}

/// One line for each problem; a sentence when there is none.
fn problems(report: &StatusReport) -> String {
    let mut lines: Vec<String> = Vec::new();
    for degraded in &report.degraded {
        lines.push(format!("{}: {}", degraded.name, degraded.text));
    }
    for container in &report.containers {
        for degraded in &container.degraded {
            let name = &container.name;
            lines.push(format!("{name}: {}: {}", degraded.name, degraded.text));
        }
    }
    lines.extend(
        report
            .configuration
            .warnings
            .iter()
            .map(|w| format!("warning: {w}")),
    );
    for container in &report.containers {
        let means = container.network.iter().flat_map(|n| &n.means);
        for failed in means.filter(|m| m.failed) {
            // Listed already where the agent reports the consequence.
            let name = format!("{}_failed", failed.means);
            if !container.degraded.iter().any(|d| d.name == name) {
                lines.push(format!("{}: {name}: {}", container.name, failed.why));
            }
        }
    }
    let unmatched = unmatched(&report.rules);
    if lines.is_empty() {
        return format!("\n{}{unmatched}\n", verdict(report));
    }
    let mut text = "\nProblems:\n".to_owned();
    for line in lines {
        let _ = writeln!(text, "  {}", one_line(&line));
    }
    if !unmatched.is_empty() {
        let _ = writeln!(text, "{}", unmatched.trim_start());
    }
    text
}

/// Sentence for an agent without problems.
fn verdict(report: &StatusReport) -> &'static str {
    let asks = |p: &PolicyRecord| p.network_cpu == "enforce" || p.cpu == "strict";
    if !report.rules.iter().any(|rule| asks(&rule.policy)) {
        return "No rule enforces or reserves.";
    }
    let waits = |container: &ContainerRecord| {
        let network = container.network.as_ref();
        network.is_some_and(|n| !n.means.iter().any(|m| m.in_force))
    };
    if report.containers.iter().any(waits) {
        "Everything needed now is in force. What is inactive is not needed: \
     no container pays for another."
    } else if report.containers.is_empty() {
        "Nothing is in force: no container matches a rule that enforces or reserves."
    } else {
        "All is in force."
    }
}

/// Selectors of rules that enforce or reserve and match no container now.
fn unmatched(rules: &[RuleRecord]) -> String {
    let rules = rules.iter().filter(|rule| {
        rule.containers == 0
            && (rule.policy.network_cpu == "enforce" || rule.policy.cpu == "strict")
    });
    let names: Vec<String> = rules
        .take(MOST_RULES)
        .map(|rule| one_line(&rule.matches))
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" No container matches: {}.", names.join(", ")),
    }
}

#[cfg(test)]
pub(crate) mod tests;
