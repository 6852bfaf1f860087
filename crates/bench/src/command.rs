//! The host's own tools: `ip`, `tc`, `nft`, `ethtool`.

use crate::error::BenchError;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Runs `line`, split at spaces, and waits for it; returns its standard output.
pub(crate) fn run(line: &str) -> Result<String, BenchError> {
    run_with_input(line, "")
}

/// As [`run`], with `input` on its standard input.
pub(crate) fn run_with_input(line: &str, input: &str) -> Result<String, BenchError> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let failed = |reason: String| BenchError::Command {
        command: line.to_owned(),
        reason,
    };
    let mut child = Command::new(program)
        .args(words)
        // In root's sudo path these may be missing, and the tools live there.
        .env("PATH", search_path())
        // A terminal's Ctrl-C goes to the whole group: it must not hit a tool that undoes.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => missing(program),
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

/// Exit code 3 with the package that has the tool.
fn missing(program: &str) -> BenchError {
    let package = match program {
        "ip" | "tc" => "iproute2",
        "nft" => "nftables",
        other => other,
    };
    BenchError::Unsupported(format!(
        "this host has no '{program}': install the package '{package}' (apt-get install {package})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_missing_and_what_failed() {
        let e = run("cofferdam-no-such-tool x").unwrap_err();
        assert_eq!(e.exit_code(), 3);
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
    }
}
