//! Synthetic run of `bench history`.

use super::{estimate, run};
use crate::history::data::*;
use crate::run::*;

pub fn history() -> RunData {
    let row = |case, bytes| HistoryRow {
        case,
        containers: 100,
        days: 30,
        frames: 53_640,
        bytes,
        bytes_per_container_frame: 40.0,
        append_cpu_us: estimate(&[510.0, 520.0, 500.0, 540.0, 505.0]),
        append_us: estimate(&[610.0, 620.0, 600.0, 640.0, 605.0]),
        reads: vec![ReadRow {
            what: "the last hour".to_owned(),
            frames: 3600,
            ms: estimate(&[410.0, 420.0, 400.0, 430.0, 405.0]),
        }],
    };
    RunData {
        result: Some(RunResult::History(HistoryResult {
            rows: vec![
                row(HistoryCase::OneInTen, 90 << 20),
                row(HistoryCase::All, 480 << 20),
            ],
        })),
        ..run("history", Kind::History)
    }
}
