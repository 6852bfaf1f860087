//! Results of `demo`.

use crate::data::{CellResult, LedgerRecord, Sample};
use crate::reservation::data::{DEMO_RESERVATIONS, ReservationCellResult, ReservationSample};
use crate::run::SampleSet;
use crate::run::error::DataError;
use crate::run::load::lines;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Result of the demo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoResult {
    /// The only cell, with `alone` filled in.
    pub cell: CellResult,
    /// Name of the container that caused the most network CPU.
    pub offender: Option<String>,
    /// Name of the victim's container.
    pub victim: String,
    /// Ledger of the last flood sample.
    pub ledger: Option<LedgerRecord>,
    /// Sentence that names the offender and the victim.
    pub sentence: String,
    /// Result of a CPU reservation next to busy neighbours; `None` if this host cannot reserve, and
    /// in runs of earlier versions.
    pub reservation: Option<ReservationCellResult>,
}

/// Samples of the demo.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DemoSamples {
    /// Samples of the flood.
    pub flood: Vec<Sample>,
    /// Samples of the reservation.
    pub reservations: Vec<ReservationSample>,
}

impl SampleSet for DemoSamples {
    fn read(dir: &Path) -> Result<DemoSamples, DataError> {
        Ok(DemoSamples {
            flood: Vec::read(dir)?,
            reservations: lines(&dir.join(DEMO_RESERVATIONS))?,
        })
    }

    fn count(&self) -> usize {
        self.flood.len() + self.reservations.len()
    }
}
