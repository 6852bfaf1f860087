//! Program that runs to its end, with its whole output.

use crate::error::BenchError;
use crate::line_process::LineProcess;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::io::Read;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two checks for its end.
const LOOK: Duration = Duration::from_millis(5);
/// Most bytes of its output that are read; no generator prints more.
const MOST_OUTPUT: u64 = 16 << 20;

/// Running program. Dropping it kills it with its children.
pub(super) struct Program {
    child: LineProcess,
    text: Option<JoinHandle<String>>,
    words: Option<JoinHandle<String>>,
}

/// Output of a program.
pub(super) struct Output {
    /// Standard output.
    pub text: String,
    /// Last line of standard error.
    pub words: String,
}

impl Program {
    /// Starts `command`. Errors call it `name`.
    pub fn start(name: &str, mut command: Command) -> Result<Program, BenchError> {
        let mut child = LineProcess::start(name, &mut command)?;
        child.hang_up();
        Ok(Program {
            text: child.stdout().map(read),
            words: child.stderr().map(read),
            child,
        })
    }

    /// Process id of the program: each command on the way replaces the one before.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&mut self) {
        if let Ok(None) = self.child.ended() {
            // Fails only if it has just ended.
            let _gone = kill(self.group(), Signal::SIGINT);
        }
    }

    /// Output of the ended program; `None` if it still runs at `deadline`.
    pub fn output(&mut self, deadline: Instant) -> Result<Option<Output>, BenchError> {
        loop {
            match self.child.ended() {
                Ok(Some(_)) => break,
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK),
                Ok(None) => return Ok(None),
                Err(e) => return Err(self.child.failure(e.to_string())),
            }
        }
        // Children that still run would keep its output open.
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

    /// Error with `reason` and the last line of standard error.
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
            // The program still runs: kill its children too.
            let _gone = killpg(self.group(), Signal::SIGKILL);
        }
    }
}

fn read(from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // After an error, the bytes until then are returned.
        let _cut = from.take(MOST_OUTPUT).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
