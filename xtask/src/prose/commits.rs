//! Subjects and bodies of the commits since the gate came.

use crate::tree;
use anyhow::{Context, Result, bail};
use regex_lite::Regex;
use std::process::Command;

/// Longest subject, letters.
const LONGEST_SUBJECT: usize = 72;

/// File whose first commit is the gate's.
const GATE: &str = "xtask/src/prose/mod.rs";

/// Paths whose change is a change of behaviour.
const BEHAVIOUR: [&str; 2] = ["bpf/", "crates/"];

/// Parts of paths whose change is none.
const NO_BEHAVIOUR: [&str; 4] = ["/tests/", "/tests.rs", ".md", "/benches/"];

/// Commit as `git log` prints it.
#[derive(Debug, Default)]
struct Commit {
    id: String,
    subject: String,
    has_body: bool,
    paths: Vec<String>,
}

/// Checks every commit after the gate's. A checkout without that commit has none to check.
pub fn check() -> Result<()> {
    let gate = git(&["log", "--diff-filter=A", "--format=%H", "--", GATE])?;
    let Some(gate) = gate.lines().last() else {
        return Ok(());
    };
    let range = format!("{gate}..HEAD");
    let format = "--format=%x01%h%x02%s%x02%b%x02";
    let log = git(&["log", "--no-merges", "--name-only", format, &range])?;
    let faults: Vec<String> = log
        .split('\u{1}')
        .skip(1)
        .map(parse)
        .filter_map(|commit| Some(format!("{} {}", commit.id, fault(&commit)?)))
        .collect();
    if !faults.is_empty() {
        bail!(
            "commits whose messages CONTRIBUTING.md refuses:\n{}",
            faults.join("\n")
        );
    }
    Ok(())
}

fn git(arguments: &[&str]) -> Result<String> {
    let out = Command::new("git")
        .arg("-C")
        .arg(tree::root())
        .args(arguments)
        .output()
        .context("cannot run git; is it installed?")?;
    if !out.status.success() {
        bail!(
            "git {} failed: {}",
            arguments.first().unwrap_or(&""),
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn parse(text: &str) -> Commit {
    let mut fields = text.split('\u{2}');
    let mut field = || fields.next().unwrap_or_default().trim().to_owned();
    Commit {
        id: field(),
        subject: field(),
        has_body: !field().is_empty(),
        paths: field().lines().map(str::to_owned).collect(),
    }
}

/// Reason why the rule refuses a commit.
fn fault(commit: &Commit) -> Option<String> {
    let subject = &commit.subject;
    let letters = subject.chars().count();
    if letters > LONGEST_SUBJECT {
        return Some(format!(
            "has a subject of {letters} letters, {LONGEST_SUBJECT} at most"
        ));
    }
    let form = Regex::new(r"^[a-z0-9][a-z0-9 ,/._-]*: \S").expect("the pattern is a constant");
    if !form.is_match(subject) {
        return Some(format!("is not `area: imperative`: {subject}"));
    }
    let changes = commit.paths.iter().find(|path| {
        BEHAVIOUR.iter().any(|begin| path.starts_with(begin))
            && !NO_BEHAVIOUR.iter().any(|part| path.contains(part))
    });
    let path = changes.filter(|_| !commit.has_body)?;
    Some(format!("changes {path} and has no body that says why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(subject: &str, body: &str, path: &str) -> Option<String> {
        fault(&parse(&format!(
            "1a\u{2}{subject}\u{2}{body}\u{2}\n{path}\n"
        )))
    }

    #[test]
    fn a_commit_names_its_area_and_its_reason() {
        for (subject, body, path) in [
            (
                "enforce: lower the burst",
                "Cause: EINVAL.",
                "crates/enforce/src/lib.rs",
            ),
            (
                "enforce: move the tests",
                "",
                "crates/enforce/src/quota/tests.rs",
            ),
            ("docs: say what a lease is", "", "README.md"),
        ] {
            assert_eq!(fault_of(subject, body, path), None, "{subject}");
        }
        for (subject, body, path, word) in [
            (
                "enforce: lower the burst",
                "",
                "crates/enforce/src/lib.rs",
                "no body",
            ),
            ("bpf: count", "", "bpf/ledger.bpf.c", "no body"),
            ("Review: the tests", "", "docs/a.md", "area"),
            ("Lower the burst", "why", "docs/a.md", "area"),
            (&"a: b".repeat(30), "why", "docs/a.md", "120 letters"),
        ] {
            let fault = fault_of(subject, body, path).expect(subject);
            assert!(fault.contains(word), "{subject}: {fault}");
        }
    }
}
