//! Running programs, and ending the ones we started.

use crate::undo::Undo;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A program that could not be run, or that failed.
#[derive(Debug)]
pub struct CommandError {
    line: String,
    why: String,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed: {}", self.line, self.why)
    }
}

impl std::error::Error for CommandError {}

/// Runs a program to its end and returns its standard output.
pub fn try_run(argv: &[&str]) -> Result<String, CommandError> {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]);
    output(command, &argv.join(" "))
}

/// As [`try_run`]; panics when it fails.
#[track_caller]
pub fn run(argv: &[&str]) -> String {
    match try_run(argv) {
        Ok(out) => out,
        Err(e) => panic!("{e}"),
    }
}

pub(crate) fn output(mut command: Command, line: &str) -> Result<String, CommandError> {
    let failed = |why: String| CommandError {
        line: line.to_owned(),
        why,
    };
    let out = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(format!("{e}; is the program installed?")))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(failed(format!("{}, {}", out.status, said.trim())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A program that runs during the test; killed and waited for when dropped.
pub struct Process {
    pid: u32,
    child: Arc<Mutex<Child>>,
    _undo: Undo,
}

impl Process {
    #[track_caller]
    pub(crate) fn spawn(mut command: Command, line: &str) -> Process {
        // SAFETY: prctl is one system call; a killed test takes its children along.
        unsafe {
            command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?));
        }
        let child = match command.stdin(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(e) => panic!("cannot start `{line}`: {e}"),
        };
        let pid = child.id();
        let child = Arc::new(Mutex::new(child));
        let ours = child.clone();
        let undo = Undo::new(move || end(&ours));
        Process {
            pid,
            child,
            _undo: undo,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal to this process alone.
    pub fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        // Asking first keeps the signal from a stranger that got the same id.
        if matches!(child.try_wait(), Ok(None)) {
            let _ = kill(Pid::from_raw(self.pid.cast_signed()), signal);
        }
    }

    /// Waits for its end; the exit code, `None` when a signal ended it.
    #[track_caller]
    pub fn wait(&self) -> Option<i32> {
        loop {
            // Polled, not waited for in one call: a time limit must be able to end it.
            if let Ok(Some(status)) = lock(&self.child).try_wait() {
                return status.code();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// True until it has ended.
    pub fn is_alive(&self) -> bool {
        matches!(lock(&self.child).try_wait(), Ok(None))
    }
}

fn end(child: &Mutex<Child>) {
    let mut child = lock(child);
    let _ = child.kill();
    let _ = child.wait();
}

fn lock(child: &Mutex<Child>) -> std::sync::MutexGuard<'_, Child> {
    child
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
