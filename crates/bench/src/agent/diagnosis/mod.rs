//! Cost of the diagnosis in its worst case: two processes that only wake each other over a pipe.
//!
//! Periods with the diagnosis off, with it on, and with an empty program at each switch take turns
//! in random order. The figure is the ratio of round trips on ÷ off of each pair. The kernel's own
//! run-time statistics cost about 25 ns a run, so they are on only in a separate period.

mod ping_pong;

use super::{Options, sample};
use crate::agent::data::{
    AgentExperiment, AgentResult, AgentSample, DiagnosisCostRow, SwitchCase, SwitchProgramRow,
};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::stats::estimate;
use cofferdam_bpf::EmptyProgram;
use cofferdam_diagnosis::windows::{PERIOD as WINDOWS, WINDOW};
use cofferdam_diagnosis::{Diagnosis, DiagnosisError, DiagnosisOptions, ProgramCost, StartError};
use ping_pong::PingPong;
use std::time::Duration;

/// Time between a switch and the period: attaching programs disturbs for a moment.
const SETTLE: Duration = Duration::from_millis(20);

/// Length of a period. The host's own speed moves by tens of percent between seconds, less between
/// such short periods.
const PERIOD: Duration = Duration::from_millis(60);
/// Length of the period with the kernel's statistics on.
const MEASURED: Duration = Duration::from_millis(500);
/// Fewest rounds of windows that give a figure; a round takes two of their periods.
const ENOUGH: u32 = 5;
/// Pairs for each round of windows.
const PAIRS: u32 = 3;
/// Name of the empty program.
const EMPTY: &str = "reference_empty_switch";
/// Time of calling an empty program, without the statistics, nanoseconds.
const CALL_NS: f64 = 8.0;

/// Treatments that take turns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Off,
    On,
    Empty,
}

/// Index of each process's container.
pub(super) fn containers(case: SwitchCase) -> [Option<usize>; 2] {
    match case {
        SwitchCase::OneContainerOneCpu | SwitchCase::OneContainerTwoCpus => [Some(0), Some(0)],
        SwitchCase::TwoContainersOneCpu | SwitchCase::TwoContainersTwoCpus => [Some(0), Some(1)],
        SwitchCase::NoContainerOneCpu => [None, None],
    }
}

pub(super) fn two_cpus(case: SwitchCase) -> bool {
    matches!(
        case,
        SwitchCase::OneContainerTwoCpus | SwitchCase::TwoContainersTwoCpus
    )
}

/// Measures every case.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AgentResult,
) -> Result<(), BenchError> {
    drop(start(false)?);
    for (i, case) in SwitchCase::ALL.iter().enumerate() {
        let what = format!("diagnosis: {case}");
        rig.progress.step(i, SwitchCase::ALL.len(), &what);
        result.diagnosis.extend(one(rig, options, *case)?);
    }
    Ok(())
}

fn one(
    rig: &mut Rig<'_>,
    options: &Options,
    case: SwitchCase,
) -> Result<Option<DiagnosisCostRow>, BenchError> {
    let mut players = PingPong::start(case)?;
    let unusable = |e: DiagnosisError| BenchError::Ledger(e.to_string());
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut diagnosis = watch(&players, false)?;
    for pair in 0..options.pairs() {
        rig.check()?;
        let mut order = [Turn::Off, Turn::On, Turn::Empty];
        rig.random.shuffle(&mut order);
        for turn in order {
            diagnosis.switch(turn == Turn::On).map_err(unusable)?;
            let empty = (turn == Turn::Empty).then(EmptyProgram::start_at_switches);
            let _attached = empty.transpose().map_err(|e| start_failed(e.into()))?;
            std::thread::sleep(SETTLE);
            rates[turn as usize].push(players.round_trips_per_s(PERIOD)?);
        }
        let last = |turn: Turn| rates[turn as usize].last().copied();
        rig.dir.sample(&AgentSample {
            off_per_s: last(Turn::Off),
            on_per_s: last(Turn::On),
            empty_per_s: last(Turn::Empty),
            ..sample(AgentExperiment::Diagnosis, case.label(), pair)
        })?;
    }
    let windows = windows(
        rig,
        &mut players,
        &mut diagnosis,
        (case, options.pairs() / PAIRS),
    )?;
    let [off, on, empty] = rates;
    let to_off = |rates: &[f64]| -> Vec<f64> {
        let pairs = rates.iter().zip(&off);
        pairs.map(|(rate, off)| rate / off).collect()
    };
    drop(diagnosis);
    let costs = |d: &Diagnosis| {
        let mut costs = d.program_costs().map_err(unusable)?;
        costs.extend(d.statistics_cost().map_err(unusable)?);
        Ok::<_, BenchError>(costs)
    };
    let measured = watch(&players, true)?;
    let before = costs(&measured)?;
    let trips = players.round_trips_per_s(MEASURED)? * MEASURED.as_secs_f64();
    let after = costs(&measured)?;
    let estimates = (
        estimate(&off, rig.seed),
        estimate(&on, rig.seed),
        estimate(&to_off(&on), rig.seed),
    );
    let empty_ratio = estimate(&to_off(&empty), rig.seed);
    let windows_ratio = estimate(&windows, rig.seed);
    let (Some(off), Some(on), Some(ratio)) = estimates else {
        return Ok(None);
    };
    let costs = before.iter().zip(&after);
    let programs: Vec<_> = costs.filter_map(|(b, a)| program(b, a, trips)).collect();
    let (own, empty): (Vec<_>, Vec<_>) = programs.into_iter().partition(|p| p.name != EMPTY);
    // The statistics' own time is no cost; calling a program is.
    let empty_ns = empty.first().map_or(0.0, |p| p.ns_per_run);
    let ns_per_run = |p: &SwitchProgramRow| (p.ns_per_run - empty_ns).max(0.0) + CALL_NS;
    let parts = own.iter().map(|p| p.runs_per_round_trip * ns_per_run(p));
    let ns: f64 = parts.sum();
    Ok(Some(DiagnosisCostRow {
        case,
        programs_pct: ns * off.median / 1e9 * 100.0,
        statistics_ns_per_run: empty_ns,
        off,
        on,
        ratio,
        empty_ratio,
        windows_ratio,
        programs: own,
    }))
}

/// Ratios of the round trips of a period with a window to those of a period without. Empty for
/// processes on two CPUs: there the depth of idle states differs too much between periods.
fn windows(
    rig: &mut Rig<'_>,
    players: &mut PingPong,
    diagnosis: &mut Diagnosis,
    (case, rounds): (SwitchCase, u32),
) -> Result<Vec<f64>, BenchError> {
    let unusable = |e: DiagnosisError| BenchError::Ledger(e.to_string());
    let mut ratios = Vec::new();
    if rounds < ENOUGH || two_cpus(case) {
        return Ok(ratios);
    }
    diagnosis.switch(false).map_err(unusable)?;
    for round in 0..rounds {
        rig.check()?;
        let mut rates = [0.0; 2];
        let mut order = [0, 1];
        rig.random.shuffle(&mut order);
        for turn in order {
            let containers = players.containers.clone();
            rates[turn] = players.round_trips_while(|| {
                // Two readings as in the agent: one at the start, one at the end.
                if turn == 1 {
                    diagnosis.begin(&containers).map_err(unusable)?;
                }
                std::thread::sleep(WINDOW);
                if turn == 1 {
                    diagnosis.snapshot(&containers).map_err(unusable)?;
                    diagnosis.switch(false).map_err(unusable)?;
                }
                std::thread::sleep(WINDOWS - WINDOW);
                Ok(())
            })?;
        }
        rig.dir.sample(&AgentSample {
            off_per_s: Some(rates[0]),
            windows_per_s: Some(rates[1]),
            ..sample(AgentExperiment::Diagnosis, case.label(), round)
        })?;
        ratios.push(rates[1] / rates[0]);
    }
    Ok(ratios)
}

fn program(before: &ProgramCost, after: &ProgramCost, trips: f64) -> Option<SwitchProgramRow> {
    let runs = after.runs.saturating_sub(before.runs);
    let ns = after.run_time_ns.saturating_sub(before.run_time_ns);
    (runs > 0).then(|| SwitchProgramRow {
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
    Diagnosis::start(options).map_err(start_failed)
}

fn start_failed(error: StartError) -> BenchError {
    match error {
        StartError::Unsupported(text) => BenchError::Unsupported(text),
        StartError::Failed(_) => BenchError::Ledger(error.to_string()),
    }
}

fn watch(players: &PingPong, measure_programs: bool) -> Result<Diagnosis, BenchError> {
    let mut diagnosis = start(measure_programs)?;
    let followed = diagnosis.follow(&players.containers);
    followed.map_err(|e| BenchError::Ledger(e.to_string()))?;
    Ok(diagnosis)
}
