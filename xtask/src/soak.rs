//! Repeated runs of all tests, without or with another load. Tests state facts, so none may ever
//! fail. It takes hours; a run that was stopped resumes.

use crate::run;
use anyhow::{Context, Result, bail};
use regex_lite::Regex;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Default folder of the runs' logs and of their list.
const OUTPUT: &str = "target/soak";
/// Default number of runs.
const RUNS: u32 = 20;
/// Seed of the first run; each further run has the next one.
const SEED: u64 = 20_261_121;
/// Variables that set a seed.
const SEEDS: [&str; 3] = [
    "PROPTEST_RNG_SEED",
    "COFFERDAM_KILL_SEED",
    "COFFERDAM_INTERRUPT_SEED",
];

/// Options of the task.
#[derive(Debug, PartialEq)]
struct Options {
    runs: u32,
    load: Option<String>,
    output: PathBuf,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            runs: RUNS,
            load: None,
            output: OUTPUT.into(),
        };
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--runs" => {
                    let text = value()?;
                    options.runs = text.parse().with_context(|| format!("--runs {text}"))?;
                }
                "--beside" => options.load = Some(value()?.clone()),
                "--output" => options.output = value()?.into(),
                other => bail!("{other} is unknown: --runs N, --beside COMMAND, --output DIR"),
            }
        }
        Ok(options)
    }
}

/// Result of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    passed: u32,
    failed: u32,
    /// Whether the run ended before all tests did: by a crash, or a build that failed.
    is_broken: bool,
}

/// Runs all tests repeatedly; fails if one of them ever failed.
pub fn soak(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    fs::create_dir_all(&options.output)
        .with_context(|| format!("cannot create {}", options.output.display()))?;
    run::check(run::tests(&["--no-run".to_owned()])?)?;
    let list = options.output.join("runs.tsv");
    let before = fs::read_to_string(&list).unwrap_or_default();
    let mut failed = before
        .lines()
        .filter(|line| !line.contains("\t0 failed\t"))
        .count();
    for number in before.lines().count() as u32 + 1..=options.runs {
        let (line, outcome) = one(number, &options)?;
        failed += usize::from(outcome.failed > 0 || outcome.is_broken);
        println!("{line}");
        let mut file = OpenOptions::new().append(true).create(true).open(&list)?;
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", list.display()))?;
    }
    println!(
        "{failed} of {} runs failed: {}",
        options.runs,
        list.display()
    );
    if failed > 0 {
        bail!(
            "{failed} runs failed; their logs are in {}",
            options.output.display()
        );
    }
    Ok(())
}

/// Runs all tests once, with the output in a separate log.
fn one(number: u32, options: &Options) -> Result<(String, Outcome)> {
    let log = options.output.join(format!("run-{number:02}.log"));
    let seed = SEED + u64::from(number) - 1;
    let mut command = run::tests(&[])?;
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdout(output.try_clone()?).stderr(output);
    for variable in SEEDS {
        command.env(variable, seed.to_string());
    }
    let load = options.load.as_deref().map(Load::start).transpose()?;
    let begin = Instant::now();
    let status = command.status().context("cannot run cargo")?;
    let took = begin.elapsed();
    drop(load);
    let text = read(&log)?;
    let outcome = outcome(&text, status.success());
    let mut line = format!(
        "run {number}\tseed {seed}\t{}\t{} passed\t{} failed\t{}",
        options.load.as_deref().unwrap_or("alone"),
        outcome.passed,
        outcome.failed + u32::from(outcome.is_broken && outcome.failed == 0),
        spoken(took),
    );
    for name in failed_tests(&text) {
        let _taken = write!(line, "\t{name}");
    }
    Ok((line, outcome))
}

/// Reads a log, which may have program output that is not UTF-8.
fn read(log: &Path) -> Result<String> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn outcome(log: &str, is_success: bool) -> Outcome {
    let sum = |word: &str| -> u32 {
        let pattern = Regex::new(&format!(r"^test result: .* (\d+) {word};")).expect("a pattern");
        let lines = log.lines().filter_map(|line| pattern.captures(line));
        lines.filter_map(|found| found[1].parse::<u32>().ok()).sum()
    };
    let failed = sum("failed");
    Outcome {
        passed: sum("passed"),
        failed,
        is_broken: !is_success && failed == 0,
    }
}

fn failed_tests(log: &str) -> Vec<&str> {
    let names = log
        .lines()
        .filter_map(|line| line.strip_suffix(" ... FAILED"));
    names
        .filter_map(|name| name.strip_prefix("test "))
        .collect()
}

fn spoken(time: Duration) -> String {
    format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
}

/// Load that runs during the tests; ended when dropped.
struct Load {
    child: Child,
}

impl Load {
    fn start(line: &str) -> Result<Load> {
        let mut command = Command::new("sh");
        // A process group of its own: the shell's children end with it.
        command.args(["-c", line]).process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot run `{line}`"))?;
        Ok(Load { child })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.child.id() as i32);
        // The load may have ended by itself.
        let _ended = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGTERM);
        let _reaped = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
running 2 tests
test a::works ... ok
test a::breaks ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out
running 1 test
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
";

    #[test]
    fn a_log_is_summed_and_its_failures_are_named() {
        let whole = outcome(LOG, false);
        assert_eq!((whole.passed, whole.failed), (8, 1));
        assert!(!whole.is_broken);
        assert_eq!(failed_tests(LOG), ["a::breaks"]);
        assert!(outcome("error: could not compile", false).is_broken);
    }

    #[test]
    fn options_are_read_and_others_refused() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let options = Options::parse(&words("--runs 3 --beside true --output out")).unwrap();
        assert_eq!((options.runs, options.load.as_deref()), (3, Some("true")));
        assert_eq!(options.output, Path::new("out"));
        for bad in ["--runs", "--runs many", "--besides x"] {
            assert!(Options::parse(&words(bad)).is_err(), "{bad}");
        }
    }
}
