//! One sample: the victim does its work once, without competitors, next to a compute job, or next
//! to traffic.

use super::rig::Rig;
use super::shares::SampleShares;
use super::traffic::{Counters, Traffic};
use crate::cpustat;
use crate::data::{
    Cell, LedgerRecord, Rate, Role, SCHEMA, Sample, SoftirqSource, Treatment, VictimIn, VictimKind,
};
use crate::error::BenchError;
use crate::ledger::{Label, record};
use crate::rundir::now;
use crate::spawn::{PATIENCE, Place, Worker};
use crate::topology::{MadeBy, Spec, Tenant, Topology};
use crate::worker::{RpcReport, VictimReport};
use cofferdam_lab::Netns;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time from the start of the competitors to the start of the victim's work. Starting the processes
/// uses CPU time of its own; after this time it no longer shows.
const SETTLE: Duration = Duration::from_millis(600);
/// Time from the victim's end until the packet limits have ended, which takes 1 s. Then the
/// offenders' traffic is measured without the victim, for [`IDLE`].
const CALM: Duration = Duration::from_millis(1_750);
const IDLE: Duration = Duration::from_millis(400);
/// Time between two checks for the workers' answers.
const ANSWER_CHECK_PAUSE: Duration = Duration::from_millis(2);
/// Longest life of a worker within a sample.
const LIMIT_S: u64 = 180;
/// Requests per second to the `rpc` victim.
const RPC_RATE: u32 = 1_000;
/// Rounds of work per request, about 20 µs. With [`RPC_RATE`] the load is 2% of a CPU.
const RPC_ROUNDS: u32 = 10_000;
/// Fewest requests for a p99.
const RPC_REQUESTS: u64 = 2_000;

/// Role, treatment and position of a sample within its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub role: Role,
    pub treatment: Treatment,
    /// Number of the pair within the cell, from 0.
    pub pair: u32,
    /// Number of earlier attempts at this pair.
    pub attempt: u32,
    /// Position within the pair, from 0.
    pub position: u32,
}

/// Sample with its ledger.
pub(crate) struct SampleAndLedger {
    pub sample: Sample,
    pub ledger: Option<LedgerRecord>,
}

/// Test bench of one cell: its network, and the processes that keep its containers alive.
pub(crate) struct CellBench {
    cell: Cell,
    work: u64,
    trace: Option<PathBuf>,
    competitor_paths: Vec<String>,
    victim_path: String,
    /// Index of the victim's container; the competitors come before it.
    victim: usize,
    // Dropped in this order: processes first, then their places.
    _holders: Vec<Worker>,
    topology: Topology,
}

/// Victim that is ready to start.
enum Victim {
    Batch(Worker),
    Rpc { client: Worker, _server: Worker },
}

impl CellBench {
    /// Builds the cell's network, and calibrates the work that takes `seconds` without competitors.
    pub fn new(
        rig: &mut Rig<'_>,
        cell: &Cell,
        seconds: f64,
        segmentation_offload: bool,
        made_by: MadeBy,
        trace: Option<&Path>,
    ) -> Result<CellBench, BenchError> {
        let topology = Topology::build(&Spec {
            path: cell.path,
            containers: tenants(cell),
            victim_cpu: rig.victim_cpu,
            peer_cpu: rig.peer_cpu,
            segmentation_offload,
            htb_gbit_per_s: cell.htb_gbit_per_s,
            limit: cell.limit,
            made_by,
        })?;
        let victim = cell.offenders as usize;
        let mut holders = Vec::new();
        for i in 0..=victim {
            let place = match i == victim {
                true => place_of_victim(&topology, cell),
                false => topology.container(i),
            };
            let mut holder = Worker::start(&place, "hold --limit 86400")?;
            holder.go()?;
            holders.push(holder);
        }
        let work = match rig.calibrated.get(&cell.victim) {
            Some(work) => *work,
            None => {
                let place = place_of_victim(&topology, cell);
                let work = calibrate(rig, &place, cell.victim, seconds)?;
                rig.calibrated.insert(cell.victim, work);
                work
            }
        };
        Ok(CellBench {
            cell: cell.clone(),
            work,
            trace: trace.map(Path::to_owned),
            competitor_paths: (0..victim).map(|i| topology.cgroup_path(i)).collect(),
            victim_path: topology.cgroup_path(victim),
            victim,
            _holders: holders,
            topology,
        })
    }

    /// Runs the victim once and writes the sample to the run directory.
    pub fn sample(&self, rig: &mut Rig<'_>, turn: Turn) -> Result<SampleAndLedger, BenchError> {
        let mut paths = self.competitor_paths.clone();
        if self.cell.victim_in == VictimIn::Container {
            paths.push(self.victim_path.clone());
        }
        let applied = rig.apply_treatment(turn.treatment, paths);
        let measured = applied.and_then(|()| self.measure_sample(rig, turn));
        let reverted = rig.revert_treatment();
        measured.and_then(|measured| reverted.map(|()| measured))
    }

    fn measure_sample(&self, rig: &mut Rig<'_>, turn: Turn) -> Result<SampleAndLedger, BenchError> {
        let mut victim = self.prepare(rig)?;
        let mut burners = Vec::new();
        let mut traffic = Vec::new();
        let burn = format!("burn --limit {LIMIT_S}");
        let mut burn_at = |place: Place| -> Result<(), BenchError> {
            let mut burner = Worker::start(&place, &burn)?;
            burner.go()?;
            burners.push(burner);
            Ok(())
        };
        match turn.role {
            Role::Alone => {}
            Role::Compute => {
                for i in 0..self.victim {
                    burn_at(self.topology.container(i))?;
                }
                // With traffic, the generator keeps the peer's CPU busy, where the client of `rpc`
                // runs. A burner does the same in the baseline.
                if self.cell.victim == VictimKind::Rpc {
                    burn_at(self.topology.peer())?;
                }
            }
            Role::Traffic => {
                let trace = self.trace.as_deref();
                for i in 0..self.victim {
                    let started = Traffic::start(&self.topology, i, &self.cell, trace, LIMIT_S)?;
                    traffic.push(started);
                }
            }
        }
        rig.pass(SETTLE)?;
        let counters = read_all(rig, &mut traffic)?;
        let stat = cpustat::read(rig.victim_cpu);
        let snapshot = rig.ledger.as_mut().map(|l| l.snapshot()).transpose()?;
        victim.go()?;
        victim.wait(rig)?;
        // The counters that change fastest are read first: the workers answer late on a flooded
        // CPU.
        let later = rig.ledger.as_mut().map(|l| l.snapshot()).transpose()?;
        let stat_later = cpustat::read(rig.victim_cpu);
        let rates = rates_of(&read_all(rig, &mut traffic)?, &counters);
        drop(burners);
        let mut idle = None;
        if !traffic.is_empty() {
            rig.pass(CALM)?;
            let begin = read_all(rig, &mut traffic)?;
            rig.pass(IDLE)?;
            idle = rates_of(&read_all(rig, &mut traffic)?, &begin);
        }
        for traffic in traffic {
            traffic.end()?;
        }
        let (report, latency) = victim.report()?;
        let label = Label {
            cell: &self.cell.id,
            pair: turn.pair,
            attempt: turn.attempt,
            role: Some(turn.role),
            treatment: turn.treatment,
        };
        let ledger = match (&snapshot, &later) {
            (Some(earlier), Some(later)) => Some(record(&later.since(earlier), &label)),
            _ => None,
        };
        let ticks = match (stat, stat_later) {
            (Some(earlier), Some(later)) => later.since(&earlier).fractions(),
            _ => None,
        };
        let exact = ledger
            .as_ref()
            .and_then(|l| l.softirq_fraction(rig.victim_cpu));
        let softirq_source = match (exact, ticks) {
            (Some(_), _) => Some(SoftirqSource::Ledger),
            (None, Some(_)) => Some(SoftirqSource::ProcStat),
            (None, None) => None,
        };
        let shares = ledger.as_ref().map(|ledger| {
            let (competitors, victim) = (&self.competitor_paths, &self.victim_path);
            SampleShares::of(ledger, competitors, victim, rig.victim_cpu)
        });
        let shares = shares.unwrap_or_default();
        let sample = Sample {
            schema: SCHEMA,
            time: now(),
            cell: self.cell.id.clone(),
            pair: turn.pair,
            attempt: turn.attempt,
            position: turn.position,
            role: turn.role,
            treatment: turn.treatment,
            elapsed_s: report.elapsed_s,
            victim_cpu_s: report.cpu_s,
            checksum: report.checksum,
            latency,
            softirq_fraction: exact.or(ticks.map(|(softirq, _)| softirq)),
            softirq_source,
            steal_fraction: ticks.map(|(_, steal)| steal),
            offered: rates.map(|(offered, _)| offered),
            received: rates.map(|(_, received)| received),
            received_idle: idle.map(|(_, received)| received),
            offender_caused_fraction: shares.offender_caused,
            offender_corrected_fraction: shares.offender_corrected,
            victim_charged_fraction: shares.victim_charged,
        };
        rig.dir.sample(&sample)?;
        if let Some(ledger) = &ledger {
            rig.dir.ledger(ledger)?;
        }
        Ok(SampleAndLedger { sample, ledger })
    }

    fn prepare(&self, rig: &Rig<'_>) -> Result<Victim, BenchError> {
        let place = place_of_victim(&self.topology, &self.cell);
        if self.cell.victim != VictimKind::Rpc {
            let (kind, seed, work) = (self.cell.victim, rig.seed, self.work);
            let args =
                format!("victim --victim {kind} --seed {seed} --work {work} --limit {LIMIT_S}");
            return Ok(Victim::Batch(Worker::start(&place, &args)?));
        }
        let (to, port) = self.topology.target(self.victim);
        let serve = format!("rpc-server --port {port} --work {RPC_ROUNDS} --limit {LIMIT_S}");
        let mut server = Worker::start(&place, &serve)?;
        server.go()?;
        let ask = format!(
            "rpc-client --to {to} --port {port} --rate {RPC_RATE} --requests {} --realtime 1 \
             --limit {LIMIT_S}",
            self.work
        );
        let client = Worker::start(&self.topology.peer(), &ask)?;
        Ok(Victim::Rpc {
            client,
            _server: server,
        })
    }
}

impl Victim {
    fn worker(&mut self) -> &mut Worker {
        match self {
            Victim::Batch(worker) => worker,
            Victim::Rpc { client, .. } => client,
        }
    }

    fn go(&mut self) -> Result<(), BenchError> {
        self.worker().go()
    }

    /// Waits until the victim's work is done.
    fn wait(&mut self, rig: &mut Rig<'_>) -> Result<(), BenchError> {
        let deadline = Instant::now() + Duration::from_secs(LIMIT_S);
        let nap = Duration::from_millis(10);
        while Instant::now() < deadline {
            let patience = if rig.ledger.is_some() {
                Duration::ZERO
            } else {
                nap
            };
            if self.worker().has_line(patience)? {
                return Ok(());
            }
            rig.pass(if rig.ledger.is_some() {
                nap
            } else {
                Duration::ZERO
            })?;
        }
        Err(BenchError::Worker {
            worker: "victim".to_owned(),
            reason: format!("its work was not finished after {LIMIT_S} s"),
        })
    }

    fn report(mut self) -> Result<(VictimReport, Option<crate::data::Latency>), BenchError> {
        match &mut self {
            Victim::Batch(worker) => Ok((worker.answer()?, None)),
            Victim::Rpc { client, .. } => {
                let report: RpcReport = client.answer()?;
                let batch = VictimReport {
                    elapsed_s: report.elapsed_s,
                    cpu_s: 0.0,
                    units: report.latency.requests,
                    checksum: report.checksum,
                };
                Ok((batch, Some(report.latency)))
            }
        }
    }
}

/// Place of `cell`'s victim: its cgroup is that of the last container in `topology`.
fn place_of_victim(topology: &Topology, cell: &Cell) -> Place {
    let place = topology.container(cell.offenders as usize);
    match cell.victim_in {
        VictimIn::Container => place,
        VictimIn::Host => Place {
            netns: Netns::HOST,
            ..place
        },
    }
}

/// The cell's tenants: first the competitors, then the victim.
fn tenants(cell: &Cell) -> Vec<Tenant> {
    let competitor = |i| Tenant {
        name: match cell.offenders {
            1 => "competitor".to_owned(),
            _ => format!("competitor-{}", i + 1),
        },
        share_pct: cell.competitor_share_pct(),
        shaped: true,
    };
    let victim = Tenant {
        name: "victim".to_owned(),
        share_pct: f64::from(cell.victim_share_pct),
        shaped: false,
    };
    (0..cell.offenders)
        .map(competitor)
        .chain([victim])
        .collect()
}

/// Reads the counters of all generators and sinks. On a flooded CPU each answer takes some 25 ms;
/// the treatment continues in that time.
fn read_all(rig: &mut Rig<'_>, traffic: &mut [Traffic]) -> Result<Vec<Counters>, BenchError> {
    for one in &mut *traffic {
        one.ask()?;
    }
    for one in &mut *traffic {
        let deadline = Instant::now() + PATIENCE;
        while !one.has_answered()? && Instant::now() < deadline {
            rig.pass(ANSWER_CHECK_PAUSE)?;
        }
    }
    traffic.iter_mut().map(Traffic::answer).collect()
}

/// Total offered and received rates since `earlier`; `None` without traffic.
fn rates_of(now: &[Counters], earlier: &[Counters]) -> Option<(Rate, Rate)> {
    let pairs = now.iter().zip(earlier);
    pairs
        .map(|(now, earlier)| now.since(earlier))
        .reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// Units of work that take `seconds` on the victim's CPU.
fn calibrate(
    rig: &mut Rig<'_>,
    place: &Place,
    victim: VictimKind,
    seconds: f64,
) -> Result<u64, BenchError> {
    if victim == VictimKind::Rpc {
        return Ok(RPC_REQUESTS.max((seconds * f64::from(RPC_RATE)) as u64));
    }
    let args = format!(
        "victim --victim {victim} --seed {} --calibrate {seconds} --limit {LIMIT_S}",
        rig.seed
    );
    let mut job = Victim::Batch(Worker::start(place, &args)?);
    job.go()?;
    job.wait(rig)?;
    Ok(job.report()?.0.units)
}
