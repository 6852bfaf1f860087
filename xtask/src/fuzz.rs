//! Fuzzing with the pinned compiler, without nightly or another tool.

use crate::run::{cargo, check};
use crate::tree;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// Flags of cargo-fuzz, except for the address sanitizer, which needs a nightly compiler. Our code
/// that reads foreign bytes is safe Rust, so panics are the defects to find.
const COVERAGE: &str = "-Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing";

/// Target triple. Flags apply to the fuzz targets, and not to build scripts, only when it is named.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Default number of seconds for each target.
const SECONDS: u32 = 60;

/// Runs `[SECONDS] [TARGET…]`, by default all targets. Fails if one finds an input, which is then
/// in fuzz/artifacts. The corpus stays in fuzz/corpus.
pub fn fuzz(arguments: &[String]) -> Result<()> {
    let (seconds, wanted) = match arguments.split_first() {
        Some((first, rest)) if first.parse::<u32>().is_ok() => {
            (first.parse().unwrap_or(SECONDS), rest)
        }
        _ => (SECONDS, arguments),
    };
    let folder = tree::root().join("fuzz");
    let all = targets(&folder)?;
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no target {unknown}; there are: {}",
            all.join(", ")
        );
    }
    let mut build = cargo(&["build", "--locked", "--target", TARGET]);
    match wanted {
        [] => build.arg("--bins"),
        some => build.args(some.iter().flat_map(|name| ["--bin", name])),
    };
    build.current_dir(&folder).env("RUSTFLAGS", COVERAGE);
    check(build)?;
    let mut failed = Vec::new();
    for name in all
        .iter()
        .filter(|name| wanted.is_empty() || wanted.contains(name))
    {
        if check(run(&folder, name, seconds)?).is_err() {
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} failed; the inputs are in fuzz/artifacts",
        failed.join(", ")
    )
}

/// Command that checks the targets for compile errors; nothing else builds them except `make fuzz`.
pub fn compiles() -> Command {
    let mut check = cargo(&["check", "--locked", "--quiet"]);
    check.current_dir(tree::root().join("fuzz"));
    check
}

fn run(folder: &Path, name: &str, seconds: u32) -> Result<Command> {
    let corpus = folder.join("corpus").join(name);
    let found = folder.join("artifacts").join(name);
    for folder in [&corpus, &found] {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let program = folder.join("target").join(TARGET).join("debug").join(name);
    let mut command = Command::new(program);
    command.arg(corpus).args([
        format!("-max_total_time={seconds}"),
        format!("-artifact_prefix={}/", found.display()),
        "-print_final_stats=1".to_owned(),
        "-print_funcs=0".to_owned(),
    ]);
    Ok(command)
}

/// Names of the targets' files.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let folder = folder.join("fuzz_targets");
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.context("cannot list the fuzz targets")?.path();
        if path.extension().is_some_and(|e| e == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
