//! Cofferdam's agent as a child process of the benchmark.

use crate::error::BenchError;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for the agent's first answer, and for reverting its changes.
const PATIENCE: Duration = Duration::from_secs(20);
const OURSELVES: &str = "/proc/self/exe";

/// Running agent. Dropping it makes it revert its changes and end.
pub(crate) struct Agent {
    child: Child,
    log: PathBuf,
    socket: PathBuf,
}

/// Status of an agent: a part of `cofferdam status --json`.
#[derive(Deserialize)]
pub(crate) struct Status {
    pub agent: OwnStatus,
    pub containers_known: u64,
}

/// The agent's own part of its status.
#[derive(Deserialize)]
pub(crate) struct OwnStatus {
    pub resident_bytes: u64,
    pub last_step_s: f64,
    #[serde(default)]
    pub metrics_address: Option<SocketAddr>,
}

impl Agent {
    /// Starts an agent with these rules, and waits until it answers. Its socket and its log are in
    /// `dir`. `metrics` is the address of its metrics, or `off`.
    pub fn start(dir: &Path, rules: &str, metrics: &str) -> Result<Agent, BenchError> {
        let (config, socket) = (dir.join("agent.toml"), dir.join("agent.sock"));
        let log = dir.join("agent.log");
        let text = format!(
            "{rules}\n[socket]\npath = \"{}\"\n\n[metrics]\naddress = \"{metrics}\"\n",
            socket.display()
        );
        fs::write(&config, text).map_err(BenchError::host("write", &config))?;
        let words = fs::File::create(&log).map_err(BenchError::host("write", &log))?;
        let child = Command::new(OURSELVES)
            .arg("agent")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words)
            // Ctrl-C in a terminal is for the driver, which ends the agent.
            .process_group(0)
            .spawn()
            .map_err(BenchError::host("start", Path::new(OURSELVES)))?;
        let mut agent = Agent { child, log, socket };
        agent.wait()?;
        Ok(agent)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Path of its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Current status; `None` if it does not answer.
    pub fn status(&self) -> Option<Status> {
        serde_json::from_value(status_of(Some(&self.socket))?).ok()
    }

    /// Waits until the agent answers.
    fn wait(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait().ok().flatten();
            match (ended, self.status()) {
                (None, Some(_)) => return Ok(()),
                (None, None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                (ended, _) => return Err(self.silent(ended.is_some())),
            }
        }
    }

    /// Error of an agent that does not answer.
    pub fn silent(&self, ended: bool) -> BenchError {
        let words = fs::read_to_string(&self.log).unwrap_or_default();
        let words = words.lines().last().unwrap_or("it says nothing").to_owned();
        BenchError::Unsupported(match ended {
            true => format!("Cofferdam's agent cannot run here: {words}"),
            false => format!("Cofferdam's agent does not answer: {words}"),
        })
    }
}

/// Output of `cofferdam status --json` from the agent at `socket`, by default at the usual one.
/// `None` if none answers.
pub(crate) fn status_of(socket: Option<&Path>) -> Option<Value> {
    let mut command = Command::new(OURSELVES);
    command.args(["status", "--json"]);
    if let Some(socket) = socket {
        command.arg("--socket").arg(socket);
    }
    let quiet = command.stdin(Stdio::null()).stderr(Stdio::null());
    serde_json::from_slice(&quiet.output().ok()?.stdout).ok()
}

impl Drop for Agent {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        // Fails only if it has already ended.
        let _gone = kill(pid, Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
        // The next agent that starts recovers the journal.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
