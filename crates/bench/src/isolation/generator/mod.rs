//! Load generators of the host (stress-ng, fio, iperf3). Each cell starts one inside its tenant's
//! cgroups and namespaces, and reads its report.
//!
//! They can do less than our own generator: each cell starts a new process, two of them accept only
//! whole seconds, and none is an open loop. They exist so that a program that we did not write can
//! check our figures.

mod fio;
mod iperf3;
mod program;
mod stress_ng;

pub(super) use iperf3::Iperf3Sink;

use super::guest::LoadFigures;
use super::levels::Load;
use super::runtime::{Tenant, first_line};
use crate::error::BenchError;
use crate::isolation::data::GeneratorKind;
use program::Program;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Command line of a program of the host, and its report.
trait Generator {
    /// Name of the program in the path.
    fn program(&self) -> &'static str;

    /// Arguments for `load`, which is measured for `measure` after `warmup`; `None` if the program
    /// has no such load.
    fn arguments(&self, load: &Load, warmup: Duration, measure: Duration) -> Option<Vec<String>>;

    /// Reads the figures of the window from the program's output.
    fn parse_figures(
        &self,
        output: &str,
        warmup: Duration,
        measure: Duration,
    ) -> Result<LoadFigures, String>;
}

/// Generator of a kind; `None` for our own, which is no program of the host.
fn of(kind: GeneratorKind) -> Option<Box<dyn Generator>> {
    match kind {
        GeneratorKind::CofferdamLoad => None,
        GeneratorKind::StressNg => Some(Box::new(stress_ng::StressNg)),
        GeneratorKind::Fio => Some(Box::new(fio::Fio)),
        GeneratorKind::Iperf3 => Some(Box::new(iperf3::Iperf3)),
    }
}

/// Version of the generator.
///
/// # Errors
/// The host lacks the program; the error names its package.
pub(super) fn version(kind: GeneratorKind) -> Result<String, BenchError> {
    match of(kind) {
        None => Ok(format!("cofferdam-load {}", env!("CARGO_PKG_VERSION"))),
        Some(generator) => {
            let line = first_line(&format!("{} --version", generator.program()))?;
            Ok(format!("{kind}: {line}"))
        }
    }
}

/// Generator in a tenant: nothing runs between cells.
pub(super) struct HostGenerator {
    generator: Box<dyn Generator>,
    /// Name of the tenant.
    name: String,
    pid: u32,
    cgroups: Vec<PathBuf>,
    dir: PathBuf,
    load: Option<Load>,
    running: Option<StartedProgram>,
}

/// Started generator.
struct StartedProgram {
    program: Program,
    warmup: Duration,
    measure: Duration,
}

impl HostGenerator {
    /// Generator for `tenant`; `None` if the tenant's guest generates its load.
    pub fn of(kind: GeneratorKind, tenant: &Tenant) -> Result<Option<HostGenerator>, BenchError> {
        let Some(generator) = of(kind) else {
            return Ok(None);
        };
        let cgroups = tenant.cgroups.clone().ok_or_else(|| {
            BenchError::Unsupported(format!(
                "{} cannot join this runtime's tenants: use the runtime 'process'",
                generator.program()
            ))
        })?;
        Ok(Some(HostGenerator {
            generator,
            name: tenant.guest.name().to_owned(),
            pid: tenant.pid,
            cgroups,
            dir: PathBuf::from(&tenant.dir),
            load: None,
            running: None,
        }))
    }

    /// Sets the next load.
    pub fn prepare(&mut self, load: &Load) {
        (self.load, self.running) = (Some(load.clone()), None);
    }

    /// Starts the program.
    pub fn go(&mut self, warmup: Duration, measure: Duration) -> Result<(), BenchError> {
        let name = self.generator.program();
        let arguments = self
            .load
            .as_ref()
            .and_then(|load| self.generator.arguments(load, warmup, measure));
        let arguments = arguments.ok_or_else(|| {
            BenchError::Unsupported(format!("{name} has no load for this resource"))
        })?;
        let mut command = super::runtime::command_in("nsenter", &self.cgroups, None)?;
        command
            // The tenant has the host's mounts.
            .args(["--net", "--ipc", "--uts"])
            .args(["--target", &self.pid.to_string(), name])
            .args(arguments)
            .current_dir(&self.dir);
        self.running = Some(StartedProgram {
            program: Program::start(&format!("{name} of {}", self.name), command)?,
            warmup,
            measure,
        });
        Ok(())
    }

    /// Interrupts the program.
    pub fn stop(&mut self) {
        if let Some(running) = &mut self.running {
            running.program.interrupt();
        }
    }

    /// Waits at most `patience` for its end; `None` if it still runs.
    pub fn await_figures(&mut self, patience: Duration) -> Result<Option<LoadFigures>, BenchError> {
        let deadline = Instant::now() + patience;
        let Some(running) = &mut self.running else {
            return Err(BenchError::Worker {
                worker: self.name.clone(),
                reason: format!("{} was not started", self.generator.program()),
            });
        };
        let Some(output) = running.program.output(deadline)? else {
            return Ok(None);
        };
        let read = self
            .generator
            .parse_figures(&output.text, running.warmup, running.measure);
        let done = read.map_err(|reason| running.program.failure(&output, &reason))?;
        self.running = None;
        Ok(Some(done))
    }
}

/// Rounds up, for programs that accept only whole seconds.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_loads_and_no_other() {
        let loads = [
            Load::Cpu { cpus: 0.5 },
            Load::Memory {
                bytes: 1 << 20,
                rate: 0,
            },
            Load::Disk {
                path: "/data/file".into(),
                size: 1 << 20,
                iops: 100.0,
                direct: true,
            },
            Load::Source {
                bytes: 1400,
                to: "10.0.0.1:9".into(),
                bits: 1e6,
                threads: 1,
            },
        ];
        let second = Duration::from_secs(1);
        for kind in GeneratorKind::ALL.iter().filter(|k| k.is_foreign()) {
            let generator = of(*kind).unwrap();
            let can = loads
                .iter()
                .filter(|load| generator.arguments(load, second, second).is_some());
            let expected = match kind {
                GeneratorKind::StressNg => 2,
                _ => 1,
            };
            assert_eq!(can.count(), expected, "{kind}");
        }
        assert!(of(GeneratorKind::CofferdamLoad).is_none());
    }

    /// Promise 46.
    #[test]
    fn any_output_is_figures_or_a_reason() {
        let words = [
            "{",
            "}",
            "[",
            "]",
            "\"jobs\":",
            "\"intervals\":",
            "\"sum\":",
            "\"bytes\":",
            "1e308",
            "-1",
            "bogo-ops: ",
            "wall-clock-time: ",
            "\n",
            "null",
            ",",
            "stressor: cpu\n",
            "\"mixed\":",
            "\"total_ios\":",
            "\"seconds\":",
            "\"runtime\":",
        ];
        let mut random = fastrand::Rng::with_seed(6);
        let second = Duration::from_secs(1);
        for _ in 0..3_000 {
            let text: String = (0..random.usize(..30))
                .map(|_| words[random.usize(..words.len())])
                .collect();
            for kind in GeneratorKind::ALL.iter().filter(|k| k.is_foreign()) {
                let done = of(*kind).unwrap().parse_figures(&text, second, second);
                assert!(
                    done.is_err() || done.is_ok_and(|d| d.window_s > 0.0),
                    "{text}"
                );
            }
        }
    }
}
