//! Demo: about a minute that shows the harm and names the offender.
//!
//! The first part, `flood`, measures a job in four conditions: without competitors; next to a
//! compute job; next to a container that is flooded; and next to that container with Cofferdam
//! enforcing. The flood has three flows of 200-byte datagrams, which the container throws away.
//!
//! The second part, `reserve`, measures a job in three conditions: without neighbours, next to busy
//! neighbours, and next to them with a reservation of half of the host's CPUs in force.

pub mod data;
pub(crate) mod report;
mod story;

use crate::data::{
    Cell, CellResult, Direction, EVEN_SHARE_PCT, Interferer, LedgerRecord, Limit, Path, Protocol,
    Role, Sample, Treatment, VictimIn, VictimKind,
};
use crate::demo::data::DemoResult;
use crate::error::BenchError;
use crate::experiment::{CPU_OPTIONS, CellBench, Rig, RigOptions, Turn, cell_result};
use crate::host_facts;
use crate::progress::Progress;
use crate::reservation;
use crate::reservation::data::{
    NeighbourLimit, Neighbours, ReservationCellResult, ReservationPolicy, Target,
};
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use crate::topology::MadeBy;
use std::path::PathBuf;

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The run directory; default `runs/<UTC time>-demo`.
    pub output: Option<PathBuf>,
    /// Rounds of: no competitor, compute, flood, flood with enforcement; default 5.
    pub rounds: u32,
    /// Time of the victim's work without competitors, seconds; default 0.5.
    pub victim_seconds: f64,
    /// Rounds of: no neighbour, neighbours, neighbours with the reservation; default 5.
    pub reservation_rounds: u32,
    /// Time of the reserved job without neighbours, seconds; default 1.
    pub reservation_seconds: f64,
    /// CPU of victim, competitor and softirq; default the lowest online one.
    pub victim_cpu: Option<u32>,
    /// CPU of the peer; default the next one on another core.
    pub peer_cpu: Option<u32>,
    /// Seed of corpora and bootstrap; default 1.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            output: None,
            rounds: 5,
            victim_seconds: 0.5,
            reservation_rounds: 5,
            reservation_seconds: 1.0,
            victim_cpu: None,
            peer_cpu: None,
            seed: 1,
        }
    }
}

/// Runs the demo. The run directory holds a [`DemoResult`].
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    if options.rounds == 0 || options.reservation_rounds == 0 {
        return Err(BenchError::Usage(
            "no rounds measure nothing: give at least 1".to_owned(),
        ));
    }
    let rig_options = RigOptions {
        kind: Kind::Demo,
        quick: true,
        output: options.output.clone(),
        victim_cpu: options.victim_cpu,
        peer_cpu: options.peer_cpu,
        placed_by: Some(CPU_OPTIONS),
        seed: options.seed,
        ledger: true,
        resumes: false,
    };
    let mut rig = Rig::new(rig_options, progress)?;
    match measure_both(&mut rig, options) {
        Ok(result) => rig.close(Some(RunResult::Demo(Box::new(result))), Ok(())),
        Err(e) => rig.close(None, Err(e)),
    }
}

fn measure_both(rig: &mut Rig<'_>, options: &Options) -> Result<DemoResult, BenchError> {
    let mut result = flood(rig, options)?;
    result.reservation = match reserve(rig, options) {
        Ok(reservation) => reservation,
        // The flood is worth showing without it.
        Err(BenchError::Unsupported(why)) => {
            rig.warn(&format!("no reservation is shown: {why}"))?;
            None
        }
        Err(e) => return Err(e),
    };
    Ok(result)
}

/// Measures a batch job next to neighbours that may use idle CPU time.
fn reserve(
    rig: &mut Rig<'_>,
    options: &Options,
) -> Result<Option<ReservationCellResult>, BenchError> {
    // The highest CPU is reserved first: the driver stays off it.
    if let Some(last) = host_facts::online_cpus().last() {
        rig.leave_cpu(*last);
    }
    let options = reservation::Options {
        rounds: options.reservation_rounds,
        seconds: Some(options.reservation_seconds),
        seed: options.seed,
        targets: vec![Target::Batch],
        neighbours: vec![Neighbours::Cpu],
        limits: vec![NeighbourLimit::Burstable],
        policies: vec![ReservationPolicy::None, ReservationPolicy::Lending],
        ..reservation::Options::default()
    };
    reservation::one(rig, &options)
}

fn flood(rig: &mut Rig<'_>, options: &Options) -> Result<DemoResult, BenchError> {
    let cell = Cell {
        id: String::new(),
        victim: VictimKind::Cpu,
        interferer: Interferer::Flood,
        protocol: Protocol::Udp,
        direction: Direction::Receiver,
        path: Path::Veth,
        flows: 3,
        payload_bytes: Some(200),
        htb_gbit_per_s: None,
        victim_share_pct: EVEN_SHARE_PCT,
        limit: Limit::Weights,
        offenders: 1,
        victim_in: VictimIn::Container,
    }
    .named();
    let steps = options.rounds as usize * 4;
    rig.progress
        .step(0, steps, "making two containers that share a CPU");
    let bench = CellBench::new(
        rig,
        &cell,
        options.victim_seconds,
        false,
        MadeBy::Ourselves,
        None,
    )?;
    let mut measured = Vec::new();
    for round in 0..options.rounds {
        // A fixed order, unlike the benchmark's: the demo reads as a story.
        use Treatment::{Enforced, Vanilla};
        let turns = [
            (Role::Alone, Vanilla, "the job alone"),
            (
                Role::Compute,
                Vanilla,
                "the job next to a job that computes",
            ),
            (
                Role::Traffic,
                Vanilla,
                "the job next to a container that is flooded",
            ),
            (Role::Traffic, Enforced, "the same with Cofferdam enforcing"),
        ];
        for (position, (role, treatment, words)) in (0..).zip(turns) {
            rig.progress.step(measured.len(), steps, words);
            let turn = Turn {
                role,
                treatment,
                pair: round,
                attempt: 0,
                position,
            };
            measured.push(bench.sample(rig, turn)?);
        }
    }
    rig.progress.step(steps, steps, "done");
    let samples: Vec<Sample> = measured.iter().map(|m| m.sample.clone()).collect();
    let outcome = cell_result(&cell, &samples, rig.seed).ok_or_else(|| BenchError::Worker {
        worker: "demo".to_owned(),
        reason: "no complete round was measured".to_owned(),
    })?;
    let last = measured
        .into_iter()
        .rev()
        .find(|m| m.sample.role == Role::Traffic && m.sample.treatment == Treatment::Vanilla);
    let ledger = last.and_then(|m| m.ledger);
    let offender = ledger.as_ref().and_then(offender);
    let sentence = sentence(&outcome, offender.as_deref(), rig.victim_cpu);
    Ok(DemoResult {
        cell: outcome,
        offender,
        victim: "victim".to_owned(),
        ledger,
        sentence,
        reservation: None,
    })
}

/// Name of the container that caused the most network CPU.
fn offender(ledger: &LedgerRecord) -> Option<String> {
    let most = ledger
        .containers
        .iter()
        .max_by_key(|c| c.ledger.caused_ns())?;
    (most.ledger.caused_ns() > 0).then(|| most.name.clone())
}

fn sentence(outcome: &CellResult, offender: Option<&str>, cpu: u32) -> String {
    let factor = outcome.penalty.median;
    let harm = format!(
        "Next to the flooded container the victim took {factor:.1} times as long as next to an \
         equally entitled compute job."
    );
    match (
        offender,
        outcome.offender_caused_fraction,
        outcome.victim_charged_fraction,
    ) {
        (Some(name), Some(caused), Some(paid)) => format!(
            "{harm} '{name}' caused {:.0}% of CPU {cpu} in network work; 'victim' paid {:.0}% of \
             that CPU for it.",
            caused * 100.0,
            paid * 100.0
        ),
        _ => harm,
    }
}
