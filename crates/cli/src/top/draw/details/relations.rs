//! Victims, offenders and senders of a container.

use super::super::cpus::indented;
use super::super::style::Palette;
use crate::exit::one_line;
use crate::units::{count, pct, percent_of};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::flow::flows;
use ratatui::text::Line;
use std::collections::BTreeMap;

/// Most containers that are named.
const MOST_NAMED: usize = 5;
/// Smallest share of a CPU for which a container is named, percent.
const WORTH_NAMING_PCT: f64 = 0.1;

/// Lines about `container`.
pub fn lines(
    record: &AccountingRecord,
    container: &ContainerRecord,
    width: usize,
    palette: Palette,
) -> Vec<Line<'static>> {
    let own = container.cgroup_id;
    let (mut harms, mut harmed) = (BTreeMap::new(), BTreeMap::new());
    for flow in flows(record) {
        if flow.offender == Some(own) {
            *harms.entry(Some(flow.victim)).or_insert(0.0) += flow.ns;
        } else if flow.victim == own {
            *harmed.entry(flow.offender).or_insert(0.0) += flow.ns;
        }
    }
    let harms = named(record, &harms);
    let harmed = named(record, &harmed);
    let mut lines = Vec::new();
    let styled = |lines: Vec<Line<'static>>, style| lines.into_iter().map(move |l| l.style(style));
    lines.extend(styled(indented("harms", &harms, width), palette.owes()));
    lines.extend(styled(
        indented("harmed by", &harmed, width),
        palette.paid(),
    ));
    lines.extend(indented("sent by", &senders(record, container), width));
    lines
}

fn named(record: &AccountingRecord, parties: &BTreeMap<Option<u64>, f64>) -> String {
    let share = |ns: f64| percent_of(ns, record.length());
    let mut parties: Vec<_> = (parties.iter())
        .filter(|(_, ns)| share(**ns) >= WORTH_NAMING_PCT)
        .collect();
    parties.sort_by(|a, b| b.1.total_cmp(a.1).then(a.0.cmp(b.0)));
    let part =
        |(id, ns): &(&Option<u64>, &f64)| format!("{} {}%", name(record, **id), pct(share(**ns)));
    joined(parties.iter().take(MOST_NAMED).map(part), parties.len())
}

fn senders(record: &AccountingRecord, container: &ContainerRecord) -> String {
    let seconds = record.interval_s.max(1e-9);
    let mut senders: Vec<_> = container.received_from.iter().collect();
    senders.sort_by_key(|(id, packets)| (std::cmp::Reverse(**packets), **id));
    let part = |(id, packets): &(&u64, &u64)| {
        format!(
            "{} {}/s",
            name(record, Some(**id)),
            count(**packets as f64 / seconds)
        )
    };
    match senders.is_empty() {
        true => "no container of this host".to_owned(),
        false => joined(senders.iter().take(MOST_NAMED).map(part), senders.len()),
    }
}

fn joined(parts: impl Iterator<Item = String>, all: usize) -> String {
    let mut parts: Vec<_> = parts.collect();
    if all > parts.len() {
        parts.push(format!("{} more", all - parts.len()));
    }
    match parts.is_empty() {
        true => "nobody".to_owned(),
        false => parts.join(" · "),
    }
}

fn name(record: &AccountingRecord, id: Option<u64>) -> String {
    let Some(id) = id else {
        return "packets of no container".to_owned();
    };
    let found = record.containers.iter().find(|c| c.cgroup_id == id);
    found.map_or_else(
        || "a container that is gone".to_owned(),
        |c| one_line(&c.name),
    )
}
