//! Child process that receives commands as lines on its standard input.

use crate::error::BenchError;
use cofferdam_lab::Process;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// Running child with an open standard input. Dropping it kills it and waits for its end.
pub(crate) struct LineProcess {
    name: String,
    child: Process,
    stdin: Option<ChildStdin>,
}

impl LineProcess {
    /// Starts `command` with piped input and outputs. Errors call it `name`.
    pub fn start(name: &str, command: &mut Command) -> Result<LineProcess, BenchError> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal goes to the whole process group; the driver ends its children
            // itself.
            .process_group(0);
        let child = Process::start(command).map_err(|e| BenchError::Worker {
            worker: name.to_owned(),
            reason: format!("{}: {e}", command.get_program().to_string_lossy()),
        })?;
        let stdin = child.stdin();
        Ok(LineProcess {
            name: name.to_owned(),
            child,
            stdin,
        })
    }

    /// Name of the child in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Standard output; `None` at the second call.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout()
    }

    /// Standard error; `None` at the second call.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr()
    }

    /// Sends one line to the child.
    ///
    /// # Errors
    /// The child has ended, or its input was closed.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush())
    }

    /// Closes the child's standard input.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Exit status; `None` while the child runs.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.ended()
    }

    /// Makes an error that names the child.
    pub fn failure(&self, reason: String) -> BenchError {
        BenchError::Worker {
            worker: self.name.clone(),
            reason,
        }
    }

    /// Kills the child.
    pub fn kill(&mut self) {
        // Fails only if the child has already ended.
        let _gone = self.child.kill();
    }
}
