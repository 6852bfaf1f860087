//! A program that runs to its end and is read whole.

use crate::error::BenchError;
use crate::spoken::Spoken;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io::Read;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Most of its output that is read: what no generator reaches.
const MOST_OUTPUT: u64 = 16 << 20;

/// A running program. Dropping it kills it with its children.
pub(super) struct Program {
    child: Spoken,
    text: Option<JoinHandle<String>>,
    words: Option<JoinHandle<String>>,
}

/// What it said.
pub(super) struct Output {
    /// On its standard output.
    pub text: String,
    /// Last line of its standard error.
    pub words: String,
}

impl Program {
    /// Starts `command`; errors call it `name`.
    pub fn start(name: &str, mut command: Command) -> Result<Program, BenchError> {
        let mut child = Spoken::start(name, &mut command)?;
        child.hang_up();
        Ok(Program {
            text: child.stdout().map(read),
            words: child.stderr().map(read),
            child,
        })
    }

    /// Its process: every step on the way replaced the one before.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// As Ctrl-C would.
    pub fn interrupt(&mut self) {
        if let Ok(None) = self.child.ended() {
            // Fails only when it has just gone.
            let _gone = kill(self.group(), Signal::SIGINT);
        }
    }

    /// What it said, once it has ended; `None`: it has not by `deadline`.
    pub fn output(&mut self, deadline: Instant) -> Result<Option<Output>, BenchError> {
        loop {
            match self.child.ended() {
                Ok(Some(_)) => break,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                Ok(None) => return Ok(None),
                Err(e) => return Err(self.child.failure(e.to_string())),
            }
        }
        // Children that live on would hold its output open.
        let _gone = killpg(self.group(), Signal::SIGKILL);
        let whole = |reader: Option<JoinHandle<String>>| {
            reader.and_then(|r| r.join().ok()).unwrap_or_default()
        };
        let words = whole(self.words.take());
        Ok(Some(Output {
            text: whole(self.text.take()),
            words: words.lines().last().unwrap_or_default().to_owned(),
        }))
    }

    /// An error of its own: `reason`, and what it said itself.
    pub fn failure(&self, output: &Output, reason: &str) -> BenchError {
        self.child.failure(match output.words.is_empty() {
            true => reason.to_owned(),
            false => format!("{reason}: {}", output.words),
        })
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.child.pid().cast_signed())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.text.is_some() {
            // Not ended yet: its children go with it.
            let _gone = killpg(self.group(), Signal::SIGKILL);
        }
    }
}

fn read(from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came until an error is what there is.
        let _cut = from.take(MOST_OUTPUT).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
