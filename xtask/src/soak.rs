//! Whole runs of the tests, many times, alone or beside another load: tests state facts, so none may
//! ever fail. Hours; a run that was stopped resumes.

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

/// Where a run's log and the list of runs are, unless `--output` says otherwise.
const OUTPUT: &str = "target/soak";
/// Runs, unless `--runs` says otherwise.
const RUNS: u32 = 20;
/// The seed of the first run; each further one has the next.
const SEED: u64 = 20_261_121;
/// The variables that name a seed.
const SEEDS: [&str; 3] = [
    "PROPTEST_RNG_SEED",
    "COFFERDAM_KILL_SEED",
    "COFFERDAM_INTERRUPT_SEED",
];

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Options {
    runs: u32,
    beside: Option<String>,
    output: PathBuf,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            runs: RUNS,
            beside: None,
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
                "--beside" => options.beside = Some(value()?.clone()),
                "--output" => options.output = value()?.into(),
                other => bail!("{other} is unknown: --runs N, --beside COMMAND, --output DIR"),
            }
        }
        Ok(options)
    }
}

/// A run that has ended.
#[derive(Debug, PartialEq)]
struct Outcome {
    passed: u32,
    failed: u32,
    /// The run ended before all tests did: a crash, or a build that failed.
    is_broken: bool,
}

/// Runs all tests again and again; fails if one of them ever failed.
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

/// One whole run, its output in a log of its own.
fn one(number: u32, options: &Options) -> Result<(String, Outcome)> {
    let log = options.output.join(format!("run-{number:02}.log"));
    let seed = SEED + u64::from(number) - 1;
    let mut command = run::tests(&[])?;
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdout(output.try_clone()?).stderr(output);
    for variable in SEEDS {
        command.env(variable, seed.to_string());
    }
    let beside = options.beside.as_deref().map(Beside::start).transpose()?;
    let begin = Instant::now();
    let status = command.status().context("cannot run cargo")?;
    let took = begin.elapsed();
    drop(beside);
    let text = read(&log)?;
    let outcome = outcome(&text, status.success());
    let mut line = format!(
        "run {number}\tseed {seed}\t{}\t{} passed\t{} failed\t{}",
        options.beside.as_deref().unwrap_or("alone"),
        outcome.passed,
        outcome.failed + u32::from(outcome.is_broken && outcome.failed == 0),
        spoken(took),
    );
    for name in failed_tests(&text) {
        let _taken = write!(line, "\t{name}");
    }
    Ok((line, outcome))
}

/// A log may hold what programs print, which need not be UTF-8.
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

/// A load beside the tests; ended when dropped.
struct Beside {
    child: Child,
}

impl Beside {
    fn start(line: &str) -> Result<Beside> {
        let mut command = Command::new("sh");
        // A process group of its own: the shell's children end with it.
        command.args(["-c", line]).process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot run `{line}`"))?;
        Ok(Beside { child })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.child.id() as i32);
        // It may have ended by itself.
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
        assert_eq!((options.runs, options.beside.as_deref()), (3, Some("true")));
        assert_eq!(options.output, Path::new("out"));
        for bad in ["--runs", "--runs many", "--besides x"] {
            assert!(Options::parse(&words(bad)).is_err(), "{bad}");
        }
    }
}
