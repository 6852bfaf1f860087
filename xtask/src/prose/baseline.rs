//! Baseline: the number of findings that each file had when the gate came, which only falls.

use super::{Finding, Rule};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// File of the baseline: lines of `RULE COUNT PATH`, sorted.
const FILE: &str = "xtask/prose.baseline";

/// Most findings of one file and rule that are printed.
const MOST_SHOWN: usize = 5;

/// Number of findings by file and rule.
type Counts = BTreeMap<(PathBuf, Rule), usize>;

/// Fails where a file has more findings than in the baseline, or fewer: the baseline follows.
pub fn check(findings: &[(PathBuf, Finding)]) -> Result<()> {
    let before = parse(&tree::read(Path::new(FILE))?)?;
    let now = counts(findings);
    let report = growth(&before, &now, findings);
    if !report.is_empty() {
        bail!("sentences and names that docs/GLOSSARY.md refuses:\n{report}");
    }
    if now != before {
        bail!(
            "{FILE} counts {} findings, and there are {}: run `cargo xtask prose --shrink`",
            before.values().sum::<usize>(),
            now.values().sum::<usize>()
        );
    }
    Ok(())
}

/// Writes the baseline again. Text may move between files: the sum of each rule decides.
///
/// # Errors
/// A rule has more findings than in the baseline, which then stays.
pub fn shrink(findings: &[(PathBuf, Finding)]) -> Result<()> {
    let now = counts(findings);
    let path = tree::root().join(FILE);
    if path.exists() {
        let before = parse(&tree::read(Path::new(FILE))?)?;
        let grown = Rule::ALL
            .into_iter()
            .find(|rule| sum(&now, *rule) > sum(&before, *rule));
        if let Some(rule) = grown {
            bail!(
                "{} findings of the rule '{rule}', {} in the baseline:\n{}",
                sum(&now, rule),
                sum(&before, rule),
                growth(&before, &now, findings)
            );
        }
    }
    std::fs::write(&path, print(&now)).with_context(|| format!("cannot write {FILE}"))?;
    for rule in Rule::ALL {
        println!("{:6} {rule}", sum(&now, rule));
    }
    Ok(())
}

fn counts(findings: &[(PathBuf, Finding)]) -> Counts {
    let mut counts = Counts::new();
    for (file, finding) in findings {
        *counts.entry((file.clone(), finding.rule)).or_default() += 1;
    }
    counts
}

fn sum(counts: &Counts, rule: Rule) -> usize {
    let of_rule = counts.iter().filter(|((_, r), _)| *r == rule);
    of_rule.map(|(_, count)| count).sum()
}

/// Findings of the files that have more than in the baseline.
fn growth(before: &Counts, now: &Counts, findings: &[(PathBuf, Finding)]) -> String {
    let mut report = String::new();
    for ((file, rule), count) in now {
        let allowed = before.get(&(file.clone(), *rule)).copied().unwrap_or(0);
        if *count <= allowed {
            continue;
        }
        let _ = writeln!(report, "{}: {rule}: {count}, not {allowed}", file.display());
        let of_rule = findings
            .iter()
            .filter(|(f, finding)| f == file && finding.rule == *rule);
        for (_, finding) in of_rule.take(MOST_SHOWN.max(*count - allowed)) {
            let _ = writeln!(
                report,
                "  {}:{}: {}",
                file.display(),
                finding.line,
                finding.text
            );
        }
    }
    report
}

fn print(counts: &Counts) -> String {
    let mut text = String::new();
    for ((file, rule), count) in counts {
        let _ = writeln!(text, "{rule} {count} {}", file.display());
    }
    text
}

fn parse(text: &str) -> Result<Counts> {
    let lines = text.lines().enumerate().map(|(number, line)| {
        let mut words = line.splitn(3, ' ');
        let rule = words.next().and_then(Rule::parse);
        let count = words.next().and_then(|count| count.parse().ok());
        let entry = rule.zip(count).zip(words.next());
        let ((rule, count), file) =
            entry.with_context(|| format!("{FILE}:{}: not `RULE COUNT PATH`", number + 1))?;
        Ok(((PathBuf::from(file), rule), count))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(file: &str, rule: Rule) -> (PathBuf, Finding) {
        let text = "x".to_owned();
        (
            PathBuf::from(file),
            Finding {
                line: 1,
                rule,
                text,
            },
        )
    }

    #[test]
    fn a_file_may_not_have_more_findings() {
        let old = [finding("a.rs", Rule::Word), finding("b.rs", Rule::Word)];
        let moved = [finding("a.rs", Rule::Word), finding("a.rs", Rule::Word)];
        let before = counts(&old);
        assert_eq!(growth(&before, &counts(&old), &old), "");
        assert_eq!(growth(&before, &counts(&old[..1]), &old[..1]), "");
        let report = growth(&before, &counts(&moved), &moved);
        assert!(report.starts_with("a.rs: word: 2, not 1"), "{report}");
    }

    #[test]
    fn a_printed_baseline_parses_to_the_same_counts() {
        let counts = counts(&[finding("a b.rs", Rule::Word), finding("c.md", Rule::Width)]);
        assert_eq!(parse(&print(&counts)).expect("our own format"), counts);
        assert!(parse("word many a.rs").is_err());
    }
}
