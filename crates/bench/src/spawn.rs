//! The driver's side of a worker: starts it in its place, exchanges lines with it, ends it.
//!
//! The executable is this program with the hidden subcommand `bench-worker`, or the one that the
//! environment variable `COFFERDAM_WORKER` or [`use_worker`] names.

use crate::error::BenchError;
use crate::line_process::LineProcess;
use crate::worker::Reading;
use cofferdam_lab::Netns;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Environment variable that names another worker executable.
pub const WORKER_VARIABLE: &str = "COFFERDAM_WORKER";

static EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();

/// Makes `path` the worker executable of this process; later calls have no effect. Meant for tests,
/// which are not `cofferdam` and cannot set their environment.
pub fn use_worker(path: &Path) {
    EXECUTABLE.get_or_init(|| path.to_owned());
}

/// Time limit for a worker to prepare, to answer or to end. Long, because its CPU may be flooded
/// and shared.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Place where a worker runs.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Network namespace.
    pub netns: Netns,
    /// Cgroup directories to join.
    pub cgroups: Vec<PathBuf>,
    /// CPU; `None`: any.
    pub cpu: Option<u32>,
}

/// Running worker. Dropping it kills it and waits for its end.
pub struct Worker {
    child: LineProcess,
    lines: Receiver<String>,
    pending: Option<String>,
}

impl Worker {
    /// Starts a worker with `args` (its kind first) in `place`, and waits until it is ready. The
    /// worker then waits for [`Worker::go`].
    pub fn start(place: &Place, args: &str) -> Result<Worker, BenchError> {
        Worker::start_with(place, args, &[])
    }

    /// Starts a worker as [`Worker::start`] does; the arguments in `extra` may contain spaces.
    pub fn start_with(place: &Place, args: &str, extra: &[&OsStr]) -> Result<Worker, BenchError> {
        let mut command = executable();
        command.args(args.split_whitespace()).args(extra);
        command.args(["--parent", &std::process::id().to_string()]);
        for dir in &place.cgroups {
            command.arg("--join").arg(dir);
        }
        if let Some(netns) = place.netns.name() {
            command.args(["--netns", netns]);
        }
        if let Some(cpu) = place.cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        let mut child = LineProcess::start(args, &mut command)?;
        let stdout = child.stdout();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut worker = Worker {
            child,
            lines,
            pending: None,
        };
        match worker.line(PATIENCE)?.as_str() {
            "ready" => Ok(worker),
            other => Err(worker
                .child
                .failure(format!("expected 'ready', got '{other}'"))),
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Lets the worker begin.
    pub fn go(&mut self) -> Result<(), BenchError> {
        self.send_command("go")
    }

    /// Asks for the counters and returns them.
    pub fn read(&mut self) -> Result<Reading, BenchError> {
        self.ask()?;
        self.answer()
    }

    /// Asks for the counters; [`Worker::answer`] returns them.
    pub fn ask(&mut self) -> Result<(), BenchError> {
        self.send_command("read")
    }

    /// Waits at most `patience` for a line, and returns whether one is there.
    ///
    /// # Errors
    /// The worker has ended without one.
    pub fn has_line(&mut self, patience: Duration) -> Result<bool, BenchError> {
        if self.pending.is_none() {
            match self.lines.recv_timeout(patience) {
                Ok(line) => self.pending = Some(line),
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => return Err(self.post_mortem()),
            }
        }
        Ok(true)
    }

    /// Takes the next line, a JSON object.
    pub fn answer<T: DeserializeOwned>(&mut self) -> Result<T, BenchError> {
        let line = self.line(PATIENCE)?;
        serde_json::from_str(&line).map_err(|e| {
            self.child
                .failure(format!("it answered '{line}', which is invalid: {e}"))
        })
    }

    /// Stops the worker and returns its last counters.
    pub fn end(self) -> Result<Reading, BenchError> {
        self.end_with()
    }

    /// Stops the worker and returns its last line.
    pub fn end_with<T: DeserializeOwned>(mut self) -> Result<T, BenchError> {
        self.send_command("end")?;
        let reading = self.answer()?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.child.ended() {
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Ok(Some(status)) if status.success() => return Ok(reading),
                Ok(Some(_)) => return Err(self.post_mortem()),
                Err(e) => return Err(self.child.failure(e.to_string())),
            }
        }
        Err(self.child.failure("it did not end on request".to_owned()))
    }

    fn send_command(&mut self, word: &str) -> Result<(), BenchError> {
        let sent = self.child.say(word);
        sent.map_err(|_| self.post_mortem())
    }

    fn line(&mut self, patience: Duration) -> Result<String, BenchError> {
        if !self.has_line(patience)? {
            return Err(self
                .child
                .failure(format!("it did not answer for {} s", patience.as_secs())));
        }
        self.pending
            .take()
            .ok_or_else(|| self.child.failure("no line".to_owned()))
    }

    /// Error of a worker that closed its output, with the last line of its standard error.
    fn post_mortem(&mut self) -> BenchError {
        self.child.kill();
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr() {
            // The worker's output is closed. If its standard error cannot be read, its exit status
            // must do.
            let _unreadable = pipe.read_to_string(&mut stderr);
        }
        let words = stderr.trim().lines().last().unwrap_or_default();
        let reason = match (words, self.child.ended()) {
            ("", Ok(Some(status))) => format!("it ended early ({status})"),
            ("", _) => "it ended early".to_owned(),
            (words, _) => words.to_owned(),
        };
        self.child.failure(reason)
    }
}

/// Command without the worker's arguments.
fn executable() -> Command {
    let named = EXECUTABLE.get().cloned();
    if let Some(path) = named.or_else(|| std::env::var_os(WORKER_VARIABLE).map(PathBuf::from)) {
        return Command::new(path);
    }
    // The link, not its target: it works even after a new build has replaced the file.
    let mut command = Command::new("/proc/self/exe");
    command.arg("bench-worker");
    command
}
