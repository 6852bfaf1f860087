//! Runs packetdrill's scripts against our stack, or against Linux's, with one command. It needs
//! packetdrill's sources: nothing of packetdrill is in this repository.

mod classification;
mod options;
mod outcome;
mod sandbox;

use crate::run::{cargo, check, target};
use anyhow::{Context, Result, bail};
use classification::Classification;
use options::{Options, Under};
use outcome::{Outcome, Summary};
use sandbox::Sandbox;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Path of the classification.
const CLASSIFICATION: &str = "crates/packetdrill-shim/classification.toml";

/// Runs `--sources DIR [--scripts DIR] [--ip v4|v6|mapped] [--kernel] [--jobs N] [--verbose]
/// [FILTER]`.
pub fn packetdrill(arguments: &[String]) -> Result<()> {
    let options = options::parse(arguments)?;
    let program = options.sources.join("gtests/net/packetdrill/packetdrill");
    if !program.is_file() {
        bail!(
            "{} is missing: `--sources` names a checkout of packetdrill, built with \
             `./configure && make` in gtests/net/packetdrill",
            program.display()
        );
    }
    let folder = (options.scripts.clone()).unwrap_or(options.sources.join("gtests/net/tcp"));
    let all = scripts(&folder, &options)?;
    if all.is_empty() {
        bail!(
            "no script (*.pkt) for {} in {}",
            options.ip,
            folder.display()
        );
    }
    let shim = match options.under {
        Under::Kernel => None,
        Under::Shim => {
            check(cargo(&[
                "build",
                "--locked",
                "--package",
                "cofferdam-packetdrill-shim",
            ]))?;
            let shim = target()?.join("debug/libcofferdam_packetdrill_shim.so");
            if !shim.is_file() {
                bail!("cargo made no {}", shim.display());
            }
            Some(shim)
        }
    };
    let sandbox = Sandbox {
        program,
        shim,
        ip: options.ip,
        folder: folder.clone(),
    };
    let outcomes = run_all(&sandbox, &all, options.jobs);
    // Only our own results are classified; those of Linux are the reference.
    let classification = match options.under {
        Under::Kernel => Classification::default(),
        Under::Shim => {
            let path = crate::tree::root().join(CLASSIFICATION);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            classification::parse(&text, options.ip)?
        }
    };
    report(&outcomes, &classification, &options)
}

/// Matching scripts of a folder, by their paths in it.
fn scripts(folder: &Path, options: &Options) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        let path = folder.join(&inner);
        let entries = std::fs::read_dir(&path)
            .with_context(|| format!("cannot list the scripts in {}", path.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", path.display()))?;
            let name = inner.join(entry.file_name());
            let kind = entry.file_type().context("a file has a type")?;
            if kind.is_dir() {
                folders.push(name);
            } else if let Some(name) = name.to_str().filter(|name| name.ends_with(".pkt")) {
                found.push(name.to_owned());
            }
        }
    }
    found.retain(|name| options.ip.applies_to(name) && options.matches(name));
    found.sort();
    Ok(found)
}

/// Runs scripts, several at a time.
fn run_all(sandbox: &Sandbox, all: &[String], jobs: usize) -> Vec<(String, Outcome)> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(name) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = sandbox.run(name);
                    let mut outcomes = outcomes.lock().expect("no thread panics with it");
                    outcomes.push((name.clone(), outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no thread panics with it");
    outcomes.sort_by(|(one, _), (other, _)| one.cmp(other));
    outcomes
}

/// Prints failures and counts; fails if they differ from the classification.
fn report(
    outcomes: &[(String, Outcome)],
    classification: &Classification,
    options: &Options,
) -> Result<()> {
    let mut summary = Summary::default();
    for (name, outcome) in outcomes {
        let class = classification.class(name);
        if let Some(line) = summary.count(name, outcome, class) {
            println!("{line}");
        } else if options.verbose {
            println!("passes   {name}");
        }
    }
    let under = match options.under {
        Under::Shim => "the shim",
        Under::Kernel => "the kernel",
    };
    println!("{} against {under}: {summary}", options.ip);
    if options.under == Under::Shim && summary.is_wrong() {
        bail!(
            "{} does not say this: correct the stack, or classify",
            CLASSIFICATION
        );
    }
    Ok(())
}
