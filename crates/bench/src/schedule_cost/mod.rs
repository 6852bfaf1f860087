//! What the diagnosis costs where it costs most: two processes that do nothing but wake each
//! other over a pipe.
//!
//! Periods with the diagnosis off and on alternate, each pair in an order drawn at random; the
//! figure is round trips on ÷ off of each pair. The kernel's own run-time statistics, which
//! cost about 25 ns a run, are on only in a period of their own.

mod scene;

use crate::data::Estimate;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::stats::estimate;
use cofferdam_diagnosis::{
    Diagnosis, DiagnosisError, Options as DiagnosisOptions, ProgramCost, StartError,
};
use scene::Scene;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// After switching, before the period begins: attaching programs disturbs for a moment.
const SETTLE: Duration = Duration::from_millis(20);

/// Length of the period with the kernel's statistics on.
const MEASURED: Duration = Duration::from_millis(500);
/// The program that does nothing.
const EMPTY: &str = "reference_empty_switch";
/// What it costs to call a program that does nothing, measured without the statistics.
const CALL_NS: f64 = 8.0;

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Off/on pairs of each case, at least 1; default 61.
    pub pairs: u32,
    /// Length of a period; default 60 ms: the host's own speed moves by tens of percent from
    /// one second to the next, less from one such period to the next.
    pub period: Duration,
    /// Seed of orders and bootstrap; default 1.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pairs: 61,
            period: Duration::from_millis(60),
            seed: 1,
        }
    }
}

/// Where the two processes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// In one container, on one CPU.
    OneContainerOneCpu,
    /// In one container, on two CPUs.
    OneContainerTwoCpus,
    /// In two containers, on one CPU: each switch is between containers.
    TwoContainersOneCpu,
    /// In two containers, on two CPUs.
    TwoContainersTwoCpus,
    /// In no container, on one CPU.
    NoContainerOneCpu,
}

impl Case {
    /// All, in the order of measuring.
    pub const ALL: [Case; 5] = [
        Case::OneContainerOneCpu,
        Case::OneContainerTwoCpus,
        Case::TwoContainersOneCpu,
        Case::TwoContainersTwoCpus,
        Case::NoContainerOneCpu,
    ];

    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Case::OneContainerOneCpu => "one container, one CPU",
            Case::OneContainerTwoCpus => "one container, two CPUs",
            Case::TwoContainersOneCpu => "two containers, one CPU",
            Case::TwoContainersTwoCpus => "two containers, two CPUs",
            Case::NoContainerOneCpu => "no container, one CPU",
        }
    }

    /// The container of each process.
    fn containers(self) -> [Option<usize>; 2] {
        match self {
            Case::OneContainerOneCpu | Case::OneContainerTwoCpus => [Some(0), Some(0)],
            Case::TwoContainersOneCpu | Case::TwoContainersTwoCpus => [Some(0), Some(1)],
            Case::NoContainerOneCpu => [None, None],
        }
    }

    fn two_cpus(self) -> bool {
        matches!(self, Case::OneContainerTwoCpus | Case::TwoContainersTwoCpus)
    }
}

/// The cost in one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CostRow {
    /// Where the processes are.
    pub case: Case,
    /// Round trips a second, off.
    pub off: Estimate,
    /// Round trips a second, on.
    pub on: Estimate,
    /// On ÷ off of each pair; the goal is at least 0.98.
    pub ratio: Estimate,
    /// The same by the kernel's statistics: time of the programs in a round trip, percent of
    /// it. Steadier than `ratio`, and blind to what the programs do to caches.
    pub programs_pct: f64,
    /// What the statistics themselves add to every run, nanoseconds.
    pub statistics_ns_per_run: f64,
    /// Each program's runs in a round trip and its time a run, by the kernel's statistics,
    /// their own cost included.
    pub programs: Vec<ProgramRow>,
}

/// One program in one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramRow {
    /// Its name.
    pub name: String,
    /// Runs in a round trip.
    pub runs_per_round_trip: f64,
    /// Nanoseconds a run.
    pub ns_per_run: f64,
}

/// The goal: at most 2% on a load that does nothing but switch.
pub const GOAL: f64 = 0.98;

/// Measures every case. Exit code 3 when this host cannot run the diagnosis at all.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Vec<CostRow>, BenchError> {
    if options.pairs == 0 {
        return Err(BenchError::Usage(
            "0 pairs measure nothing: give at least 1".to_owned(),
        ));
    }
    drop(start(false)?);
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut rows = Vec::new();
    for (i, case) in Case::ALL.into_iter().enumerate() {
        progress.step(i, Case::ALL.len(), case.label());
        rows.extend(measure(case, options, &mut random)?);
    }
    progress.step(Case::ALL.len(), Case::ALL.len(), "done");
    Ok(rows)
}

fn measure(
    case: Case,
    options: &Options,
    random: &mut fastrand::Rng,
) -> Result<Option<CostRow>, BenchError> {
    let mut scene = Scene::start(case)?;
    let unusable = |e: DiagnosisError| BenchError::Ledger(e.to_string());
    let (mut off, mut on, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut diagnosis = watch(&scene, false)?;
    for _ in 0..options.pairs {
        let mut order = [false, true];
        random.shuffle(&mut order);
        let mut rates = [0.0; 2];
        for diagnosing in order {
            diagnosis.switch(diagnosing).map_err(unusable)?;
            std::thread::sleep(SETTLE);
            rates[usize::from(diagnosing)] = scene.round_trips_per_s(options.period)?;
        }
        off.push(rates[0]);
        on.push(rates[1]);
        ratios.push(rates[1] / rates[0]);
    }
    drop(diagnosis);
    let costs = |d: &Diagnosis| {
        let mut costs = d.program_costs().map_err(unusable)?;
        costs.extend(d.statistics_cost().map_err(unusable)?);
        Ok::<_, BenchError>(costs)
    };
    let measured = watch(&scene, true)?;
    let before = costs(&measured)?;
    let trips = scene.round_trips_per_s(MEASURED)? * MEASURED.as_secs_f64();
    let after = costs(&measured)?;
    let estimates = (
        estimate(&off, options.seed),
        estimate(&on, options.seed),
        estimate(&ratios, options.seed),
    );
    let (Some(off), Some(on), Some(ratio)) = estimates else {
        return Ok(None);
    };
    let costs = before.iter().zip(&after);
    let programs: Vec<_> = costs.filter_map(|(b, a)| program(b, a, trips)).collect();
    let (own, empty): (Vec<_>, Vec<_>) = programs.into_iter().partition(|p| p.name != EMPTY);
    // The statistics' own time is no cost; calling a program is.
    let empty_ns = empty.first().map_or(0.0, |p| p.ns_per_run);
    let ns_per_run = |p: &ProgramRow| (p.ns_per_run - empty_ns).max(0.0) + CALL_NS;
    let parts = own.iter().map(|p| p.runs_per_round_trip * ns_per_run(p));
    let ns: f64 = parts.sum();
    Ok(Some(CostRow {
        case,
        programs_pct: ns * off.median / 1e9 * 100.0,
        statistics_ns_per_run: empty_ns,
        off,
        on,
        ratio,
        programs: own,
    }))
}

fn program(before: &ProgramCost, after: &ProgramCost, trips: f64) -> Option<ProgramRow> {
    let runs = after.runs.saturating_sub(before.runs);
    let ns = after.run_time_ns.saturating_sub(before.run_time_ns);
    (runs > 0).then(|| ProgramRow {
        name: after.name.clone(),
        runs_per_round_trip: runs as f64 / trips.max(1.0),
        ns_per_run: ns as f64 / runs as f64,
    })
}

fn start(measure_programs: bool) -> Result<Diagnosis, BenchError> {
    let options = DiagnosisOptions {
        measure_programs,
        ..DiagnosisOptions::default()
    };
    Diagnosis::start(options).map_err(|e| match e {
        StartError::Unsupported(text) => BenchError::Unsupported(text),
        StartError::Failed(_) => BenchError::Ledger(e.to_string()),
    })
}

fn watch(scene: &Scene, measure_programs: bool) -> Result<Diagnosis, BenchError> {
    let mut diagnosis = start(measure_programs)?;
    let followed = diagnosis.follow(&scene.containers);
    followed.map_err(|e| BenchError::Ledger(e.to_string()))?;
    Ok(diagnosis)
}
