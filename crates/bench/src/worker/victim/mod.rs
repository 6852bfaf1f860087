//! Victims: a fixed amount of work, timed. The same work and seed always give the same answer.

pub(crate) mod corpus;
pub(crate) mod cpu;
mod mapreduce;
mod pi;
pub(crate) mod text;

use super::{Args, Control, Failure, control};
use crate::data::VictimKind;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Last line of a victim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VictimReport {
    /// Wall-clock time of the work, seconds.
    pub elapsed_s: f64,
    /// CPU time charged for it, seconds.
    pub cpu_s: f64,
    /// Finished units of work.
    pub units: u64,
    /// Checksum of the answer, hexadecimal.
    pub checksum: String,
}

/// Prepared job: does `units` of work and returns the answer's checksum.
type Job = Box<dyn Fn(u64) -> u64>;

/// Runs a victim. Calibrating finds the units that take about SECONDS on this CPU without
/// competitors. Arguments: `--victim KIND --seed S [--threads T] (--work UNITS
/// --calibrate SECONDS)`.
pub(crate) fn run(mut args: Args, control: &mut Control) -> Result<(), Failure> {
    let kind: VictimKind = args.need("victim")?;
    let seed: u64 = args.need("seed")?;
    let threads: usize = args.take("threads")?.unwrap_or(1);
    let work: Option<u64> = args.take("work")?;
    let calibrate: Option<f64> = args.take("calibrate")?;
    args.finish()?;
    let job = prepare(kind, seed, threads)?;
    control.start()?;
    let report = match (work, calibrate) {
        (Some(units), None) => timed(&job, units),
        (None, Some(seconds)) => calibrate_units(&job, seconds),
        _ => return Err("give either --work or --calibrate".to_owned()),
    };
    control::say_json(&report)
}

fn prepare(kind: VictimKind, seed: u64, threads: usize) -> Result<Job, Failure> {
    Ok(match kind {
        VictimKind::Cpu => Box::new(move |units| cpu::mix(seed, units * cpu::ROUNDS_PER_UNIT)),
        VictimKind::Pi => Box::new(move |units| pi::estimate(seed, units, threads)),
        VictimKind::Wordcount => {
            let corpus = corpus::generate(seed);
            Box::new(move |units| text::wordcount(&corpus, units, threads))
        }
        VictimKind::Grep => {
            let corpus = corpus::generate(seed);
            Box::new(move |units| text::grep(&corpus, units, threads))
        }
        VictimKind::Rpc => return Err("rpc is served by rpc-server and rpc-client".to_owned()),
    })
}

fn timed(job: &Job, units: u64) -> VictimReport {
    let (start, cpu_start) = (Instant::now(), cpu_time());
    let answer = std::hint::black_box(job(units));
    VictimReport {
        elapsed_s: start.elapsed().as_secs_f64(),
        cpu_s: cpu_time().saturating_sub(cpu_start).as_secs_f64(),
        units,
        checksum: format!("{answer:016x}"),
    }
}

/// Doubles the work until it takes a quarter of the time, then scales it. Scales by CPU time, not
/// by wall-clock time: another process on the CPU must not make the job smaller.
fn calibrate_units(job: &Job, seconds: f64) -> VictimReport {
    let mut units = 1;
    loop {
        let report = timed(job, units);
        if report.cpu_s >= seconds / 4.0 || units > u64::MAX / 4 {
            let scaled = (units as f64 * seconds / report.cpu_s.max(1e-9))
                .round()
                .max(1.0);
            return VictimReport {
                units: scaled as u64,
                ..report
            };
        }
        units *= 2;
    }
}

pub(crate) fn cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_depend_on_work_and_seed_only() {
        for &kind in VictimKind::ALL.iter().filter(|k| **k != VictimKind::Rpc) {
            let run = |seed, units, threads| prepare(kind, seed, threads).unwrap()(units);
            assert_eq!(run(1, 3, 1), run(1, 3, 1), "{kind}");
            assert_eq!(run(1, 3, 1), run(1, 3, 3), "{kind} by threads");
            assert_ne!(run(1, 3, 1), run(2, 3, 1), "{kind} by seed");
            assert_ne!(run(1, 3, 1), run(1, 4, 1), "{kind} by work");
        }
    }

    #[test]
    fn calibration_gives_more_work_for_more_time() {
        let job = prepare(VictimKind::Cpu, 1, 1).unwrap();
        assert!(calibrate_units(&job, 0.4).units > calibrate_units(&job, 0.001).units);
    }
}
