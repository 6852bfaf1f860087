//! Judgement of one goal: an element of `goals` in `result.json`.

use super::FEWEST_BLOCKS;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Verdict that the evidence supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is on the bad side.
    Missed,
    /// There is a figure, but the goal may be reached or missed.
    Inconclusive,
    /// The whole interval is on the good side.
    Reached,
    /// The goal is reached, but there was no harm without Cofferdam either, so this is no success
    /// of it.
    NoHarm,
    /// There is no figure.
    NotMeasured,
}

impl Verdict {
    /// One to three words, the same on the terminal and in the report.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Missed => "missed",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Reached => "reached",
            Verdict::NoHarm => "no harm to mend",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// Reason why a figure gives no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Fewer blocks than an interval needs.
    FewBlocks,
    /// All blocks gave the same value.
    NoSpread,
    /// The interval holds the goal.
    HoldsGoal,
    /// One figure of the whole run, without blocks.
    Once,
    /// Other work or the hypervisor had the CPUs before the run began.
    BusyHost,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::FewBlocks => write!(f, "fewer than {FEWEST_BLOCKS} blocks give no interval"),
            Doubt::NoSpread => f.write_str("all blocks are alike, which gives no interval"),
            Doubt::HoldsGoal => f.write_str("the interval holds the goal"),
            Doubt::Once => f.write_str("measured once, which gives no interval"),
            Doubt::BusyHost => f.write_str("the host was busy before the run"),
        }
    }
}

/// Good side of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalBound {
    /// At most this value.
    AtMost(f64),
    /// At least this value.
    AtLeast(f64),
    /// Between these values, ends included.
    Within([f64; 2]),
}

/// Judgement of one goal: the bound, the figure, and the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Judged quantity, as the subject of a sentence.
    pub what: String,
    /// Condition; `None` if the run has only one.
    pub case: Option<String>,
    /// The goal.
    pub bound: GoalBound,
    /// The figure.
    pub median: Option<f64>,
    /// Lower end of its 95% interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Number of measured blocks; `None` for a count, which has no interval.
    pub blocks: Option<usize>,
    /// The verdict.
    pub verdict: Verdict,
    /// Reason of an inconclusive verdict.
    pub doubt: Option<Doubt>,
}
