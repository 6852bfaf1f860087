//! Tools of the host: `ip`, `tc`, `nft`, `ethtool`.

use crate::LabError;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Runs `line`, split at spaces, and waits for its end; returns its standard output.
pub fn run(line: &str) -> Result<String, LabError> {
    output(split(line), line, "")
}

/// Runs `line` like [`run`], with `input` on its standard input.
pub fn run_with_input(line: &str, input: &str) -> Result<String, LabError> {
    output(split(line), line, input)
}

/// Runs a command like [`run`]; its words may contain spaces.
pub fn run_argv(argv: &[&str]) -> Result<String, LabError> {
    let (program, arguments) = argv.split_first().unwrap_or((&"", &[]));
    let mut command = Command::new(program);
    command.args(arguments);
    output(command, &argv.join(" "), "")
}

/// Command of `line`, split at spaces.
pub fn split(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Runs `command` with `input` on its standard input. Errors call it `line`.
pub fn output(mut command: Command, line: &str, input: &str) -> Result<String, LabError> {
    let failed = |reason: String| LabError::Command {
        command: line.to_owned(),
        reason,
    };
    let mut child = command
        // The search path of root under sudo may lack these directories, which have the tools.
        .env("PATH", search_path())
        // Ctrl-C in a terminal goes to the whole group: it must not hit a tool that reverts a
        // change.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| match e.kind() {
            ErrorKind::NotFound => LabError::Missing {
                program: command.get_program().to_string_lossy().into_owned(),
            },
            _ => failed(e.to_string()),
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that fails early closes its input; its exit status says why.
        let _closed_early = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = stderr.trim().lines().collect::<Vec<_>>().join("; ");
    Err(failed(if reason.is_empty() {
        output.status.to_string()
    } else {
        reason
    }))
}

fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_missing_and_what_failed() {
        let e = run("cofferdam-no-such-tool x").unwrap_err();
        assert!(matches!(e, LabError::Missing { .. }));
        assert!(e.to_string().contains("no 'cofferdam-no-such-tool'"));
        let e = run("ls /no-such-directory").unwrap_err().to_string();
        assert!(
            e.contains("'ls /no-such-directory' failed") && e.contains("No such file"),
            "{e}"
        );
    }

    #[test]
    fn passes_input_and_returns_output() {
        assert_eq!(run_with_input("cat", "a\nb").unwrap(), "a\nb");
        assert_eq!(run_argv(&["printf", "%s", "a b"]).unwrap(), "a b");
    }
}
