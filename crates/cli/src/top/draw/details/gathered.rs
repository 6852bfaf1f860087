//! Details that are collected while they are open: the agent's part, processes, flows.

use super::super::cpus::indented;
use crate::exit::one_line;
use crate::flows::{lines as rows, words};
use crate::text;
use crate::top::inspection::{AgentPart, Flows, Process, Processes};
use crate::top::state::State;
use crate::units::pct;
use cofferdam_records::status::{ContainerRecord, NetworkRecord, ReservationRecord};
use ratatui::style::Stylize;
use ratatui::text::Line;

/// Most processes and flows in a list.
const MOST_LISTED: usize = 50;

/// Lines of the collected details.
pub fn lines(state: &State, width: usize) -> Vec<Line<'static>> {
    let Some(inspection) = &state.inspection else {
        let why = match state.agent {
            Some(_) => "Processes, the agent's part and flows follow with the next interval.",
            None => "The past has no processes and no flows.",
        };
        return indented("", why, width);
    };
    let mut lines = match &inspection.agent {
        AgentPart::NoAgent => {
            indented("agent", "none runs: nothing is enforced or reserved", width)
        }
        AgentPart::Observed => {
            indented("agent", "observes it: no rule enforces or reserves", width)
        }
        AgentPart::By(record) => managed(record, width),
    };
    lines.push(Line::from(""));
    lines.extend(match &inspection.processes {
        Ok(found) => processes(found, width),
        Err(why) => indented("processes", why, width),
    });
    lines
}

/// Lines of the flows, or how to get them.
pub fn flows(state: &State, width: usize) -> Vec<Line<'static>> {
    match state
        .inspection
        .as_ref()
        .map(|inspection| &inspection.flows)
    {
        None => Vec::new(),
        Some(Flows::Off) if state.flows => indented("flows", "the first second is sampled", width),
        Some(Flows::Off) => indented(
            "flows",
            "f shows the flows to it, by 5-tuple and cost",
            width,
        ),
        Some(Flows::Failed(why)) => indented("flows", why, width),
        Some(Flows::On(record)) => {
            let mut lines = indented("flows", &words(record), width);
            if !record.flows.is_empty() {
                let heading = format!("{:>7} {:>8} {:>5}  5-tuple", "CPU", "packets", "±");
                lines.push(Line::from(text::cut_end(&heading, width)).bold());
            }
            lines.extend(rows(record, width, MOST_LISTED).into_iter().map(Line::from));
            lines
        }
    }
}

fn managed(record: &ContainerRecord, width: usize) -> Vec<Line<'static>> {
    let classes = format!(
        "network CPU: {} · CPU: {}",
        record.policy.network_cpu, record.policy.cpu
    );
    let mut lines = indented("agent", &classes, width);
    if let Some(network) = &record.network {
        lines.extend(indented("", &enforced(network), width));
    }
    if let Some(reservation) = &record.reservation {
        lines.extend(indented("reserved", &reserved(reservation), width));
    }
    for degraded in &record.degraded {
        lines.extend(indented("degraded", &one_line(&degraded.text), width));
    }
    lines
}

fn enforced(network: &NetworkRecord) -> String {
    let means: Vec<_> = (network.means.iter())
        .filter(|m| m.in_force || m.failed)
        .map(|m| {
            format!(
                "{} {}",
                one_line(&m.means),
                if m.failed { "FAILED" } else { "in force" }
            )
        })
        .collect();
    let seconds = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
    format!(
        "{} · debt {} · charged {} · returned {} · dropped {} received, {} sent",
        if means.is_empty() {
            "no means in force".to_owned()
        } else {
            means.join(", ")
        },
        seconds(network.debt_ns),
        seconds(network.charged_ns),
        seconds(network.returned_ns),
        network.dropped_rx_packets,
        network.dropped_tx_packets,
    )
}

fn reserved(reservation: &ReservationRecord) -> String {
    let list = |cpus: &[u32]| {
        cpus.iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut parts = Vec::new();
    if !reservation.own_cpus.is_empty() {
        parts.push(format!("CPUs of its own: {}", list(&reservation.own_cpus)));
    }
    if let Some((cpu, part)) = reservation.slice_cpu.zip(reservation.slice_cpus) {
        parts.push(format!("{part} of CPU {cpu}"));
    }
    if !reservation.lent_cpus.is_empty() {
        parts.push(format!("lent now: {}", list(&reservation.lent_cpus)));
    }
    match parts.is_empty() {
        true => "nothing".to_owned(),
        false => parts.join(" · "),
    }
}

fn processes(found: &Processes, width: usize) -> Vec<Line<'static>> {
    let row = |pid: &str, cpu: &str, threads: &str, command: &str| {
        text::cut_end(&format!("{pid:>9} {cpu:>6} {threads:>5}  {command}"), width)
    };
    let mut lines = vec![Line::from(row("PID", "CPU%", "THR", "COMMAND")).bold()];
    let one = |p: &Process| {
        let cpu = p.cpu_pct.map_or("–".to_owned(), pct);
        Line::from(row(
            &p.pid.to_string(),
            &cpu,
            &p.threads.to_string(),
            &p.command,
        ))
    };
    lines.extend(found.shown.iter().take(MOST_LISTED).map(one));
    let more = found.shown.len().saturating_sub(MOST_LISTED);
    if found.more || more > 0 {
        let many = if found.more { "and more" } else { "more" };
        lines.extend(indented("", &format!("{more} {many}"), width));
    }
    lines
}
