//! Goodput with and without the accounting, and the cost of each of its programs.

use super::options::Options;
use super::traffic::{Counters, Flow, Traffic};
use crate::accounting::data::{
    AccountingResult, ConservationRow, LoadShape, OverheadRow, PeriodSample, ProgramRow, Watch,
};
use crate::data::{Rate, SCHEMA, Treatment};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::ledger::{Label, from_start, record};
use crate::rundir::now;
use crate::stats::estimate;
use cofferdam_accounting::{
    Accountant, Options as AccountantOptions, ProgramCost, ReadError, WindowOptions,
};
use cofferdam_bpf::EmptyMarkers;
use cofferdam_types::{AccountingMode, Interval, Snapshot};
use std::time::{Duration, Instant};

/// Time between a switch and the period: loading programs disturbs for a moment.
const SETTLE: Duration = Duration::from_millis(200);

/// Result of one period.
struct Period {
    received: Rate,
    carried_packets_per_s: Option<f64>,
    interval: Option<Interval>,
    costs: Option<Vec<ProgramCost>>,
    memory_bytes: Option<u64>,
}

/// Starts the accounting.
pub(super) fn start(measure_programs: bool) -> Result<Accountant, BenchError> {
    Accountant::start(AccountantOptions {
        measure_programs,
        ..AccountantOptions::default()
    })
    .map_err(from_start)
}

fn start_nothing() -> Result<EmptyMarkers, BenchError> {
    EmptyMarkers::start().map_err(|e| from_start(e.into()))
}

pub(super) fn unreadable(error: ReadError) -> BenchError {
    BenchError::Ledger(error.to_string())
}

/// Measures one load and adds its rows.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    load: LoadShape,
    result: &mut AccountingResult,
) -> Result<(), BenchError> {
    let rounds = options.pairs as usize;
    let steps = rounds * TREATMENTS.len() + 1;
    let mut traffic = Traffic::start(rig, &[Flow::of(load)])?;
    let watches = TREATMENTS.into_iter().flatten();
    let mut all: Vec<_> = watches.map(|mode| (mode, LoadSeries::default())).collect();
    for round in 0..options.pairs {
        let mut order = TREATMENTS;
        rig.random.shuffle(&mut order);
        let mut periods = Vec::with_capacity(order.len());
        for (position, watch) in (0..).zip(order) {
            let words = watch.map_or("off", Watch::label);
            let step = round as usize * TREATMENTS.len() + position as usize;
            let what = format!("{}: accounting {words}", load.label());
            rig.progress.step(step, steps, &what);
            let plan = Plan {
                load,
                pair: round,
                position,
                watch,
                measured_programs: false,
            };
            let period = plan.run(rig, options, &mut traffic)?;
            result.memory_bytes = result.memory_bytes.or(period.memory_bytes);
            periods.push((watch, period));
        }
        let of = |wanted| periods.iter().find(|(with, _)| *with == wanted);
        for (mode, both) in &mut all {
            if let (Some((_, off)), Some((_, on))) = (of(None), of(Some(*mode))) {
                both.push(load, [off, on]);
            }
        }
    }
    rig.progress.step(
        steps - 1,
        steps,
        &format!("{}: cost of each program", load.label()),
    );
    let plan = Plan {
        load,
        pair: options.pairs,
        position: 0,
        watch: Some(Watch::Exact),
        measured_programs: true,
    };
    let measured = plan.run(rig, options, &mut traffic)?;
    let packets = received_packets(&measured, &traffic.path(0));
    let costs = measured.costs.unwrap_or_default();
    // Time that the kernel's statistics add to every run.
    let ns_per_run = |cost: &ProgramCost| cost.run_time_ns as f64 / cost.runs as f64;
    let statistics_ns_per_run = costs
        .iter()
        .find(|c| c.name == STATISTICS && c.runs > 0)
        .map(ns_per_run);
    let mut bpf_ns = 0.0;
    for cost in costs.iter().filter(|c| c.runs > 0 && c.name != STATISTICS) {
        let net = (ns_per_run(cost) - statistics_ns_per_run.unwrap_or(0.0)).max(0.0);
        bpf_ns += net * cost.runs as f64;
        result.programs.push(ProgramRow {
            load,
            name: cost.name.clone(),
            runs: cost.runs,
            ns_per_run: net,
            runs_per_packet: cost.runs as f64 / packets.max(1) as f64,
        });
    }
    if let Some(interval) = &measured.interval {
        result
            .conservation
            .push(conservation(load.label(), interval));
    }
    let bpf_ns_per_packet = (packets > 0 && bpf_ns > 0.0).then(|| bpf_ns / packets as f64);
    let (unit, goal) = match load {
        LoadShape::Flood64 => ("packets/s read", 0.96),
        LoadShape::TcpStream => ("bytes/s", 0.99),
    };
    // A flood has two rates. The stack's carried rate is the goodput of the path. The application's
    // read rate is what receive work leaves of its CPU; near saturation 1% of the first is many
    // percent of the second.
    for (mode, both) in all {
        for (series, unit) in [(both.carried, "packets/s carried"), (both.read, unit)] {
            let estimates = (
                estimate(&series.off, rig.seed),
                estimate(&series.on, rig.seed),
                estimate(&series.ratios, rig.seed),
            );
            let exact = mode == Watch::Exact;
            if let (Some(off), Some(on), Some(ratio)) = estimates {
                result.overhead.push(OverheadRow {
                    load,
                    mode,
                    unit: unit.to_owned(),
                    off,
                    on,
                    ratio,
                    goal: (mode != Watch::Nothing).then_some(goal),
                    bpf_ns_per_packet: bpf_ns_per_packet.filter(|_| exact),
                    statistics_ns_per_run: statistics_ns_per_run.filter(|_| exact),
                });
            }
        }
    }
    Ok(())
}

/// Treatments that take turns in each round: off, each mode of the accounting, and empty programs.
const TREATMENTS: [Option<Watch>; 4] = [
    None,
    Some(Watch::Exact),
    Some(Watch::Sampled),
    Some(Watch::Nothing),
];

/// Rates that the application read and, under a flood, that the stack carried.
#[derive(Default)]
struct LoadSeries {
    read: Series,
    carried: Series,
}

impl LoadSeries {
    fn push(&mut self, load: LoadShape, [off, on]: [&Period; 2]) {
        self.read
            .push([off, on].map(|period| goodput(load, period.received)));
        if let (Some(off), Some(on)) = (off.carried_packets_per_s, on.carried_packets_per_s) {
            self.carried.push([off, on]);
        }
    }
}

/// Off, on, and on ÷ off of each round.
#[derive(Default)]
struct Series {
    off: Vec<f64>,
    on: Vec<f64>,
    ratios: Vec<f64>,
}

impl Series {
    fn push(&mut self, [off, on]: [f64; 2]) {
        self.off.push(off);
        self.on.push(on);
        self.ratios.push(on / off);
    }
}

/// Name of the statistics' own cost in the list of programs.
const STATISTICS: &str = "(statistics)";

/// Turns the conservation of the interval into a row.
pub(super) fn conservation(load: &str, interval: &Interval) -> ConservationRow {
    ConservationRow {
        load: load.to_owned(),
        measured_ns: interval.conservation.measured_ns,
        attributed_ns: interval.conservation.attributed_ns,
        worst_cpu_error_pct: interval.conservation.worst_cpu_error_pct,
    }
}

fn goodput(load: LoadShape, rate: Rate) -> f64 {
    match load {
        LoadShape::Flood64 => rate.packets_per_s,
        LoadShape::TcpStream => rate.bytes_per_s,
    }
}

/// Packets that the ledger counted for the container: all that the kernel handled, also those
/// dropped at the socket. TCP segments count after the kernel has merged them.
fn received_packets(period: &Period, path: &str) -> u64 {
    let Some(interval) = &period.interval else {
        return 0;
    };
    interval
        .containers
        .iter()
        .filter(|c| c.container.cgroup_path.to_string_lossy() == path)
        .map(|c| c.ledger.rx_packets)
        .sum()
}

/// Period to measure.
struct Plan {
    load: LoadShape,
    pair: u32,
    position: u32,
    /// Programs that run with the packets; `None`: none.
    watch: Option<Watch>,
    measured_programs: bool,
}

impl Plan {
    fn run(
        &self,
        rig: &mut Rig<'_>,
        options: &Options,
        traffic: &mut Traffic,
    ) -> Result<Period, BenchError> {
        let (mut accountant, mut nothing) = (None, None);
        match self.watch {
            None => {}
            Some(Watch::Nothing) => nothing = Some(start_nothing()?),
            Some(Watch::Exact) => accountant = Some(start(self.measured_programs)?),
            Some(Watch::Sampled) => {
                let accountant = accountant.insert(start(self.measured_programs)?);
                take_windows(rig, accountant)?;
            }
        }
        pass(rig, accountant.as_mut(), SETTLE)?;
        let counters = traffic.read()?;
        let carried = traffic.carried_datagrams(0)?;
        let began = Instant::now();
        let earlier = Reading::take(accountant.as_mut())?;
        pass(
            rig,
            accountant.as_mut(),
            Duration::from_secs_f64(options.period_s()),
        )?;
        let later = Reading::take(accountant.as_mut())?;
        let counters_later = traffic.read()?;
        let carried = traffic.carried_datagrams(0)?.saturating_sub(carried);
        let carried_packets_per_s = (self.load == LoadShape::Flood64)
            .then(|| carried as f64 / began.elapsed().as_secs_f64());
        let memory_bytes = accountant.as_ref().map(Accountant::memory_bytes);
        let accounting = accountant.is_some();
        drop((accountant, nothing));
        let (offered, received) = rates(&counters, &counters_later);
        let interval = match (&earlier.snapshot, &later.snapshot) {
            (Some(earlier), Some(later)) => Some(later.since(earlier)),
            _ => None,
        };
        rig.dir.sample(&PeriodSample {
            schema: SCHEMA,
            time: now(),
            load: self.load,
            pair: self.pair,
            position: self.position,
            accounting,
            mode: self.watch.unwrap_or_default(),
            measured_programs: self.measured_programs,
            seconds: options.period_s(),
            offered,
            received,
            carried_packets_per_s,
        })?;
        if let Some(interval) = &interval {
            let label = Label {
                cell: self.load.id(),
                pair: self.pair,
                attempt: 0,
                role: None,
                treatment: Treatment::Vanilla,
            };
            rig.dir.ledger(&record(interval, &label))?;
        }
        let costs = match (earlier.costs, later.costs) {
            (Some(earlier), Some(later)) => Some(minus(&later, &earlier)),
            _ => None,
        };
        Ok(Period {
            received,
            carried_packets_per_s,
            interval,
            costs,
            memory_bytes,
        })
    }
}

/// Ledger and program costs at one moment.
#[derive(Default)]
struct Reading {
    snapshot: Option<Snapshot>,
    costs: Option<Vec<ProgramCost>>,
}

impl Reading {
    fn take(accountant: Option<&mut Accountant>) -> Result<Reading, BenchError> {
        let Some(accountant) = accountant else {
            return Ok(Reading::default());
        };
        let mut costs = accountant.program_costs().map_err(unreadable)?;
        costs.extend(
            accountant
                .statistics_cost()
                .map_err(unreadable)?
                .map(|cost| ProgramCost {
                    name: STATISTICS.to_owned(),
                    ..cost
                }),
        );
        Ok(Reading {
            snapshot: Some(accountant.snapshot().map_err(unreadable)?),
            costs: Some(costs),
        })
    }
}

/// Makes the accounting measure in windows from now on, as the agent does by default.
fn take_windows(rig: &mut Rig<'_>, accountant: &mut Accountant) -> Result<(), BenchError> {
    let windows = WindowOptions::default();
    accountant.sample(windows).map_err(unreadable)?;
    accountant.set_exact(false).map_err(unreadable)?;
    while accountant.mode() == AccountingMode::Exact {
        pass(rig, Some(accountant), Duration::from_millis(10))?;
    }
    Ok(())
}

/// Waits for `time`, while it serves the accounting and the signals.
pub(super) fn pass(
    rig: &mut Rig<'_>,
    mut accountant: Option<&mut Accountant>,
    time: Duration,
) -> Result<(), BenchError> {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        rig.check()?;
        let until = deadline.min(Instant::now() + Duration::from_millis(50));
        match accountant.as_deref_mut() {
            Some(accountant) => {
                accountant.follow(until, None).map_err(unreadable)?;
            }
            None => std::thread::sleep(until.saturating_duration_since(Instant::now())),
        }
    }
    Ok(())
}

/// Rates of the only flow.
fn rates(earlier: &[Counters], later: &[Counters]) -> (Rate, Rate) {
    match (earlier.first(), later.first()) {
        (Some(earlier), Some(later)) => later.since(earlier),
        _ => Default::default(),
    }
}

/// Later − earlier, program by program.
fn minus(later: &[ProgramCost], earlier: &[ProgramCost]) -> Vec<ProgramCost> {
    later
        .iter()
        .map(|now| {
            let old = earlier.iter().find(|c| c.name == now.name);
            let (runs, ns) = old.map_or((0, 0), |o| (o.runs, o.run_time_ns));
            ProgramCost {
                runs: now.runs.saturating_sub(runs),
                run_time_ns: now.run_time_ns.saturating_sub(ns),
                ..now.clone()
            }
        })
        .collect()
}
