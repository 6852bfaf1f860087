//! Child process that ends with its owner.

use crate::UndoStack;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Running child. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    child: Arc<Mutex<Child>>,
    _undo: UndoStack,
}

impl Process {
    /// Starts `command`.
    pub fn start(command: &mut Command) -> io::Result<Process> {
        let child = command.spawn()?;
        let pid = child.id();
        let child = Arc::new(Mutex::new(child));
        let ours = child.clone();
        let mut undo = UndoStack::default();
        undo.push(format!("process {pid}"), move || end(&ours));
        Ok(Process {
            pid,
            child,
            _undo: undo,
        })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Standard input, if it is a pipe; `None` at the second call.
    pub fn stdin(&self) -> Option<ChildStdin> {
        lock(&self.child).stdin.take()
    }

    /// Standard output, if it is a pipe; `None` at the second call.
    pub fn stdout(&self) -> Option<ChildStdout> {
        lock(&self.child).stdout.take()
    }

    /// Standard error, if it is a pipe; `None` at the second call.
    pub fn stderr(&self) -> Option<ChildStderr> {
        lock(&self.child).stderr.take()
    }

    /// Sends a signal to this process alone.
    pub fn signal(&self, signal: Signal) {
        let mut child = lock(&self.child);
        // The check prevents a signal to another process that got the same id.
        if matches!(child.try_wait(), Ok(None)) {
            let _gone = kill(Pid::from_raw(self.pid.cast_signed()), signal);
        }
    }

    /// Exit status; `None` while the process runs.
    pub fn ended(&self) -> io::Result<Option<ExitStatus>> {
        lock(&self.child).try_wait()
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        matches!(self.ended(), Ok(None))
    }

    /// Waits for the end. Returns the exit code; `None` if a signal ended it.
    pub fn wait(&self) -> Option<i32> {
        loop {
            // Polled, because a time limit must be able to end the process.
            if let Ok(Some(status)) = self.ended() {
                return status.code();
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Kills the process and waits for its end.
    pub fn kill(&self) -> io::Result<()> {
        end(&self.child)
    }
}

fn end(child: &Mutex<Child>) -> io::Result<()> {
    let mut child = lock(child);
    child.kill()?;
    child.wait().map(drop)
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}
