//! Elastic cores, as status and metrics show them.

/// Changes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Cores that came into use.
    pub cores_added: u64,
    /// Cores that went out of use.
    pub cores_removed: u64,
    /// Times that loads were evened out.
    pub balances: u64,
    /// Flow groups moved for all of these.
    pub groups_moved: u64,
    /// Moves that took longer than a second.
    pub moves_stuck: u64,
}

/// Elastic cores, as shown.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Status {
    /// Cores that always have flow groups.
    pub least_cores: u8,
    /// Cores that have flow groups at once, at most.
    pub most_cores: u8,
    #[serde(flatten)]
    pub counts: Counts,
    /// What was decided last, and why, in words; `None` before the first decision.
    pub last_decision: Option<String>,
    /// How long ago.
    pub last_decision_age_s: Option<f64>,
}
