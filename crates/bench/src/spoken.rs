//! A child process that is spoken to in lines.

use crate::error::BenchError;
use cofferdam_lab::Process;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// A running child with its input open. Dropping it kills it and waits for its end.
pub(crate) struct Spoken {
    name: String,
    child: Process,
    stdin: Option<ChildStdin>,
}

impl Spoken {
    /// Starts `command` with its input and outputs here; errors call it `name`.
    pub fn start(name: &str, command: &mut Command) -> Result<Spoken, BenchError> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A terminal's Ctrl-C goes to the whole group; the driver ends its children itself.
            .process_group(0);
        let child = Process::start(command).map_err(|e| BenchError::Worker {
            worker: name.to_owned(),
            reason: format!("{}: {e}", command.get_program().to_string_lossy()),
        })?;
        let stdin = child.stdin();
        Ok(Spoken {
            name: name.to_owned(),
            child,
            stdin,
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process that was started here.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Its standard output, once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout()
    }

    /// Its standard error, once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr()
    }

    /// Says one line to it; fails when it has ended or its input was closed.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush())
    }

    /// Ends its input.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// How it ended; `None`: it has not.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.ended()
    }

    /// An error of its own.
    pub fn failure(&self, reason: String) -> BenchError {
        BenchError::Worker {
            worker: self.name.clone(),
            reason,
        }
    }

    /// Ends it, whatever it does.
    pub fn kill(&mut self) {
        // Fails only when it is gone already.
        let _gone = self.child.kill();
    }
}
