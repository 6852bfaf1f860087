//! A run: where, when and how it was made, its samples, its result.
//!
//! A run directory holds `manifest.json` ([`Manifest`]), `samples.jsonl` (one sample a line; the
//! demo's reservation in `reservations.jsonl`), `ledger.jsonl` (one [`LedgerRecord`] a line) and
//! `result.json` ([`ResultFile`]).
//!
//! An experiment is a folder of this crate. It joins the others by one line of `experiments!`:
//! its result is an [`Outcome`].

pub mod error;
mod load;

use crate::accounting::data::{AccountingResult, PeriodSample};
use crate::agent::data::AgentResult;
use crate::data::{Judgement, LedgerRecord, Sample};
use crate::dataplane::data::DataplaneResult;
use crate::demo::data::DemoResult;
use crate::isolation::Experiment;
use crate::isolation::data::{IsolationResult, IsolationSample};
use crate::latency::data::LatencyResult;
use crate::penalty::data::PenaltyResult;
use crate::report::error::ReportError;
use crate::reservation::data::{ReservationResult, ReservationSample};
use maud::Markup;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where a finding states the goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goals {
    /// After the figures.
    Last,
    /// Before the figures: they are all that the experiment is for.
    First,
    /// Nowhere: a goal a cell is too many, and the figures count them.
    Counted,
}

/// The result of an experiment, as everything but the experiment sees it.
pub(crate) trait Outcome {
    /// What this run's page is called, where its kind does not say it.
    fn title(&self) -> Option<String> {
        None
    }

    /// Whether it holds a single figure.
    fn is_measured(&self) -> bool;

    /// What it proves, on a calm host.
    fn goals(&self) -> Vec<Judgement>;

    /// Where its finding states them.
    fn place_of_goals(&self) -> Goals {
        Goals::Last
    }

    /// The main figures, in words.
    fn finding(&self, run: &RunData) -> Vec<String>;

    /// The report's sections.
    fn sections(&self, run: &RunData) -> Result<Vec<Markup>, ReportError>;
}

/// Registers the experiments: the kind, the type of its result, the word used in directory names,
/// the title of its report.
macro_rules! experiments {
    ($($(#[$doc:meta])* $kind:ident($result:ty), $label:literal, $title:literal;)*) => {
        /// What was run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// The word used in directory names.
            pub fn label(self) -> &'static str {
                match self { $(Kind::$kind => $label,)* }
            }

            /// Title of its reports.
            pub(crate) fn title(self) -> &'static str {
                match self { $(Kind::$kind => $title,)* }
            }
        }

        /// The outcome by kind of run.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum RunResult { $($(#[$doc])* $kind($result),)* }

        impl RunResult {
            /// Which kind of run it is of.
            pub fn kind(&self) -> Kind {
                match self { $(RunResult::$kind(_) => Kind::$kind,)* }
            }

            pub(crate) fn outcome(&self) -> &dyn Outcome {
                match self { $(RunResult::$kind(result) => result,)* }
            }
        }
    };
}

experiments! {
    /// `cofferdam bench penalty`.
    Penalty(PenaltyResult), "penalty", "Penalty of network work";
    /// `cofferdam bench accounting`.
    Accounting(AccountingResult), "accounting", "Cost and accuracy of the accounting";
    /// `cofferdam bench latency`.
    Latency(LatencyResult), "latency", "Accuracy and cost of the latency measurement";
    /// `cofferdam demo`.
    Demo(Box<DemoResult>), "demo", "Demo";
    /// `cofferdam bench reservation`.
    Reservation(ReservationResult), "reservation", "What a CPU reservation is worth";
    /// `cofferdam bench dataplane`.
    Dataplane(DataplaneResult), "dataplane", "The dataplane compared with Linux sockets";
    /// `cofferdam bench isolation`.
    Isolation(IsolationResult), "isolation", "How well tenants are isolated";
    /// `cofferdam bench agent`.
    Agent(AgentResult), "agent", "Cost of the agent";
}

/// Where, when and how a run was made: `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Schema of the whole directory.
    pub schema: u32,
    /// What was run.
    pub kind: Kind,
    /// Version of Cofferdam.
    pub version: String,
    /// Git commit that the program was built from, `-dirty` appended when the tree had changes;
    /// `None` where the build did not know.
    pub commit: Option<String>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// Whether the short grid was taken.
    pub quick: bool,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// End; `None` while running, and for ever when it failed or was killed.
    pub finished: Option<String>,
    /// True when a signal ended it early: the samples so far are whole.
    pub interrupted: bool,
    /// `uname -r` and `-v`.
    pub kernel: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Vulnerability → mitigation, as the kernel words it.
    pub mitigations: BTreeMap<String, String>,
    /// `hybrid`, `v2` or `v1`.
    pub cgroup_layout: String,
    /// CPU that victim, competitor and softirq share.
    pub victim_cpu: u32,
    /// CPU that the peer's load generator ran on.
    pub peer_cpu: u32,
    /// Seed of the order of runs, the corpora and the bootstrap.
    pub seed: u64,
    /// Noise seen before the start, and what to do about it.
    pub warnings: Vec<String>,
    /// Other work or the hypervisor had the CPUs before the start: no goal is judged by what was
    /// measured.
    #[serde(default)]
    pub is_busy: bool,
}

/// `result.json`: medians and intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Schema of this document.
    pub schema: u32,
    /// What the outcome proves, goal by goal. A report judges again, by the rule of its own version.
    #[serde(default)]
    pub goals: Vec<Judgement>,
    /// The outcome.
    #[serde(flatten)]
    pub result: RunResult,
}

/// A whole run, read from its directory.
#[derive(Clone, Debug, PartialEq)]
pub struct RunData {
    /// The directory.
    pub dir: PathBuf,
    /// Where, when and how.
    pub manifest: Manifest,
    /// Samples of a penalty or demo run; empty otherwise.
    pub samples: Vec<Sample>,
    /// Periods of an accounting run; empty otherwise.
    pub periods: Vec<PeriodSample>,
    /// Samples of a reservation run, or of the demo's reservation; empty otherwise.
    pub reservations: Vec<ReservationSample>,
    /// Samples of an isolation run, one a cell; empty otherwise.
    pub isolation: Vec<IsolationSample>,
    /// Disturbed measurements of its cells that were made again.
    pub repeated: Vec<IsolationSample>,
    /// The experiment of an isolation run.
    pub experiment: Option<Experiment>,
    /// Ledgers; empty where the accounting could not run.
    pub ledgers: Vec<LedgerRecord>,
    /// Medians and intervals; `None` when the run did not get that far.
    pub result: Option<RunResult>,
}
