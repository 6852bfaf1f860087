//! Tests of messages and exit codes after wrong use, or when the host refuses. No test needs a
//! network namespace or a running accounting.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Time limit of each command, seconds, so that one that hangs fails its test.
const LIMIT: &str = "60";

fn cofferdam(args: &[&str]) -> Output {
    Command::new("timeout")
        .args(["--kill-after=5", LIMIT, env!("CARGO_BIN_EXE_cofferdam")])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Exit code and the one line on standard error; standard output must be empty.
fn refused(args: &[&str]) -> (i32, String) {
    let output = cofferdam(args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.stdout.is_empty(),
        "{args:?} prints on standard output"
    );
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.starts_with("cofferdam: "), "{args:?}: {stderr}");
    (output.status.code().unwrap(), stderr)
}

fn contains(args: &[&str], code: i32, words: &[&str]) {
    let (exit_code, line) = refused(args);
    assert_eq!(exit_code, code, "{args:?}: {line}");
    for word in words {
        assert!(line.contains(word), "{args:?}: no '{word}' in: {line}");
    }
}

#[test]
fn usage_errors_are_one_line_and_code_2() {
    contains(&["rule"], 2, &["no command", "'cofferdam rule --help'"]);
    contains(&["rule", "set", "web"], 2, &["--network-cpu enforce"]);
    contains(
        &["rule", "set", "web", "--cpu", "strict"],
        2,
        &["needs --cpus"],
    );
    contains(
        &["rule", "set", "web", "--cpus", "1"],
        2,
        &["needs --cpu strict"],
    );
    contains(&["rule", "set", "id:xyz"], 2, &["id:"]);
    contains(&["explain", "--duration", "5ms"], 2, &["30ms"]);
    let pods = ["bench", "reservation", "--runtime", "kubernetes"];
    contains(
        &[&pods[..], &["--policy", "scaled"]].concat(),
        2,
        &["'scaled'", "kubernetes", "cpu-manager"],
    );
    contains(&["nonsense"], 2, &["nonsense"]);
    contains(&["doctr"], 2, &["doctr", "doctor"]);
    contains(&["top", "--onc"], 2, &["--onc", "tip", "--once"]);
    contains(
        &["top", "--interval", "0s"],
        2,
        &["--interval", "more than 0"],
    );
    contains(&["top", "--interval", "5"], 2, &["no unit"]);
    contains(&["top", "--interval", "1ms"], 2, &["10ms"]);
    contains(&["top", "--interval", "soon"], 2, &["not a duration"]);
    contains(&["accounting"], 2, &["no command"]);
    contains(
        &["accounting", "record", "--format", "xml"],
        2,
        &["xml", "jsonl"],
    );
    contains(
        &["accounting", "record", "--duration", "0s"],
        2,
        &["more than 0"],
    );
    contains(&["report"], 2, &["<DIR>"]);
    contains(&["bench", "penalty", "--pairs", "0"], 2, &["at least 1"]);
    contains(
        &["bench", "penalty", "--victim", "none"],
        2,
        &["none", "wordcount"],
    );
    contains(&["bench", "penalty", "--flows", "0"], 2, &["at least 1"]);
    let many = ["bench", "agent", "--containers", "500"];
    contains(&many, 2, &["--containers 500", "1 to 200"]);
    contains(&["bench", "penalty", "--payload", "200"], 2, &["no unit"]);
}

/// Words of every command that a user can give; groups such as `bench` included.
fn commands() -> Vec<Vec<String>> {
    fn collect(command: &clap::Command, words: &[String], all: &mut Vec<Vec<String>>) {
        all.push(words.to_vec());
        let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
        for sub in shown.filter(|c| c.get_name() != "help") {
            let words = [words, &[sub.get_name().to_owned()]].concat();
            collect(sub, &words, all);
        }
    }
    let mut all = Vec::new();
    collect(&cofferdam::command(), &[], &mut all);
    assert!(all.len() > 25, "{all:?}");
    all
}

/// Promise 76.
#[test]
fn every_usage_error_names_the_help_of_its_own_command() {
    for words in commands() {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = format!(
            "'{}'",
            [&["cofferdam"], &args[..], &["--help"]].concat().join(" ")
        );
        args.push("--no-such-option");
        contains(&args, 2, &["--no-such-option", &help]);
    }
    contains(&["bench"], 2, &["no command", "'cofferdam bench --help'"]);
    contains(&["top", "--interval", "5"], 2, &["'cofferdam top --help'"]);
}

/// A pipe has no width: the help has 80 columns, and no word is cut.
/// Promise 78.
#[test]
fn the_help_of_every_command_fits_80_columns() {
    for words in commands() {
        for flag in ["-h", "--help"] {
            let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
            args.push(flag);
            let text = String::from_utf8(cofferdam(&args).stdout).unwrap();
            assert!(text.contains("Usage: "), "{args:?}: {text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{args:?}: {line}");
            }
        }
    }
}

/// Whether a part of a message between colons occurs twice in a row.
fn repeats(line: &str) -> bool {
    let parts: Vec<&str> = line.trim().split(": ").collect();
    parts.windows(2).any(|pair| pair[0] == pair[1])
}

/// Promise 76.
#[test]
fn an_error_gives_each_cause_once() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage");
    fs::write(&garbage, "{ no").unwrap();
    let (dir, garbage) = (dir.path().to_str().unwrap(), garbage.to_str().unwrap());
    for args in [
        &["report", "/nosuch"][..],
        &["report", garbage],
        &["report", dir, dir, "--output", garbage],
        &["simulate", "--tenants", "/nosuch"],
        &["simulate", "--tenants", garbage],
        &["simulate", "--tenants", dir],
        &["status", "--socket", "/nosuch"],
        &["status", "--socket", garbage],
        &["rule", "clear", "x", "--socket", "/nosuch"],
        &["export", "--from", "1h ago", "--history", "/nosuch"],
        &["export", "--from", "1h ago", "--history", garbage],
        &["top", "--replay", "1h ago", "--history", garbage],
        &["agent", "--reload", "--socket", "/nosuch"],
        &["agent", "--check-config", "--config", "/nosuch"],
        &["agent", "--check-config", "--config", dir],
        &[
            "gateway",
            "--listen",
            "192.0.2.1:1",
            "--token-file",
            "/nosuch",
        ],
        &["kubectl", "top", "--proxy", "/nosuch"],
        &["kubectl", "top", "--proxy", garbage],
        &["latency", "read", "--socket", "/nosuch"],
        &["dataplane", "top", "--once", "--socket", "/nosuch"],
        &["dataplane", "run", "--config", "/nosuch"],
        &["dataplane", "run", "--config", dir],
        &[
            "dataplane",
            "exec",
            "--wait",
            "0s",
            "--socket",
            "/nosuch",
            "/bin/sleep",
            "1",
        ],
        &["bench", "compare", "/nosuch", garbage],
        &["doctor", "--output", "/nosuch/file"],
    ] {
        let output = cofferdam(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        assert!(
            !stderr.is_empty() || !output.stdout.is_empty(),
            "{args:?} says nothing"
        );
        for line in stderr.lines() {
            assert!(!repeats(line), "{args:?}: {line}");
        }
    }
    assert!(repeats("a: cannot read x: No such file: No such file"));
}

/// Promise 76.
#[test]
fn help_on_a_full_disk_fails() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let mut prints = vec![vec!["--version".to_owned()], vec!["doctor".to_owned()]];
    prints.extend(commands().into_iter().map(|mut words| {
        words.push("--help".to_owned());
        words
    }));
    for words in prints {
        let output = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
            .args(&words)
            .stdout(full())
            .output()
            .unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{words:?}: {line}");
        assert!(line.contains("No space left"), "{words:?}: {line}");
    }
}

/// Promise 77.
#[test]
fn a_file_with_data_is_not_overwritten_without_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::write(&path, "precious").unwrap();
    let name = path.to_str().unwrap();
    for command in ["accounting", "latency"] {
        let args = [command, "record", "--duration", "1s", "--output", name];
        contains(&args, 1, &[name, "exists", "--force"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        contains(&[command, "record", "--force"], 2, &["--output"]);
    }
    // Benchmarks write directories: their content is not replaced either.
    let folder = dir.path().to_str().unwrap();
    for bench in [
        "penalty",
        "accounting",
        "latency",
        "reservation",
        "dataplane",
        "agent",
    ] {
        let output = cofferdam(&["bench", bench, "--output", folder]);
        assert!(!output.status.success(), "{bench}: {output:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

/// Promise 9.
#[test]
fn selectors_are_checked_before_anything_starts() {
    contains(
        &["top", "--once", "--container", "id:xyz"],
        2,
        &["id:xyz", "0-9"],
    );
    contains(
        &["top", "--once", "--container", "cgroup:web"],
        2,
        &["cgroup:/"],
    );
    contains(&["top", "--once", "--container", "pid:0"], 2, &["pid:0"]);
    contains(&["top", "--once", "--container", ""], 2, &["empty"]);
}

#[test]
fn top_needs_a_terminal_and_names_the_alternative() {
    contains(&["top"], 2, &["terminal", "--once", "--json"]);
}

#[test]
fn an_output_that_cannot_be_written_is_named_at_once() {
    for path in ["/no/such/directory/file", "/"] {
        let args = ["accounting", "record", "--duration", "1h", "--output", path];
        contains(&args, 1, &[path, "--output"]);
    }
}

#[test]
fn reports_of_bad_directories_are_refused_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    contains(
        &["report", "/no/such/run"],
        1,
        &["/no/such/run", "cofferdam bench"],
    );
    contains(&["report", path], 1, &["manifest.json"]);
    fs::write(dir.path().join("manifest.json"), "{\"schema\": 99}").unwrap();
    contains(&["report", path], 1, &["schema 99", "newer"]);
    fs::write(dir.path().join("manifest.json"), "{\"schema\": 1, \"ki").unwrap();
    contains(&["report", path], 1, &["manifest.json", "damaged"]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Promise 67.
#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    for args in [vec!["--help"], vec!["top", "--help"], vec!["--version"]] {
        let mut child = Command::new("timeout")
            .args(["--kill-after=5", LIMIT, env!("CARGO_BIN_EXE_cofferdam")])
            .args(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Closed before the first byte.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert_eq!(stderr, "", "{args:?}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [
        vec!["--help"],
        vec!["--version"],
        vec!["bench", "penalty", "--help"],
    ] {
        let output = cofferdam(&args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            output.stderr.is_empty() && !output.stdout.is_empty(),
            "{args:?}"
        );
    }
    let text = String::from_utf8(cofferdam(&["--help"]).stdout).unwrap();
    assert!(
        !text.contains("bench-worker") && !text.contains("generate"),
        "{text}"
    );
    assert!(text.contains("Exit codes"), "{text}");
}

#[test]
fn manual_pages_and_completions_are_generated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for what in ["man", "completions"] {
        assert_eq!(
            cofferdam(&["generate", what, path]).status.code(),
            Some(0),
            "{what}"
        );
    }
    let holds = |name: &str, word: &str| {
        let text = fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        assert!(text.contains(word), "{name}: no {word}");
    };
    holds("cofferdam.1", "accounting");
    holds("cofferdam-top.1", "interval");
    holds("cofferdam-accounting-record.1", "jsonl");
    holds("cofferdam.bash", "--interval");
    holds("_cofferdam", "--interval");
    holds("cofferdam.fish", "interval");
    assert!(!dir.path().join("cofferdam-bench-worker.1").exists());
    contains(&["generate", "man", "/proc/no"], 1, &["/proc/no"]);
}

/// Promise 24.
#[test]
fn the_doctor_answers_in_json_with_its_exit_code() {
    let output = cofferdam(&["doctor", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let report: cofferdam_records::doctor::DoctorReport = serde_json::from_str(&text).unwrap();
    assert_eq!(report.schema, cofferdam_records::doctor::DOCTOR);
    assert!(report.checks.iter().any(|c| c.required_for_accounting));
    for check in &report.checks {
        assert!(
            ["yes", "partly", "no"].contains(&check.status.as_str()),
            "{}",
            check.id
        );
    }
    match report.accounting_blocker {
        None => assert_eq!(output.status.code(), Some(0)),
        Some(line) => {
            assert_eq!(output.status.code(), Some(3));
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(stderr.trim_end(), format!("cofferdam: {line}"));
        }
    }
}

/// Promise 76.
#[test]
fn every_command_reports_missing_rights_alike() {
    // Run as nobody, whichever user runs the tests: the binary is copied to where nobody may
    // execute it.
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("cofferdam");
    // A separate process copies it. The file of a copy made here could still be open for writing in
    // a child that another test is starting, and then it could not be executed.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_cofferdam"))
        .arg(&binary)
        .status()
        .unwrap();
    assert!(copied.success());
    for path in [dir.path(), &binary] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (code, line) = unprivileged(&binary, &["doctor"]);
    assert_eq!(code, 3, "{line}");
    assert!(line.contains("sudo"), "{line}");
    for args in [
        &["top", "--once"][..],
        &["top", "--json"],
        &["accounting", "record"],
        &["flows", "web"],
    ] {
        assert_eq!(unprivileged(&binary, args), (3, line.clone()), "{args:?}");
    }
    // The other commands have their own words: one line, the requirement, the remedy, code 3.
    let config = dir.path().join("dataplane.toml");
    let good = "device.name = \"lo\"\nnetwork.addresses = [\"10.98.0.9/24\"]\n";
    fs::write(&config, good).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    let config = config.to_str().unwrap();
    for args in [
        &["dataplane", "run", "--config", config][..],
        &[
            "dataplane",
            "serve",
            "http",
            "10.98.0.9:80",
            "--name",
            "a",
            "--user",
            "daemon",
        ],
        &["agent"],
        &["agent", "--restore"],
        &["latency", "record"],
        &["latency", "serve"],
        &["latency", "ping", "127.0.0.1", "--container", "web"],
        &["bench", "penalty", "--quick"],
        &["bench", "accounting", "--quick"],
        &["bench", "latency", "--quick"],
        &["bench", "reservation", "--quick"],
        &["bench", "isolation", "--quick"],
        &["bench", "dataplane", "--quick"],
        &["bench", "agent"],
        &["demo"],
    ] {
        let (code, line) = unprivileged(&binary, args);
        assert_eq!(code, 3, "{args:?}: {line}");
        assert!(line.contains("sudo"), "{args:?}: {line}");
        let denied =
            line.matches("ermitted (os error").count() + line.matches("enied (os error").count();
        assert!(denied <= 1, "{args:?} says its cause twice: {line}");
    }
}

/// Runs `binary` without any capability: root through `setpriv`, another user directly.
fn unprivileged(binary: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.args([
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]);
    }
    let output = command
        .arg(binary)
        .args(args)
        .current_dir("/")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    (output.status.code().unwrap(), stderr)
}

/// Promise 75.
#[test]
fn a_bad_configuration_is_reported_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.toml");
    let name = path.to_str().unwrap();
    contains(&["agent", "--config", name], 1, &[name, "does not exist"]);
    contains(
        &["agent", "--check-config", "--config", name],
        1,
        &["does not exist"],
    );
    fs::write(
        &path,
        "[[rule]]\nmatch = \"a\"\ncpus = 1\n[[rule]]\nmatch = \"id:x\"\n",
    )
    .unwrap();
    contains(
        &["agent", "--config", name],
        1,
        &["agent.toml:3:8", "strict", "1 more"],
    );
    let output = cofferdam(&["agent", "--check-config", "--config", name]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("agent.toml:5:9: error"), "{text}");
    let large = "[[rule]]\nmatch = \"a\"\ncpu = \"strict\"\ncpus = 60000\n";
    fs::write(&path, large).unwrap();
    let output = cofferdam(&["agent", "--check-config", "--config", name]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(
        printed.contains("agent.toml:1:1: warning: 'a' asks for more CPUs"),
        "{printed}"
    );
    fs::write(&path, "[[rule]]\nmatch = \"a\"\n").unwrap();
    let output = cofferdam(&["agent", "--check-config", "--config", name]);
    assert_eq!(output.status.code(), Some(0));
    contains(&["agent", "--check-config", "--restore"], 2, &["--restore"]);
    contains(&["status", "--socket", name], 1, &["agent.toml"]);
    let none = dir.path().join("none.sock");
    contains(
        &["status", "--socket", none.to_str().unwrap()],
        1,
        &["no agent is running", "systemctl start"],
    );
}

#[test]
fn the_example_configuration_can_be_put_in_force() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/cofferdam.toml");
    let output = cofferdam(&["agent", "--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // Again, with every comment that shows a key turned into that key.
    let dir = tempfile::tempdir().unwrap();
    let all = dir.path().join("all.toml");
    let text = fs::read_to_string(path).unwrap();
    let shown = text.lines().map(|line| {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_key = bare.starts_with("[[") || bare.contains(" = ");
        if is_key { bare } else { line }
    });
    fs::write(&all, shown.collect::<Vec<_>>().join("\n")).unwrap();
    let output = cofferdam(&["agent", "--check-config", "--config", all.to_str().unwrap()]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains("1 rules"), "{printed}");
}

/// Promise 75.
#[test]
fn a_bad_experiment_is_reported_with_its_place() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("mine.yaml");
    let name = path.to_str().unwrap();
    let bench = ["bench", "isolation", "--experiment", name];
    fs::write(
        &path,
        "runtimes: [process]\nrepetitions: 5\nwarmup: 1s\nmesure: 2s\n",
    )
    .unwrap();
    contains(&bench, 2, &["mine.yaml:4:1", "mesure"]);
    contains(&["bench", "isolation", "--scenario", "a_x"], 2, &["a_x"]);
    contains(&["bench", "compare", name, name], 1, &["manifest.json"]);
    contains(&["report", name, name], 2, &["--output"]);
    fs::write(
        &path,
        "runtimes: [process]\nrepetitions: 5\nwarmup: 1s\nmeasure: 2s\n",
    )
    .unwrap();
    let output = cofferdam(&[&bench[..], &["--emit", "argo"]].concat());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let body: String = text.lines().filter(|l| !l.starts_with('#')).collect();
    let workflow: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(workflow["kind"], "Workflow");
}
