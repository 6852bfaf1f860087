//! Rig of an experiment: its CPUs, the signals, the ledger, the run directory.

use super::agent_enforcement::AgentEnforcement;
use super::enforcement::{self, Enforcement};
use crate::data::{Treatment, VictimKind};
use crate::error::BenchError;
use crate::host_facts;
use crate::ledger::{self, LedgerSource};
use crate::noise;
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::{About, MANIFEST, RunDir};
use crate::signals::Signals;
use cofferdam_affinity::{Affinity, Urgent};
use cofferdam_types::CpuId;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of a rig.
pub(crate) struct RigOptions {
    pub kind: Kind,
    pub quick: bool,
    pub output: Option<PathBuf>,
    pub victim_cpu: Option<u32>,
    pub peer_cpu: Option<u32>,
    /// Names of the options that choose these CPUs, if the command has them.
    pub placed_by: Option<&'static str>,
    pub seed: u64,
    pub ledger: bool,
    /// Whether the rig resumes an earlier run of this kind in `output`.
    pub resumes: bool,
}

impl RigOptions {
    /// Options of an experiment that chooses its CPUs itself and needs no ledger.
    pub fn plain(kind: Kind, quick: bool, output: Option<PathBuf>, seed: u64) -> RigOptions {
        RigOptions {
            kind,
            quick,
            output,
            victim_cpu: None,
            peer_cpu: None,
            placed_by: None,
            seed,
            ledger: false,
            resumes: false,
        }
    }
}

/// Returns the elements of `all` that `asked` lists, in the order of `all`; all of them if `asked`
/// is empty.
pub(crate) fn choose<E: Copy + PartialEq>(all: &[E], asked: &[E]) -> Vec<E> {
    let wanted = |e: &E| asked.is_empty() || asked.contains(e);
    all.iter().copied().filter(wanted).collect()
}

/// State of one run.
pub(crate) struct Rig<'a> {
    pub victim_cpu: u32,
    pub peer_cpu: u32,
    pub seed: u64,
    pub random: fastrand::Rng,
    pub dir: RunDir,
    pub progress: &'a mut dyn Progress,
    pub ledger: Option<Box<dyn LedgerSource>>,
    /// Reason why the wanted ledger is missing.
    missing_ledger: Option<String>,
    /// Enforcement that runs in this process now.
    treatment: Option<Enforcement>,
    /// Agent that enforces now, in a process of its own.
    agent: Option<AgentEnforcement>,
    /// Whether the ledger is stopped while the agent accounts.
    pauses_ledger: bool,
    /// Units of work by victim, calibrated once a run.
    pub calibrated: HashMap<VictimKind, u64>,
    signals: Signals,
    absence: Absence,
}

impl<'a> Rig<'a> {
    /// Checks the host, waits for calm, makes the run directory and starts the ledger.
    pub fn new(options: RigOptions, progress: &'a mut dyn Progress) -> Result<Self, BenchError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(BenchError::Unsupported(
                "the experiments create network namespaces and cgroups: run as root (sudo)"
                    .to_owned(),
            ));
        }
        let (victim_cpu, peer_cpu) = choose_cpus(options.victim_cpu, options.peer_cpu)?;
        let signals = Signals::catch(&*progress)?;
        // First of all, so that a second instance leaves no directory behind.
        let (ledger, missing_ledger) = match options.ledger.then(ledger::start).transpose() {
            Ok(ledger) => (ledger, None),
            // A penalty can be measured without a ledger.
            Err(BenchError::Unsupported(reason)) => (None, Some(reason)),
            Err(other) => return Err(other),
        };
        progress.step(0, 0, "looking for noise");
        let noise = noise::await_calm([victim_cpu, peer_cpu], options.placed_by, |reason| {
            progress.step(0, 0, reason);
            !signals.caught()
        });
        let mut warnings = noise.warnings;
        let missing = missing_ledger.as_ref();
        warnings.extend(missing.map(|reason| format!("no ledger in this run: {reason}")));
        for warning in &warnings {
            progress.warn(warning);
        }
        let about = About {
            kind: options.kind,
            quick: options.quick,
            victim_cpu,
            peer_cpu,
            seed: options.seed,
            warnings,
            is_busy: noise.is_busy,
        };
        let earlier = options.output.as_deref();
        let earlier = earlier.filter(|path| options.resumes && path.join(MANIFEST).exists());
        let dir = match earlier {
            Some(path) => RunDir::reopen(path, options.kind)?,
            None => RunDir::create(options.output.as_deref(), &about)?,
        };
        Ok(Rig {
            victim_cpu,
            peer_cpu,
            seed: options.seed,
            random: fastrand::Rng::with_seed(options.seed),
            dir,
            progress,
            ledger,
            missing_ledger,
            treatment: None,
            agent: None,
            pauses_ledger: false,
            calibrated: HashMap::new(),
            signals,
            absence: Absence::from_cpu(victim_cpu),
        })
    }

    /// Keeps the driver off `cpu` instead of the victim's CPU.
    pub fn leave_cpu(&mut self, cpu: u32) {
        self.use_all_cpus();
        self.absence = Absence::from_cpu(cpu);
    }

    /// Lets the driver, and its child processes, run on any CPU.
    pub fn use_all_cpus(&mut self) {
        self.absence.end();
    }

    /// Fails after a signal.
    pub fn check(&self) -> Result<(), BenchError> {
        if self.signals.caught() {
            return Err(BenchError::Interrupted {
                dir: self.dir.path().to_owned(),
            });
        }
        Ok(())
    }

    /// Waits for `time`, while it serves the ledger, the enforcement and the signals.
    pub fn pass(&mut self, time: Duration) -> Result<(), BenchError> {
        let deadline = Instant::now() + time;
        // Same priority as the agent's control loop.
        let _urgent = self.treatment.as_ref().map(|_| Urgent::begin());
        loop {
            self.check()?;
            let now = Instant::now();
            if now >= deadline {
                return Ok(());
            }
            let until = deadline.min(now + Duration::from_millis(20));
            match &mut self.ledger {
                Some(ledger) => ledger.follow(until)?,
                None => std::thread::sleep(until - now),
            }
            if let (Some(treatment), Some(ledger)) = (&mut self.treatment, &mut self.ledger) {
                treatment.step(ledger.as_mut())?;
            }
        }
    }

    /// Begins `treatment` for the containers at these cgroup paths.
    pub fn apply_treatment(
        &mut self,
        treatment: Treatment,
        paths: Vec<String>,
    ) -> Result<(), BenchError> {
        if treatment == Treatment::Vanilla {
            return Ok(());
        }
        if treatment == Treatment::Agent {
            return self.start_agent(&paths);
        }
        let ledger = self.ledger.as_mut().ok_or_else(|| {
            let why = self
                .missing_ledger
                .as_deref()
                .unwrap_or("this run has none");
            BenchError::Unsupported(format!("enforcement needs the accounting: {why}"))
        })?;
        self.treatment = Some(enforcement::begin(treatment, &paths, ledger.as_mut())?);
        Ok(())
    }

    /// Starts the agent. The agent accounts too, so the ledger stops: two would cost twice the
    /// overhead.
    fn start_agent(&mut self, paths: &[String]) -> Result<(), BenchError> {
        self.pauses_ledger = self.ledger.take().is_some();
        // The agent runs on the CPUs where its host runs it, not only off the victim's.
        self.absence.end();
        let started = AgentEnforcement::start(paths);
        self.absence = Absence::from_cpu(self.victim_cpu);
        self.agent = Some(started?);
        Ok(())
    }

    /// Ends the treatment that [`Rig::apply_treatment`] began, and reverts its changes.
    pub fn revert_treatment(&mut self) -> Result<(), BenchError> {
        self.agent = None;
        let ended = self.treatment.take().map_or(Ok(()), |t| t.end());
        if std::mem::take(&mut self.pauses_ledger) {
            self.ledger = Some(ledger::start()?);
        }
        ended
    }

    /// Ends the run: writes the result so far, and how the run ended. The first error wins: a full
    /// disk that ended the run must not be reported as a failed last write.
    pub fn close(
        mut self,
        result: Option<RunResult>,
        outcome: Result<(), BenchError>,
    ) -> Result<RunDir, BenchError> {
        let interrupted = matches!(outcome, Err(BenchError::Interrupted { .. }));
        // A result without a sample is not worth a file.
        let result = result.filter(|_| self.dir.has_samples() || outcome.is_ok());
        let mut written = result.map_or(Ok(()), |result| self.dir.result(&result));
        if written.is_ok() && (outcome.is_ok() || interrupted) {
            written = self.dir.finish(interrupted);
        }
        match outcome.and(written) {
            Ok(()) => Ok(self.dir),
            Err(e) => {
                if !interrupted {
                    self.dir.discard_if_empty();
                }
                Err(e)
            }
        }
    }

    /// Warns the user, and adds the warning to the manifest.
    pub fn warn(&mut self, text: &str) -> Result<(), BenchError> {
        self.progress.warn(text);
        self.dir.warn(text)
    }
}

/// Chooses two online CPUs on different cores, by default the lowest ones.
fn choose_cpus(victim: Option<u32>, peer: Option<u32>) -> Result<(u32, u32), BenchError> {
    let online = host_facts::online_cpus();
    for cpu in [victim, peer].into_iter().flatten() {
        if !online.contains(&cpu) {
            return Err(BenchError::Usage(format!(
                "CPU {cpu} is not online on this host"
            )));
        }
    }
    if victim.is_some() && victim == peer {
        return Err(BenchError::Usage(
            "victim and peer need different CPUs: the peer's work must not slow the victim"
                .to_owned(),
        ));
    }
    let free = |taken: Option<u32>| {
        let avoided = taken.map(host_facts::siblings).unwrap_or_default();
        let others = || online.iter().copied().filter(|cpu| Some(*cpu) != taken);
        // Another core if there is one; otherwise another hyper-thread.
        others()
            .find(|cpu| !avoided.contains(cpu))
            .or_else(|| others().next())
    };
    let none = || {
        BenchError::Unsupported(
            "the experiments need two CPUs, this host has one: use a larger machine".to_owned(),
        )
    };
    let victim = match victim {
        Some(cpu) => cpu,
        None => free(peer).ok_or_else(none)?,
    };
    let peer = match peer {
        Some(cpu) => cpu,
        None => free(Some(victim)).ok_or_else(none)?,
    };
    Ok((victim, peer))
}

/// Absence of the driver from the victim's CPU. Dropping it reverts the affinity.
struct Absence {
    before: Option<Affinity>,
}

impl Absence {
    /// Moves this thread off `cpu`. Errors are ignored: a driver that stays costs the victim next
    /// to nothing.
    fn from_cpu(cpu: u32) -> Absence {
        let leave = || {
            let before = Affinity::of_this_thread()?;
            before.without(CpuId(cpu))?.bind_this_thread()?;
            std::io::Result::Ok(before)
        };
        Absence {
            before: leave().ok(),
        }
    }

    fn end(&mut self) {
        if let Some(before) = self.before.take() {
            // Fails only if those CPUs have gone offline since.
            let _gone = before.bind_this_thread();
        }
    }
}

impl Drop for Absence {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_different_cpus() {
        let (victim, peer) = choose_cpus(None, None).unwrap();
        assert_ne!(victim, peer);
        let (victim, peer) = choose_cpus(None, Some(0)).unwrap();
        assert_eq!(peer, 0);
        assert_ne!(victim, 0);
        assert_eq!(choose_cpus(Some(0), Some(0)).unwrap_err().exit_code(), 2);
        assert_eq!(choose_cpus(Some(99_999), None).unwrap_err().exit_code(), 2);
    }
}
