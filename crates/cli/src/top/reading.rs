//! One interval in the form that the screen needs.

use crate::selection::Selection;
use crate::view::{HostView, Row};
use crate::{diagnosis, headline};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::diagnosis::{CpuLossRecord, DiagnosisRecord};
use cofferdam_records::explain::{Agent, Explanation, explain};
use std::collections::HashMap;

/// Last interval that was measured.
#[derive(Debug)]
pub struct Reading {
    /// The ledger, with its diagnosis.
    pub record: AccountingRecord,
    /// The headline.
    pub sentence: String,
    /// Command that helps; `None` where nothing is wrong, or nothing can be done now.
    pub remedy: Option<String>,
    /// CPUs and health.
    pub host: HostView,
    /// Sentence about the largest loss to others, or the reason why it is unknown.
    pub losses: Option<String>,
    /// Rows of the selected containers, unfiltered.
    pub rows: Vec<Row>,
}

impl Reading {
    /// Reading of the last record of `recent`.
    pub fn new(
        recent: &[AccountingRecord],
        selection: &Selection,
        no_diagnosis: Option<&str>,
        agent: Option<&Agent>,
    ) -> Reading {
        let record = recent.last().cloned().expect("a reading has a record");
        let length = record.length();
        let lost = record.diagnosis.as_ref().map(lost_pct);
        let row = |container: &ContainerRecord| Row {
            lost_pct: lost
                .as_ref()
                .and_then(|l| l.get(&container.cgroup_id).copied()),
            ..Row::new(container, length)
        };
        let explanation = explain(recent, agent.unwrap_or(&Agent::NotPermitted), String::new());
        Reading {
            sentence: headline::sentence(&explanation, &record),
            // In a replay it is too late for a remedy.
            remedy: agent.and_then(|_| remedy(explanation)),
            host: HostView::new(&record),
            losses: match (no_diagnosis, &record.diagnosis) {
                (Some(why), _) => Some(format!("no diagnosis: {why}")),
                (None, losses) => losses.as_ref().and_then(diagnosis::worst_of),
            },
            rows: selection.of_record(&record).map(row).collect(),
            record,
        }
    }

    /// Container of the cgroup `id`.
    pub fn container(&self, id: u64) -> Option<&ContainerRecord> {
        self.record.containers.iter().find(|c| c.cgroup_id == id)
    }

    /// Loss of the container.
    pub fn loss(&self, id: u64) -> Option<&CpuLossRecord> {
        let losses = self.record.diagnosis.as_ref()?;
        losses.containers.iter().find(|c| c.cgroup_id == id)
    }
}

/// CPU time that others took from each container, percent of one CPU.
fn lost_pct(diagnosis: &DiagnosisRecord) -> HashMap<u64, f64> {
    let ns = (diagnosis.interval_s * 1e9).max(1.0);
    let share = |c: &CpuLossRecord| (c.cgroup_id, c.taken_ns() as f64 / ns * 100.0);
    diagnosis.containers.iter().map(share).collect()
}

/// Command against the worst finding that has one.
fn remedy(explanation: Explanation) -> Option<String> {
    let mut findings = explanation.findings.into_iter();
    findings.find_map(|finding| finding.command)
}
