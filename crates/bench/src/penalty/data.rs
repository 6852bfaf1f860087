//! What `bench penalty` measured.

use crate::data::CellResult;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of a penalty run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PenaltyResult {
    /// What made the containers; absent: the benchmark itself, of namespaces and cgroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers_by: Option<String>,
    /// Every cell with at least one whole pair, in the order measured.
    pub cells: Vec<CellResult>,
    /// Cells that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}
