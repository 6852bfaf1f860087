//! One container whose network CPU is enforced.

use super::control::{Debt, PacketCost, Rates, Use};
use super::napi::NapiThreads;
use super::place::Place;
use crate::journal::{Form, Journal, Target, Written};
use cofferdam_types::{Container, ContainerLedger, Interval};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A CPU counts as one where others pay for so long after they were last seen to.
const PRESSED: Duration = Duration::from_millis(150);

/// What is known and done about one container.
#[derive(Debug)]
pub(super) struct Enforced {
    pub container: Arc<Container>,
    pub place: Place,
    pub napi: NapiThreads,
    pub rates: Rates,
    pub debt: Debt,
    pub weight: Corrected,
    pub quota: Corrected,
    /// Until when its means stay in place without being needed.
    pub until: Option<Instant>,
    pub charged_ns: u64,
    pub returned_ns: u64,
    pub budget: Option<f64>,
    pressed: Vec<(u32, Instant)>,
    pub cost: PacketCost,
    pub dropped_rx_packets: u64,
    pub drop_refused: Option<String>,
    pub has_quota: bool,
    /// CPU time of its NAPI threads at the last step.
    napi_ns: u64,
}

/// A file whose value follows what is owed.
#[derive(Debug, Default)]
pub(super) struct Corrected {
    /// What it would be without us.
    pub base: Option<f64>,
    written: Option<(f64, Instant)>,
    target: Option<Target>,
    /// The last refusal.
    pub refused: Option<String>,
}

impl Corrected {
    /// Writes `value` when it differs by more than `hysteresis` (relative) from what was written,
    /// not more often than every `interval`.
    pub fn set(
        &mut self,
        journal: &mut Journal,
        file: &Path,
        value: f64,
        text: impl Fn(f64) -> String,
        hysteresis: f64,
        interval: Duration,
    ) {
        let last = self.written.map(|(v, at)| (v, at.elapsed()));
        let reference = last.map(|(v, _)| v).or(self.base).unwrap_or(value);
        let small = (value - reference).abs() <= hysteresis * reference.abs().max(1.0);
        if small || last.is_some_and(|(_, ago)| ago < interval) {
            return;
        }
        let target = match Target::file(file) {
            Ok(target) => target,
            Err(_) => return,
        };
        match journal.set(&target, Form::Text, &text(value)) {
            Ok(Written::AfterRewrite(found)) => {
                self.base = found.split_whitespace().next().and_then(|v| v.parse().ok());
                self.refused = None;
            }
            Ok(_) => self.refused = None,
            Err(e) if e.vanished() => return,
            Err(e) => self.refused = Some(e.to_string()),
        }
        self.written = Some((value, Instant::now()));
        self.target = Some(target);
    }

    /// Puts the file back.
    pub fn restore(&mut self, journal: &mut Journal) {
        if let Some(target) = self.target.take() {
            journal.undo(&target);
        }
        self.written = None;
        self.base = None;
    }

    pub fn is_corrected(&self) -> bool {
        self.written.is_some()
    }
}

impl Enforced {
    pub fn new(container: Arc<Container>, place: Place) -> Enforced {
        Enforced {
            has_quota: place.has_quota(),
            container,
            place,
            napi: NapiThreads::default(),
            rates: Rates::default(),
            debt: Debt::default(),
            weight: Corrected::default(),
            quota: Corrected::default(),
            until: None,
            charged_ns: 0,
            returned_ns: 0,
            budget: None,
            pressed: Vec::new(),
            cost: PacketCost::default(),
            dropped_rx_packets: 0,
            drop_refused: None,
            napi_ns: 0,
        }
    }

    /// `pressed`, with those CPUs that were pressed a moment ago: a limited container shows up
    /// in bursts.
    pub fn still_pressed(&mut self, pressed: &[u32], now: Instant) -> Vec<u32> {
        self.pressed
            .retain(|(cpu, at)| now - *at < PRESSED && !pressed.contains(cpu));
        self.pressed.extend(pressed.iter().map(|cpu| (*cpu, now)));
        self.pressed.iter().map(|(cpu, _)| *cpu).collect()
    }

    /// Takes an interval's counts in; `pressed` are the CPUs on which others pay.
    /// Returns its corrected use of the interval, in CPUs.
    pub fn measure(
        &mut self,
        row: Option<&ContainerLedger>,
        pressed: &[u32],
        interval: &Interval,
    ) -> f64 {
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        let napi_ns = self.napi.usage_ns();
        let napi_used = napi_ns.saturating_sub(self.napi_ns);
        self.napi_ns = napi_ns;
        let by_cpu = row.into_iter().flat_map(|row| &row.caused_by_cpu_ns);
        let at_others_cost = interval.cpus.iter().zip(by_cpu);
        let at_others_cost: u64 = at_others_cost
            .filter(|((cpu, _), _)| pressed.contains(&cpu.0))
            .map(|(_, ns)| *ns)
            .sum();
        let used = Use {
            billed_ns: ledger.cpu_usage_ns as f64,
            caused_ns: ledger.caused_ns() as f64,
            charged_ns: ledger.charged_network_ns as f64,
            softirq_ns: at_others_cost.saturating_sub(napi_used) as f64,
            napi_ns: napi_used as f64,
        };
        self.rates.update(&used, interval.length);
        self.charged_ns += napi_used;
        Rates::of(&used, interval.length).corrected()
    }

    /// A process of it is alive; without one nothing of ours may hold its cgroup.
    pub fn is_alive(&self) -> bool {
        // One that has ended and was not waited for has no namespace any more.
        let process = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok();
        self.container.pid.is_some_and(process) || self.has_user_processes()
    }

    fn has_user_processes(&self) -> bool {
        let directory = self.place.directories.first().map(|d| d.full());
        directory.is_some_and(|d| {
            fs::read_to_string(d.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty())
        })
    }

    /// Takes everything back.
    pub fn release(&mut self, journal: &mut Journal) {
        self.napi.disengage(journal);
        self.weight.restore(journal);
        self.quota.restore(journal);
        self.until = None;
        self.budget = None;
    }

    /// Weight in the file, ours left out.
    pub fn base_weight(&mut self) -> Option<(PathBuf, f64)> {
        let file = self.place.weight_file()?;
        if self.weight.base.is_none() {
            self.weight.base = fs::read_to_string(&file).ok()?.trim().parse().ok();
        }
        Some((file, self.weight.base?))
    }
}
