//! Run of a benchmark: its manifest, its samples, its result.
//!
//! A run directory holds `manifest.json` ([`Manifest`]), `samples.jsonl` (one sample a line; the
//! demo's reservation in `reservations.jsonl`), `ledger.jsonl` (one [`LedgerRecord`] a line) and
//! `result.json` ([`ResultFile`]).
//!
//! An experiment is a folder of this crate. One line of `experiments!` adds it: its result is an
//! [`Outcome`], its samples are [`SampleSet`].

pub mod command;
pub mod error;
pub(crate) mod load;
pub(crate) mod samples;

pub use samples::{SampleSet, UnreadSamples};

use crate::accounting::args::AccountingArgs;
use crate::accounting::data::{AccountingResult, PeriodSample};
use crate::agent::args::AgentArgs;
use crate::agent::data::AgentResult;
use crate::data::{Judgement, LedgerRecord};
use crate::dataplane::args::DataplaneArgs;
use crate::dataplane::data::DataplaneResult;
use crate::demo::data::{DemoResult, DemoSamples};
use crate::error::BenchError;
use crate::history::args::HistoryArgs;
use crate::history::data::HistoryResult;
use crate::isolation::args::IsolationArgs;
use crate::isolation::data::{IsolationResult, IsolationSamples};
use crate::latency::args::LatencyArgs;
use crate::latency::data::LatencyResult;
use crate::penalty::args::PenaltyArgs;
use crate::penalty::data::{PenaltyResult, PenaltySamples};
use crate::progress::Progress;
use crate::report::error::ReportError;
use crate::reservation::args::ReservationArgs;
use crate::reservation::data::{ReservationResult, ReservationSample};
use crate::simulation::args::SimulationArgs;
use crate::simulation::data::{SimulationResult, SimulationSample};
use crate::table::Table;
use command::{Answer, Bench};
use error::DataError;
use maud::Markup;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Position of the goals within a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goals {
    /// After the figures.
    Last,
    /// Before the figures: the goals are the experiment's purpose.
    First,
    /// In no sentence: there are too many, one a cell, and the figures count them.
    Counted,
}

/// Result of an experiment, as the rest of the crate sees it.
pub(crate) trait Outcome {
    /// Title of this run's page, if it differs from its kind's.
    fn title(&self) -> Option<String> {
        None
    }

    /// Whether the result has at least one figure.
    fn is_measured(&self) -> bool;

    /// Judgements of all goals, on a calm host.
    fn goals(&self) -> Vec<Judgement>;

    /// Position of the goals within the finding.
    fn place_of_goals(&self) -> Goals {
        Goals::Last
    }

    /// Main figures, as sentences.
    fn finding(&self, run: &RunData) -> Vec<String>;

    /// Picture above the text that shows the result at a glance; `None` if there is none.
    fn lead(&self, _run: &RunData) -> Result<Option<Markup>, ReportError> {
        Ok(None)
    }

    /// Name of the condition `case` of a goal; `None` if it has only its id.
    fn case_name(&self, _case: &str) -> Option<String> {
        None
    }

    /// Sections of the report.
    fn sections(&self, run: &RunData) -> Result<Vec<Markup>, ReportError>;

    /// Figures for a terminal; empty if the finding has them all.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }
}

/// Registers the experiments: the kind, the types of its result and samples, the word in directory
/// names, the title of its report. An experiment of `cofferdam bench` adds the type of its options
/// and the text of `--help`.
macro_rules! experiments {
    ($(
        $(#[$doc:meta])*
        $kind:ident($result:ty, $samples:ty), $label:literal, $title:literal
            $(, bench $args:ty: $about:literal)?;
    )*) => {
        /// Kind of experiment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// Word in directory names.
            pub fn label(self) -> &'static str {
                match self { $(Kind::$kind => $label,)* }
            }

            /// Title of the kind's reports.
            pub(crate) fn title(self) -> &'static str {
                match self { $(Kind::$kind => $title,)* }
            }
        }

        /// Result of a run, by kind.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum RunResult { $($(#[$doc])* $kind($result),)* }

        impl RunResult {
            /// Kind of the run.
            pub fn kind(&self) -> Kind {
                match self { $(RunResult::$kind(_) => Kind::$kind,)* }
            }

            /// Figures for a terminal.
            pub fn tables(&self) -> Vec<Table> {
                self.outcome().tables()
            }

            pub(crate) fn outcome(&self) -> &dyn Outcome {
                match self { $(RunResult::$kind(result) => result,)* }
            }
        }

        /// Benchmarks on the command line.
        #[derive(Debug, clap::Subcommand)]
        pub enum Command { $($(#[doc = $about] $kind(Box<$args>),)?)* }

        impl Command {
            /// Runs the chosen benchmark.
            pub fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
                match self {
                    $($(Command::$kind(args) => <$args as Bench>::run(*args, progress),)?)*
                }
            }
        }

        /// Samples of a run, by kind: the lines of `samples.jsonl` and of the experiment's other
        /// files.
        #[derive(Clone, Debug, PartialEq)]
        pub enum RunSamples { $($(#[$doc])* $kind($samples),)* }

        impl RunSamples {
            /// Reads the samples of a run of `kind` from `dir`. A missing file counts as empty: an
            /// interrupted run has the samples up to its end.
            pub(crate) fn read(kind: Kind, dir: &Path) -> Result<RunSamples, DataError> {
                Ok(match kind {
                    $(Kind::$kind => RunSamples::$kind(<$samples as SampleSet>::read(dir)?),)*
                })
            }

            /// Whether `ledger` belongs to a sample that counts.
            pub(crate) fn counts(&self, ledger: &LedgerRecord) -> bool {
                match self { $(RunSamples::$kind(samples) => samples.counts(ledger),)* }
            }

            /// Number of samples.
            pub fn count(&self) -> usize {
                match self { $(RunSamples::$kind(samples) => samples.count(),)* }
            }
        }
    };
}

experiments! {
    /// `cofferdam bench penalty`.
    Penalty(PenaltyResult, PenaltySamples), "penalty", "Penalty of network work",
        bench PenaltyArgs: "How much longer a job takes next to traffic than next to an equally \
            entitled compute job";
    /// `cofferdam bench latency`.
    Latency(LatencyResult, UnreadSamples), "latency",
        "Accuracy and cost of the latency measurement",
        bench LatencyArgs: "The accuracy and the cost of the latency measurement";
    /// `cofferdam bench accounting`.
    Accounting(AccountingResult, Vec<PeriodSample>), "accounting",
        "Cost and accuracy of the accounting",
        bench AccountingArgs: "The cost and the accuracy of the accounting";
    /// `cofferdam bench reservation`.
    Reservation(ReservationResult, Vec<ReservationSample>), "reservation",
        "What a CPU reservation is worth",
        bench ReservationArgs: "What a CPU reservation is worth next to neighbours, for each \
            policy";
    /// `cofferdam bench simulation`.
    Simulation(SimulationResult, Vec<SimulationSample>), "simulation",
        "The simulator compared with this host",
        bench SimulationArgs: "The simulator of run queues compared with this host, share by share";
    /// `cofferdam bench agent`.
    Agent(AgentResult, UnreadSamples), "agent", "Cost of the agent",
        bench AgentArgs: "The cost of the agent, and of its diagnosis";
    /// `cofferdam bench history`.
    History(HistoryResult, UnreadSamples), "history", "Size and cost of the history",
        bench HistoryArgs: "The size of the agent's history, and what writing and reading it costs";
    /// `cofferdam bench dataplane`.
    Dataplane(DataplaneResult, UnreadSamples), "dataplane",
        "The dataplane compared with Linux sockets",
        bench DataplaneArgs: "The dataplane compared with Linux sockets: latency, throughput, \
            connections, batch bound";
    /// `cofferdam bench isolation`.
    Isolation(IsolationResult, IsolationSamples), "isolation", "How well tenants are isolated",
        bench IsolationArgs: "How well a runtime isolates two tenants: CPU, memory, disk, network";
    /// `cofferdam demo`.
    Demo(Box<DemoResult>, DemoSamples), "demo", "Demo";
}

/// Circumstances of a run: `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Schema of the whole directory.
    pub schema: u32,
    /// Kind of experiment.
    pub kind: Kind,
    /// Version of Cofferdam.
    pub version: String,
    /// Git commit that the program was built from, with `-dirty` if the tree had changes; `None` if
    /// the build did not know it.
    pub commit: Option<String>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// Whether the run used the short grid.
    pub quick: bool,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// End, RFC 3339 in UTC; `None` while the run lasts, and after one that failed or was killed.
    pub finished: Option<String>,
    /// Whether a signal ended the run early. The samples until then are complete.
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
    /// Warnings about noise before the start, with remedies.
    pub warnings: Vec<String>,
    /// Whether other work or the hypervisor used the CPUs before the start. Then no goal is judged.
    #[serde(default)]
    pub is_busy: bool,
}

/// `result.json`: medians and intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Schema of this document.
    pub schema: u32,
    /// Judgements, goal by goal. A report judges again by the rule of its own version.
    #[serde(default)]
    pub goals: Vec<Judgement>,
    /// The result.
    #[serde(flatten)]
    pub result: RunResult,
}

/// A whole run, read from its directory.
#[derive(Clone, Debug, PartialEq)]
pub struct RunData {
    /// The directory.
    pub dir: PathBuf,
    /// The manifest.
    pub manifest: Manifest,
    /// The samples.
    pub samples: RunSamples,
    /// Ledgers; empty where the accounting could not run.
    pub ledgers: Vec<LedgerRecord>,
    /// Medians and intervals; `None` if the run did not get that far.
    pub result: Option<RunResult>,
}
