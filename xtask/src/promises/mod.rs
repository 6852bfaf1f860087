//! Promises of SPECIFICATION.md, checked against the tests that carry their numbers.
//!
//! A promise is a numbered sentence. The documentation of a test states, as `Promise 12.`, which
//! promise the test checks. No document lists tests: [`print_index`] lists them from the sources.

mod bounds;
mod document;
mod markers;
mod rows;
#[cfg(test)]
mod tests;

use crate::tree;
use anyhow::{Result, bail, ensure};
use bounds::Constants;
use document::Promise;
use markers::Check;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Document of the promises.
const SPECIFICATION: &str = "SPECIFICATION.md";

/// Document whose tables name promises by their numbers, in the last column.
const SECURITY: &str = "docs/src/security.md";

/// Place of the index below the repository's root.
const INDEX: &str = "target/promises.md";

/// Fewest promises of a document that was read: fewer are a mistake of the reader.
const FEWEST: usize = 60;

/// Everything that the checks compare.
#[derive(Default)]
struct Repository {
    promises: Vec<Promise>,
    checks: Vec<Check>,
    constants: Constants,
    /// Contradictions that were found while reading.
    faults: Vec<String>,
}

impl Repository {
    fn read() -> Result<Self> {
        let mut repository = Self::default();
        repository.add_specification(&tree::read(Path::new(SPECIFICATION))?);
        for file in tree::files(&[".rs", ".sh"])? {
            repository.add_source(&file, &tree::read(&file)?);
        }
        Ok(repository)
    }

    fn add_specification(&mut self, text: &str) {
        self.promises = document::promises(text);
        let wrong = document::faults_of_numbers(&self.promises).into_iter();
        self.faults
            .extend(wrong.map(|fault| format!("{SPECIFICATION}:{fault}")));
    }

    fn add_source(&mut self, file: &Path, text: &str) {
        let Some(krate) = markers::crate_of(file) else {
            return;
        };
        let read = markers::read(file, &krate, text);
        self.checks.extend(read.checks);
        self.faults.extend(read.faults);
        self.constants.add(&krate, text);
    }

    /// Contradictions between promises, markers and constants; one line each.
    fn faults(&self) -> Vec<String> {
        let mut faults = self.faults.clone();
        let numbers: BTreeSet<u32> = self.promises.iter().map(|p| p.number).collect();
        for check in &self.checks {
            if !numbers.contains(&check.promise) {
                let (at, number) = (check.place(), check.promise);
                faults.push(format!("{at}: {SPECIFICATION} has no promise {number}"));
            }
        }
        for promise in &self.promises {
            let at = format!("{SPECIFICATION}:{}", promise.line);
            let crates = self.crates_of(&[promise.number]);
            if crates.is_empty() {
                faults.push(format!(
                    "{at}: no test carries \"Promise {}.\"",
                    promise.number
                ));
                continue;
            }
            let found = bounds::faults(&promise.text, &crates, &self.constants);
            faults.extend(found.into_iter().map(|f| format!("{at}: {f}")));
        }
        faults
    }

    /// Contradictions in the tables of `text`, a document named `name`.
    fn faults_of_rows(&self, name: &str, text: &str) -> Vec<String> {
        let numbers: BTreeSet<u32> = self.promises.iter().map(|p| p.number).collect();
        let mut faults = Vec::new();
        for row in rows::rows(text) {
            let at = format!("{name}:{}", row.line);
            let unknown = row.promises.iter().filter(|n| !numbers.contains(n));
            faults.extend(unknown.map(|n| format!("{at}: {SPECIFICATION} has no promise {n}")));
            let crates = self.crates_of(&row.promises);
            let found = bounds::faults(row.text, &crates, &self.constants);
            faults.extend(found.into_iter().map(|f| format!("{at}: {f}")));
        }
        faults
    }

    /// Crates of the tests that carry one of `numbers`.
    fn crates_of(&self, numbers: &[u32]) -> BTreeSet<&str> {
        let checks = self.checks.iter();
        let of_these = checks.filter(|check| numbers.contains(&check.promise));
        of_these.map(|check| check.krate.as_str()).collect()
    }

    /// Markdown with each promise, and below it each of its tests with its place.
    fn index(&self) -> String {
        let mut checks: BTreeMap<u32, Vec<&Check>> = BTreeMap::new();
        for check in &self.checks {
            checks.entry(check.promise).or_default().push(check);
        }
        let mut text = String::from("# Promises and their tests\n");
        for promise in &self.promises {
            // Writing to a string does not fail.
            let _ = writeln!(text, "\n## {}. {}\n", promise.number, promise.text);
            for check in checks.get(&promise.number).into_iter().flatten() {
                let _ = writeln!(
                    text,
                    "- `{}::{}` {}",
                    check.krate,
                    check.name,
                    check.place()
                );
            }
        }
        text
    }
}

/// Checks promises, markers and bounds in both directions, and writes the index.
pub fn check() -> Result<()> {
    let repository = Repository::read()?;
    let mut faults = repository.faults();
    let security = tree::read(Path::new(SECURITY))?;
    faults.extend(repository.faults_of_rows(SECURITY, &security));
    if !faults.is_empty() {
        bail!("promises, tests and bounds differ:\n{}", faults.join("\n"));
    }
    let count = repository.promises.len();
    ensure!(count >= FEWEST, "{SPECIFICATION} has {count} promises only");
    let path = tree::root().join(INDEX);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, repository.index())?;
    Ok(())
}

/// Prints the index: promise, test, file and line.
pub fn print_index() -> Result<()> {
    let index = Repository::read()?.index();
    std::io::stdout().write_all(index.as_bytes())?;
    Ok(())
}

/// Runs `spec`, or `spec --index`.
pub fn spec(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => check(),
        [flag] if flag == "--index" => print_index(),
        _ => bail!("usage: cargo xtask spec [--index]"),
    }
}
