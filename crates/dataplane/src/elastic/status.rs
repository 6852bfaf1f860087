//! Elastic cores in status and metrics.

/// Changes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Cores that were added.
    pub cores_added: u64,
    /// Cores that were removed.
    pub cores_removed: u64,
    /// Times that loads were balanced.
    pub balances: u64,
    /// Flow groups moved for any of these.
    pub groups_moved: u64,
    /// Moves that took longer than a second.
    pub moves_stuck: u64,
}

/// State of elastic cores.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Status {
    /// Number of cores that always have flow groups.
    pub least_cores: u8,
    /// Cores with flow groups, at most.
    pub most_cores: u8,
    #[serde(flatten)]
    pub counts: Counts,
    /// Last decision with its reason, as text; `None` before the first one.
    pub last_decision: Option<String>,
    /// Age of the last decision.
    pub last_decision_age_s: Option<f64>,
}
