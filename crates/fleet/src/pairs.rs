//! Pairs in a run directory of `cofferdam bench penalty --with enforced` (or `demo`).

use crate::error::FleetError;
use crate::model::Pair;
use cofferdam_paths::read_text;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Largest file of a penalty run, bytes: samples of a grid take some megabytes.
const LARGEST_RUN_BYTES: u64 = 1 << 30;
/// Container whose work is fixed.
const VICTIM: &str = "victim";

/// Line of `samples.jsonl`; other fields do not matter here.
#[derive(Deserialize)]
struct Sample {
    time: String,
    cell: String,
    pair: u32,
    #[serde(default)]
    attempt: u32,
    role: String,
    treatment: String,
    victim_cpu_s: f64,
    checksum: String,
}

/// Line of `ledger.jsonl`.
#[derive(Deserialize)]
struct Ledger {
    cell: String,
    pair: u32,
    #[serde(default)]
    attempt: u32,
    role: Option<String>,
    treatment: String,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    caused_by_cpu_ns: Vec<u64>,
    charged_by_cpu_ns: Vec<u64>,
}

impl Ledger {
    /// CPU time that the victim was charged for packets of other containers, seconds:
    /// `records::flow` for one victim.
    fn paid_s(&self) -> f64 {
        let cpus = self
            .containers
            .first()
            .map_or(0, |c| c.charged_by_cpu_ns.len());
        let over = |c: &Container, cpu: usize| {
            let at = |by_cpu: &[u64]| by_cpu.get(cpu).copied().unwrap_or(0) as f64;
            at(&c.charged_by_cpu_ns) - at(&c.caused_by_cpu_ns)
        };
        let on = |cpu: usize| -> f64 {
            let all = || self.containers.iter().map(|c| over(c, cpu));
            let owes: f64 = all().map(|ns| (-ns).max(0.0)).sum();
            let paid: f64 = all().map(|ns| ns.max(0.0)).sum();
            let victims = self.containers.iter().filter(|c| c.name == VICTIM);
            let own: f64 = victims.map(|c| over(c, cpu).max(0.0)).sum();
            if paid > 0.0 {
                own * owes.min(paid) / paid
            } else {
                0.0
            }
        };
        (0..cpus).map(on).sum::<f64>() / 1e9
    }
}

/// Reads the pairs in `run` that have both samples, the ledger of the vanilla one, and equal
/// checksums.
///
/// # Errors
/// A file is missing, or a line is not of a penalty run.
pub fn read(run: &Path) -> Result<Vec<Pair>, FleetError> {
    let ledgers: Vec<Ledger> = read_lines(&run.join("ledger.jsonl"))?;
    let samples: Vec<Sample> = read_lines(&run.join("samples.jsonl"))?;
    let is_vanilla =
        |role: Option<&str>, treatment: &str| role == Some("traffic") && treatment == "vanilla";
    let paid: BTreeMap<_, f64> = (ledgers.iter())
        .filter(|l| is_vanilla(l.role.as_deref(), &l.treatment))
        .map(|l| ((l.cell.as_str(), l.pair, l.attempt), l.paid_s()))
        .collect();
    let key = |s: &Sample| (s.cell.clone(), s.pair, s.attempt);
    let pair = |enforced: &Sample| {
        let same = |s: &&Sample| is_vanilla(Some(&s.role), &s.treatment) && key(s) == key(enforced);
        let vanilla = samples.iter().find(same)?;
        let is_same_work = vanilla.checksum == enforced.checksum;
        Some(Pair {
            cell: vanilla.cell.clone(),
            time: vanilla.time.clone(),
            paid_s: *paid.get(&(vanilla.cell.as_str(), vanilla.pair, vanilla.attempt))?,
            vanilla_s: vanilla.victim_cpu_s,
            enforced_s: enforced.victim_cpu_s,
        })
        .filter(|_| is_same_work)
    };
    let enforced = |s: &&Sample| s.role == "traffic" && s.treatment == "enforced";
    Ok(samples.iter().filter(enforced).filter_map(pair).collect())
}

fn read_lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>, FleetError> {
    let text = read_text(path, LARGEST_RUN_BYTES).map_err(|why| FleetError::Read {
        path: path.to_owned(),
        source: why.into(),
    })?;
    let parse = |(line, text): (u64, &str)| {
        serde_json::from_str(text).map_err(|e| FleetError::Line {
            path: path.to_owned(),
            line,
            reason: format!("not of a penalty run: {e}"),
        })
    };
    (1..).zip(text.lines()).map(parse).collect()
}
