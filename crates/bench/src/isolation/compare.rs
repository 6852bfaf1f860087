//! Differences between two runs: in the environment, and in the results.

use crate::data::Estimate;
use crate::evidence;
use crate::isolation::data::{IsolationResult, IsolationRow, IsolationTable};
use crate::run::error::DataError;
use crate::run::{Manifest, RunData, RunResult, RunSamples};
use crate::stats::mann_whitney;
use std::collections::BTreeMap;
use std::path::Path;

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigure {
    /// `podman/network/a_s_b_f`.
    pub cell: String,
    /// Figure of the first run.
    pub first: Estimate,
    /// Figure of the second run.
    pub second: Estimate,
    /// Two-sided p-value of the Mann-Whitney test, exact for these counts.
    pub p: f64,
    /// Whether the figures differ by that test; `None` if one has too few blocks.
    pub differs: Option<bool>,
    /// Whether the two 95% intervals share a value; `None` if one figure has no interval.
    pub overlap: Option<bool>,
}

/// Comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Differences in the environment: name, first value, second value.
    pub environment: Vec<(String, String, String)>,
    /// Utilisation of tenant a in every cell that both have.
    pub utilisation: Vec<ComparedFigure>,
    /// Performance of tenant a in every cell that both have.
    pub performance: Vec<ComparedFigure>,
    /// Cells of only one run.
    pub lone: Vec<String>,
    /// Limits that the runs measured on their hosts, in block operations a second. Cells are then
    /// compared as parts of these limits.
    pub own_limits: Option<[f64; 2]>,
}

/// Two runs that could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// One of them cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// One of them is a run of another benchmark, or has no result.
    #[error("{0} has no finished result of 'bench isolation': give two directories that it wrote")]
    Other(String),
}

/// Compares the runs in two directories.
pub fn compare(first: &Path, second: &Path) -> Result<Comparison, CompareError> {
    let load = |path: &Path| -> Result<Side, CompareError> {
        let run = RunData::load(path)?;
        let Some(RunResult::Isolation(result)) = run.result else {
            return Err(CompareError::Other(path.display().to_string()));
        };
        let samples = match run.samples {
            RunSamples::Isolation(samples) => samples,
            _ => return Err(CompareError::Other(path.display().to_string())),
        };
        let given = samples
            .experiment
            .and_then(|e| e.limits.disk_iops)
            .is_some();
        let mut of_disk = samples.samples.iter().filter(|s| s.key.resource.is_disk());
        Ok(Side {
            facts: facts(&run.manifest, &result),
            result,
            own_limit: of_disk
                .next()
                .map(|s| s.limit)
                .filter(|l| !given && *l > 0.0),
        })
    };
    let (first, second) = (load(first)?, load(second)?);
    Ok(between(&first, &second))
}

/// One of the two runs.
struct Side {
    /// Facts of its environment, by name.
    facts: BTreeMap<String, String>,
    result: IsolationResult,
    /// Limit in block operations a second, if the run measured it: the rate of a disk, and the
    /// limit with it, may differ between runs.
    own_limit: Option<f64>,
}

fn between(first: &Side, second: &Side) -> Comparison {
    let own_limits = first.own_limit.zip(second.own_limit).map(<[f64; 2]>::from);
    let mut comparison = Comparison {
        environment: differences(&first.facts, &second.facts),
        own_limits,
        ..Comparison::default()
    };
    let (old, new) = (rows(&first.result), rows(&second.result));
    for (cell, (table, row)) in &old {
        let Some((other_table, other)) = new.get(cell) else {
            comparison.lone.push(cell.clone());
            continue;
        };
        let scales = own_limits.filter(|_| table.resource.is_disk());
        let pair = |first: Estimate, second: Estimate| ComparedFigure {
            cell: cell.clone(),
            p: mann_whitney(&first.values, &second.values),
            differs: evidence::differ(&first, &second),
            overlap: first
                .interval()
                .zip(second.interval())
                .map(|(one, other)| one.overlaps(other)),
            first,
            second,
        };
        let [one, two] = scales.unwrap_or([1.0; 2]);
        comparison.performance.push(pair(
            row.performance.map(|v| v / one),
            other.performance.map(|v| v / two),
        ));
        // Percent of the capacity, or parts of the limit.
        let part = |table: &IsolationTable, limit| match scales {
            Some(_) => table.capacity / 100.0 / limit,
            None => 1.0,
        };
        comparison.utilisation.push(pair(
            row.utilisation_pct.map(|v| v * part(table, one)),
            other.utilisation_pct.map(|v| v * part(other_table, two)),
        ));
    }
    let lone = new.keys().filter(|cell| !old.contains_key(*cell));
    comparison.lone.extend(lone.cloned());
    comparison
}

fn rows(result: &IsolationResult) -> BTreeMap<String, (&IsolationTable, &IsolationRow)> {
    let tables = result.tables.iter();
    tables
        .flat_map(|t| {
            t.rows.iter().map(move |row| {
                let protection = match t.protection {
                    crate::isolation::data::Protection::Vanilla => String::new(),
                    protection => format!("+{protection}"),
                };
                (
                    format!("{}{protection}/{}/{}", t.runtime, t.resource, row.scenario),
                    (t, row),
                )
            })
        })
        .collect()
}

fn facts(manifest: &Manifest, result: &IsolationResult) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([
        ("version of Cofferdam".to_owned(), manifest.version.clone()),
        ("kernel".to_owned(), manifest.kernel.clone()),
        ("CPU".to_owned(), manifest.cpu_model.clone()),
        ("CPUs".to_owned(), manifest.cpus.to_string()),
        ("cgroups".to_owned(), manifest.cgroup_layout.clone()),
        (
            "warnings at the start".to_owned(),
            manifest.warnings.join("; "),
        ),
    ]);
    let mitigations = manifest.mitigations.iter();
    facts.extend(mitigations.map(|(name, value)| (format!("mitigation {name}"), value.clone())));
    let environment = &result.environment;
    facts.extend(environment.host.clone());
    for (kind, values) in [
        ("runtime", &environment.runtimes),
        ("image", &environment.images),
    ] {
        facts.extend(
            values
                .iter()
                .map(|(name, value)| (format!("{kind} {name}"), value.clone())),
        );
    }
    facts
}

fn differences(
    first: &BTreeMap<String, String>,
    second: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let mut names: Vec<&String> = first.keys().chain(second.keys()).collect();
    names.sort();
    names.dedup();
    let value = |of: &BTreeMap<String, String>, name: &str| {
        of.get(name).cloned().unwrap_or_else(|| "–".to_owned())
    };
    names
        .into_iter()
        .map(|name| (name.clone(), value(first, name), value(second, name)))
        .filter(|(_, old, new)| old != new)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::data::{Protection, Resource, RuntimeKind};
    use crate::stats;

    /// Compares two runs of a tenant at its limit, with limits measured on different hosts.
    /// Promise 45.
    #[test]
    fn limits_that_the_host_decided_are_divided_out() {
        let side = |limit: f64, resource: Resource, own: bool| {
            let around = [0.98, 0.99, 1.0, 1.01, 1.02];
            let at = |value: f64| stats::estimate(&around.map(|a| a * value), 1).unwrap();
            let row = IsolationRow {
                id: 2,
                scenario: "a_s".parse().unwrap(),
                utilisation_pct: at(100.0 * limit / 50_000.0),
                b_utilisation_pct: None,
                i_ulr: None,
                i_plr: None,
                utilisation_loss_pct: None,
                performance: at(limit),
                performance_loss_pct: None,
                achieved: None,
                p99_us: None,
                p99_factor: None,
                restarts: 0,
            };
            let table = IsolationTable {
                runtime: RuntimeKind::Process,
                protection: Protection::Vanilla,
                resource,
                capacity: 50_000.0,
                rows: vec![row],
            };
            Side {
                facts: BTreeMap::new(),
                result: IsolationResult {
                    tables: vec![table],
                    ..IsolationResult::default()
                },
                own_limit: own.then_some(limit),
            }
        };
        let compared = |resource, own| {
            let [first, second] = [9_500.0, 11_700.0].map(|limit| side(limit, resource, own));
            between(&first, &second)
        };
        let divided = compared(Resource::Disk, true);
        assert_eq!(divided.own_limits, Some([9_500.0, 11_700.0]));
        for cell in divided.performance.iter().chain(&divided.utilisation) {
            assert!(
                cell.overlap == Some(true) && (cell.first.median - 1.0).abs() < 1e-9,
                "{cell:?}"
            );
        }
        // Limits from the experiment, and those of another resource, stay unchanged.
        for comparison in [
            compared(Resource::Disk, false),
            compared(Resource::Cpu, true),
        ] {
            assert_eq!(
                comparison.performance[0].overlap,
                Some(false),
                "{comparison:?}"
            );
            assert_eq!(comparison.performance[0].first.median, 9_500.0);
        }
    }

    /// Promise 45.
    #[test]
    fn what_differs_is_named_and_what_does_not_is_not() {
        let first = BTreeMap::from([
            ("a".to_owned(), "1".to_owned()),
            ("b".to_owned(), "2".to_owned()),
        ]);
        let mut second = first.clone();
        assert!(differences(&first, &second).is_empty());
        second.insert("b".to_owned(), "3".to_owned());
        second.insert("c".to_owned(), "4".to_owned());
        let found = differences(&first, &second);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], ("b".to_owned(), "2".to_owned(), "3".to_owned()));
        assert_eq!(found[1].1, "–");
    }
}
