//! What differs between two runs: in the environment, and in the results.

use crate::data::{DataError, Estimate, IsolationResult, Manifest, RunData, RunResult};
use std::collections::BTreeMap;
use std::path::Path;

/// One figure of both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// `podman/network/a_s_b_f`.
    pub cell: String,
    /// In the first run.
    pub first: Estimate,
    /// In the second.
    pub second: Estimate,
    /// Two-sided p-value of the Mann-Whitney test, exact for these counts.
    pub p: f64,
    /// Whether the two 95% intervals share a value.
    pub overlap: bool,
}

/// The comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// What differs in the environment: name, first, second.
    pub environment: Vec<(String, String, String)>,
    /// Utilisation of tenant a in every cell that both have.
    pub utilisation: Vec<Compared>,
    /// Its performance.
    pub performance: Vec<Compared>,
    /// Cells that only one of them has.
    pub lone: Vec<String>,
}

/// Two runs could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// One of them cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// One of them is not of this benchmark, or has no result.
    #[error(
        "{0} holds no finished result of 'bench isolation': give two directories that it wrote"
    )]
    Other(String),
}

/// Compares the runs in two directories.
pub fn compare(first: &Path, second: &Path) -> Result<Comparison, CompareError> {
    let load = |path: &Path| -> Result<(Manifest, IsolationResult), CompareError> {
        let run = RunData::load(path)?;
        match run.result {
            Some(RunResult::Isolation(result)) => Ok((run.manifest, result)),
            _ => Err(CompareError::Other(path.display().to_string())),
        }
    };
    let (first, second) = (load(first)?, load(second)?);
    Ok(between(&first, &second))
}

fn between(
    first: &(Manifest, IsolationResult),
    second: &(Manifest, IsolationResult),
) -> Comparison {
    let mut comparison = Comparison {
        environment: differences(&facts(first), &facts(second)),
        ..Comparison::default()
    };
    let (old, new) = (rows(&first.1), rows(&second.1));
    for (cell, row) in &old {
        let Some(other) = new.get(cell) else {
            comparison.lone.push(cell.clone());
            continue;
        };
        let pair = |of: fn(&crate::data::IsolationRow) -> &Estimate| Compared {
            cell: cell.clone(),
            first: of(row).clone(),
            second: of(other).clone(),
            p: mann_whitney(&of(row).values, &of(other).values),
            overlap: of(row).low <= of(other).high && of(other).low <= of(row).high,
        };
        comparison.utilisation.push(pair(|r| &r.utilisation_pct));
        comparison.performance.push(pair(|r| &r.performance));
    }
    let lone = new.keys().filter(|cell| !old.contains_key(*cell));
    comparison.lone.extend(lone.cloned());
    comparison
}

fn rows(result: &IsolationResult) -> BTreeMap<String, &crate::data::IsolationRow> {
    let tables = result.tables.iter();
    tables
        .flat_map(|t| {
            t.rows.iter().map(move |row| {
                let care = match t.care {
                    crate::data::Care::Vanilla => String::new(),
                    care => format!("+{care}"),
                };
                (
                    format!("{}{care}/{}/{}", t.runtime, t.resource, row.scenario),
                    row,
                )
            })
        })
        .collect()
}

fn facts((manifest, result): &(Manifest, IsolationResult)) -> BTreeMap<String, String> {
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

/// The two-sided Mann-Whitney U test, exact: of all ways to divide the pooled ranks, the share
/// whose rank sum is as far from its mean or farther. Ties get the mean of their ranks. 1 where
/// one side is empty. (Mann and Whitney, 1947.)
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut pooled: Vec<f64> = a.iter().chain(b).copied().collect();
    pooled.sort_by(f64::total_cmp);
    // Twice the rank, so that ties stay whole numbers.
    let rank = |value: f64| {
        let below = pooled.partition_point(|p| p.total_cmp(&value).is_lt());
        let upto = pooled.partition_point(|p| p.total_cmp(&value).is_le());
        below + upto + 1
    };
    let ranks: Vec<usize> = pooled.iter().map(|v| rank(*v)).collect();
    let observed: usize = a.iter().map(|v| rank(*v)).sum();
    let most: usize = ranks.iter().sum();
    // ways[k][s]: subsets of k of the ranks so far whose sum is s; as numbers that cannot
    // overflow, for only their ratio counts.
    let mut ways = vec![vec![0.0_f64; most + 1]; a.len() + 1];
    ways[0][0] = 1.0;
    for r in &ranks {
        for k in (1..=a.len()).rev() {
            for s in (*r..=most).rev() {
                ways[k][s] += ways[k - 1][s - r];
            }
        }
    }
    let mean = a.len() as f64 * most as f64 / pooled.len() as f64;
    let distance = |sum: usize| (sum as f64 - mean).abs();
    let all: f64 = ways[a.len()].iter().sum();
    let far = ways[a.len()].iter().enumerate();
    let far: f64 = far
        .filter(|(sum, _)| distance(*sum) >= distance(observed) - 1e-9)
        .map(|(_, ways)| ways)
        .sum();
    (far / all).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against the published tables: n = m = 5, U = 0 → p = 2/252.
    #[test]
    fn the_test_is_exact() {
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        let high = [6.0, 7.0, 8.0, 9.0, 10.0];
        let p = mann_whitney(&low, &high);
        assert!((p - 2.0 / 252.0).abs() < 1e-12, "{p}");
        assert!((mann_whitney(&high, &low) - p).abs() < 1e-12);
        assert_eq!(mann_whitney(&low, &low), 1.0);
        assert_eq!(mann_whitney(&[3.0; 4], &[3.0; 4]), 1.0);
        assert_eq!(mann_whitney(&[], &low), 1.0);
        // n = 3, m = 3, U = 0 → 2/20.
        let p = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!((p - 0.1).abs() < 1e-12, "{p}");
    }

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
        let told = differences(&first, &second);
        assert_eq!(told.len(), 2);
        assert_eq!(told[0], ("b".to_owned(), "2".to_owned(), "3".to_owned()));
        assert_eq!(told[1].1, "–");
    }
}
