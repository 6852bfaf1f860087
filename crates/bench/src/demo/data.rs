//! What `demo` measured.

use crate::data::{CellResult, LedgerRecord};
use crate::reservation::data::ReservationCellResult;
use serde::{Deserialize, Serialize};

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
