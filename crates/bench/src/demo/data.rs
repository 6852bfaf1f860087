//! What `demo` measured.

use crate::data::{CellResult, LedgerRecord, Sample};
use crate::reservation::data::{DEMO_RESERVATIONS, ReservationCellResult, ReservationSample};
use crate::run::Kept;
use crate::run::error::DataError;
use crate::run::load::lines;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The outcome of the demo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoResult {
    /// The one cell, with `alone` filled in.
    pub cell: CellResult,
    /// Name of the container that caused the most network CPU.
    pub offender: Option<String>,
    /// Name of the victim's container.
    pub victim: String,
    /// The last flood sample's ledger.
    pub ledger: Option<LedgerRecord>,
    /// The offender and the victim, in one sentence.
    pub sentence: String,
    /// A CPU reservation beside busy neighbours; `None` where this host cannot reserve, and in
    /// runs of earlier versions.
    pub reservation: Option<ReservationCellResult>,
}

/// What the demo keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DemoSamples {
    /// Of the flood.
    pub flood: Vec<Sample>,
    /// Of the reservation.
    pub reservations: Vec<ReservationSample>,
}

impl Kept for DemoSamples {
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
