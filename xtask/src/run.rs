//! Commands that build as the user and run as root.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Prefix that runs a command as root; empty if we are root already. `-E` keeps the environment
/// (TERM, CARGO_*), `-H` keeps root's programs out of the user's home.
pub fn as_root() -> &'static [&'static str] {
    if nix::unistd::geteuid().is_root() {
        &[]
    } else {
        &["sudo", "-EH"]
    }
}

/// Variables that tell `install` where our files go, and variables in which `make` passes them on.
/// A library that is built with `make` on the way would otherwise be installed there too.
const INSTALLED_BY: [&str; 5] = ["PREFIX", "DESTDIR", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES"];

/// Cargo, in the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(tree::root());
    // `su` gives root a PATH without the folders of ip, tc and nft.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    for name in INSTALLED_BY {
        command.env_remove(name);
    }
    command
}

/// Prints and runs a command; fails if the command fails.
pub fn check(mut command: Command) -> Result<()> {
    let line = show(&command);
    eprintln!("+ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot run `{line}`; is it installed?"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

fn show(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let line: Vec<_> = words.map(|w| w.to_string_lossy()).collect();
    if line.len() > 12 {
        format!("{} …", line[..12].join(" "))
    } else {
        line.join(" ")
    }
}

/// Folder in which cargo builds.
pub fn target() -> Result<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or(tree::root().join("target"), Into::into);
    target.canonicalize().context("cargo made no target folder")
}

/// Builds the program and its companions with the features of the tests, so that nothing is built
/// twice. Returns the program's path.
fn program() -> Result<PathBuf> {
    check(cargo(&["build", "--locked", "--workspace"]))?;
    Ok(target()?.join("debug/cofferdam"))
}

/// Builds the program without the fleet's query engine and the preload library, which the demo does
/// not need and which take as long as the rest. Returns the program's path.
fn program_alone() -> Result<PathBuf> {
    check(cargo(&["build", "--locked", "--package", "cofferdam"]))?;
    Ok(target()?.join("debug/cofferdam"))
}

/// Runs `cofferdam demo` from the test profile. A release build was rejected: it takes twice as
/// long, and the load generators spend their time in the kernel.
pub fn demo(arguments: &[String]) -> Result<()> {
    let binary = program_alone()?;
    let (program, before) = match as_root() {
        [] => (binary.clone().into_os_string(), None),
        [sudo, rest @ ..] => (sudo.into(), Some(rest)),
    };
    let mut command = Command::new(program);
    if let Some(options) = before {
        command.args(options).arg(&binary);
    }
    command.arg("demo").args(arguments);
    // Replaces this process, so that Ctrl-C reaches only one that cleans up.
    Err(command.exec()).with_context(|| format!("cannot run {}", binary.display()))
}

/// Builds, then runs the checks on other kernels.
pub fn kernels(arguments: &[String]) -> Result<()> {
    let mut command = Command::new(tree::root().join("scripts/kernels"));
    command.args(arguments).env("COFFERDAM", program()?);
    check(command)
}

/// Builds parts of Kubernetes once, as the user; returns the cache that has them.
fn parts(names: &[&str]) -> Result<std::path::PathBuf> {
    let mut build = Command::new(tree::root().join("scripts/kubernetes/build"));
    build.args(names);
    cache_of(build)
}

/// Runs a script that prints the folder of its products in its cache; returns that cache.
fn cache_of(mut script: Command) -> Result<std::path::PathBuf> {
    let line = show(&script);
    // Progress on standard error is for the person who waits.
    script.stderr(std::process::Stdio::inherit());
    let out = script
        .output()
        .with_context(|| format!("cannot run `{line}`"))?;
    if !out.status.success() {
        bail!("`{line}` failed: {}", out.status);
    }
    let folder = String::from_utf8(out.stdout).context("the cache's path is not UTF-8")?;
    let cache = std::path::Path::new(folder.trim()).parent();
    Ok(cache.context("the cache has no folder")?.to_owned())
}

/// Tests of a cluster, in `scripts/kubernetes`.
const CLUSTER_TESTS: [&str; 4] = ["test", "pods", "churn", "workflow"];

/// Builds, then runs all tests of a cluster, or the named ones. The parts are built as the user.
pub fn kubernetes(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|n| !CLUSTER_TESTS.contains(&n.as_str())) {
        bail!(
            "there is no test '{unknown}' of a cluster: {}",
            CLUSTER_TESTS.join(", ")
        );
    }
    let program = program()?;
    let cache = parts(&["helm", "hyperkube", "containerd", "cni", "crictl", "argo"])?;
    let wanted = |test: &&str| names.is_empty() || names.iter().any(|n| n == test);
    for test in CLUSTER_TESTS.into_iter().filter(wanted) {
        let mut command = script_as_root(&format!("scripts/kubernetes/{test}"));
        command.arg(&program).env("COFFERDAM_KUBERNETES", &cache);
        check(command)?;
    }
    Ok(())
}

/// Command that runs one of our scripts as root.
fn script_as_root(path: &str) -> Command {
    let script = tree::root().join(path);
    let [sudo, options @ ..] = as_root() else {
        return Command::new(script);
    };
    let mut command = Command::new(sudo);
    command.args(options).arg(script);
    command
}

/// Measurements of `scripts/spark/bench`: the role of the job, and Spark's job.
const SPARK: [[&str; 2]; 3] = [
    ["victim", "wordcount"],
    ["victim", "terasort"],
    ["interferer", "shuffle"],
];

/// Builds, then measures a real job as victim and as offender: `OUTPUT [ROUNDS]`. Spark is fetched
/// as the user.
pub fn spark(arguments: &[String]) -> Result<()> {
    let (output, rounds) = match arguments {
        [output] => (output, "5"),
        [output, rounds] => (output, rounds.as_str()),
        _ => bail!("usage: cargo xtask bench-spark OUTPUT [ROUNDS]"),
    };
    let program = program()?;
    let cache = cache_of(Command::new(tree::root().join("scripts/spark/fetch")))?;
    for what in SPARK {
        let mut command = script_as_root("scripts/spark/bench");
        command.arg(&program).arg(output).args(what).arg(rounds);
        command.env("COFFERDAM_SPARK", &cache);
        check(command)?;
    }
    Ok(())
}

/// Generates manual pages or completions from the definition of the command line.
pub fn generate(what: &str, arguments: &[String]) -> Result<()> {
    let folder = arguments
        .first()
        .cloned()
        .unwrap_or_else(|| format!("target/{what}"));
    check(cargo(&[
        "run",
        "--locked",
        "--quiet",
        "--package",
        "cofferdam",
        "--",
        "generate",
        what,
        &folder,
    ]))
}

/// Runs all tests, one at a time: tests that need root measure CPUs that all tests share.
pub fn test(arguments: &[String]) -> Result<()> {
    check(tests(arguments)?)
}

/// Command that builds and runs all tests.
pub fn tests(arguments: &[String]) -> Result<Command> {
    // All failures at once: a run takes a quarter of an hour.
    let mut command = cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]);
    command.args(arguments).env("RUST_TEST_THREADS", "1");
    // The tests run as root and would build these in root's home.
    let cache = parts(&["helm", "kubeconform", "schemas", "containerd", "crictl"])?;
    command.env("COFFERDAM_KUBERNETES", cache);
    if let [_, ..] = as_root() {
        // Cargo puts the runner before each test program; building remains the user's.
        command.env(runner_variable()?, as_root().join(" "));
    }
    Ok(command)
}

/// Name `CARGO_TARGET_<TRIPLE>_RUNNER` for this machine.
fn runner_variable() -> Result<String> {
    let out = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let host = text.lines().find_map(|l| l.strip_prefix("host: "));
    let host = host.context("rustc -vV names no host")?;
    Ok(format!(
        "CARGO_TARGET_{}_RUNNER",
        host.to_uppercase().replace('-', "_")
    ))
}

/// Lists leftovers on the host.
pub fn leftovers() -> Result<()> {
    if let [_, ..] = as_root() {
        let own = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(as_root()[0]);
        command.args(&as_root()[1..]).arg(own).arg("leftovers");
        return Err(command.exec()).context("cannot run sudo");
    }
    let found = cofferdam_lab::fixtures::leftovers::list();
    for line in cofferdam_lab::fixtures::leftovers::in_use() {
        eprintln!("in use, not left over: {line}");
    }
    found.iter().for_each(|line| println!("{line}"));
    if !found.is_empty() {
        bail!(
            "{} things are left on this host (a running test or benchmark has some, too)",
            found.len()
        );
    }
    eprintln!("nothing is left on this host");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_does_not_get_the_place_of_installation() {
        let command = cargo(&["build"]);
        for name in INSTALLED_BY {
            assert!(
                command
                    .get_envs()
                    .any(|(key, value)| key == name && value.is_none()),
                "{name} would move what libraries install while they are built"
            );
        }
    }
}
