//! Cofferdam's own agent, looking after the tenants of a stage while it lives.

use super::experiment::Experiment;
use super::stage::Stage;
use crate::error::BenchError;
use crate::topology::sweep::CGROUP_PREFIX;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the agent may take until it answers, and to take everything back.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running agent; dropped, it takes everything back and ends.
pub(super) struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    /// Starts it with rules for every tenant that the stage will have: network CPU enforced, and
    /// for those with a limit a strict reservation of the CPU limit.
    pub fn start(experiment: &Experiment, stage: &Stage) -> Result<Agent, BenchError> {
        let dir = stage.tenant_dir("agent")?;
        let (config, socket) = (dir.join("agent.toml"), dir.join("agent.sock"));
        let log = dir.join("agent.log");
        let host = |action, path: &Path| {
            let path = path.to_owned();
            move |source| BenchError::Host {
                action,
                path,
                source,
            }
        };
        let text = configuration(&stage.tag, experiment.cpus(), &socket);
        fs::write(&config, text).map_err(host("write", &config))?;
        let words = fs::File::create(&log).map_err(host("write", &log))?;
        let child = Command::new("/proc/self/exe")
            .arg("agent")
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(words)
            // Ctrl-C on a terminal is the driver's; it ends the agent in order.
            .process_group(0)
            .spawn()
            .map_err(host("start", Path::new("/proc/self/exe")))?;
        let mut agent = Agent { child, log };
        agent.wait(&socket)?;
        Ok(agent)
    }

    /// Waits until it answers.
    fn wait(&mut self, socket: &Path) -> Result<(), BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.child.try_wait().ok().flatten();
            let answers = Command::new("/proc/self/exe")
                .args(["status", "--json", "--socket"])
                .arg(socket)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
            match (ended, answers) {
                (None, true) => return Ok(()),
                (None, false) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                (ended, _) => {
                    let words = fs::read_to_string(&self.log).unwrap_or_default();
                    let words = words.lines().last().unwrap_or("it says nothing").to_owned();
                    return Err(BenchError::Unsupported(match ended {
                        Some(_) => format!("Cofferdam's agent cannot run here: {words}"),
                        None => format!("Cofferdam's agent does not answer: {words}"),
                    }));
                }
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        // Fails only when it has ended already.
        let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
        // Its journal is put right by the next one that starts.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The first rule that matches wins: who has no limit gets no reservation either.
fn configuration(tag: &str, cpus: f64, socket: &Path) -> String {
    let name = format!("{CGROUP_PREFIX}{tag}-");
    format!(
        "[[rule]]\nmatch = \"{name}?-free*\"\nnetwork_cpu = \"enforce\"\n\n\
         [[rule]]\nmatch = \"{name}*\"\nnetwork_cpu = \"enforce\"\ncpu = \"strict\"\ncpus = {cpus:?}\n\n\
         [socket]\npath = \"{}\"\n\n[metrics]\naddress = \"off\"\n",
        socket.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_limit_gets_no_reservation() {
        let text = configuration("7-i0", 0.5, Path::new("/var/tmp/x/agent.sock"));
        let free = text.find("cofferdam-bench-7-i0-?-free*").unwrap();
        let all = text.find("\"cofferdam-bench-7-i0-*\"").unwrap();
        let strict = text.find("cpus = 0.5").unwrap();
        assert!(free < all && all < strict, "{text}");
        assert_eq!(text.matches("strict").count(), 1);
    }
}
