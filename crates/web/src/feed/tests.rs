//! Synthetic readings for the tests of this crate.

use super::Reading;
use cofferdam_records::diagnosis::DiagnosisRecord;

#[path = "../../tests/common/records.rs"]
mod records;

/// Reading of one second in which containers used, caused and were charged milliseconds.
pub(crate) fn reading(containers: &[(u64, &str, [u64; 3])]) -> Reading {
    let all = containers.iter();
    Reading {
        ledger: records::ledger(
            all.map(|(id, name, ms)| records::container(*id, name, *ms))
                .collect(),
        ),
        status: records::status(),
        latency: Vec::new(),
        dataplanes: Vec::new(),
    }
}

/// Diagnosis in which `id` lost `taken_ms` milliseconds to others.
pub(crate) fn losses(id: u64, taken_ms: u64) -> DiagnosisRecord {
    records::diagnosis(vec![records::loss(
        id,
        "it",
        [1000, 500, taken_ms],
        "other",
    )])
}
