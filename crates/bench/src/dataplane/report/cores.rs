//! Cautions about figures that the host or the generator may limit.

use super::label;
use crate::dataplane::data::{DataplaneExperiment, DataplaneRow};
use std::collections::BTreeSet;

/// Share of its time from which the generator counts as the limit.
const GENERATOR_BUSY: f64 = 0.95;

/// Sentences that a reader of these rows must know; empty if there are none.
pub(super) fn caution(rows: &[&DataplaneRow]) -> Vec<String> {
    let mut text = Vec::new();
    let shared = rows.iter().filter(|r| r.shares_cpu);
    let shared: BTreeSet<u32> = shared.map(|r| r.cell.at).collect();
    if let Some(count) = shared.first() {
        text.push(format!(
            "With {count} cores the server has the load generator's CPU as well: this host has no \
             other. These points, drawn hollow, show what all of the host's CPUs achieve together, \
             client included, and not what a second core adds. There the generator yields the CPU \
             whenever it has nothing to do, the dataplane's loops sleep instead of polling, and \
             the CPU time of a request is unknown."
        ));
    }
    // In an open loop the generator's rate is fixed.
    let is_closed = |r: &DataplaneRow| {
        let experiment = r.cell.experiment;
        experiment.is_of_cores()
            || [DataplaneExperiment::Connections, DataplaneExperiment::Batch].contains(&experiment)
    };
    let is_limit = |r: &DataplaneRow| {
        let busy = r.generator_busy.as_ref();
        is_closed(r) && busy.is_some_and(|b| b.median >= GENERATOR_BUSY)
    };
    let limited = rows.iter().filter(|r| is_limit(r));
    let limited: Vec<String> = limited.map(|r| label(r)).collect();
    if !limited.is_empty() {
        text.push(format!(
            "The load generator was busy nearly all the time, so that the server may carry more: \
             {}.",
            limited.join("; ")
        ));
    }
    text
}
