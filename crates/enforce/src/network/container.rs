//! One container whose network CPU is enforced.

use super::control::{Debt, PacketCost, Rates, Use};
use super::napis::NapiThreads;
use super::place::Place;
use crate::journal::{Form, Journal, Target, Written};
use cofferdam_types::{Container, ContainerLedger, Interval, Ledger};
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
    /// Network CPU that it may cause now, in CPUs; `None` where nobody waits.
    pub budget: Option<f64>,
    /// CPUs that it is entitled to of those where others wait; `None` where nobody does.
    pub share: Option<f64>,
    /// Its weight is its reservation's.
    pub weight_reserved: bool,
    pressed: Vec<(u32, Instant)>,
    pub rx_cost: PacketCost,
    pub tx_cost: PacketCost,
    pub dropped_rx_packets: u64,
    pub dropped_tx_packets: u64,
    pub drop_refused: Option<String>,
    pub has_quota: bool,
    /// Its own quota, in CPUs; known once it was looked at.
    pub quota_cpus: Option<f64>,
    /// CPU time of its NAPI threads at the last step.
    napi_ns: u64,
    /// CPU time that it was billed on each CPU at the last step, where the kernel tells.
    billed_by_cpu_ns: Vec<u64>,
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

    /// What was written last.
    fn value(&self) -> Option<f64> {
        self.written.map(|(value, _)| value)
    }
}

impl Enforced {
    pub fn new(container: Arc<Container>, place: Place) -> Enforced {
        Enforced {
            has_quota: place.has_quota(),
            quota_cpus: None,
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
            share: None,
            weight_reserved: false,
            pressed: Vec::new(),
            rx_cost: PacketCost::default(),
            tx_cost: PacketCost::default(),
            dropped_rx_packets: 0,
            dropped_tx_packets: 0,
            drop_refused: None,
            napi_ns: 0,
            billed_by_cpu_ns: Vec::new(),
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

    /// Takes an interval's counts in; `pressed` are the CPUs on which others pay, `unseen_ns` what
    /// its packets cost there that the ledger does not see. Returns its corrected use of these
    /// CPUs, in CPUs.
    pub fn measure(
        &mut self,
        row: Option<&ContainerLedger>,
        pressed: &[u32],
        interval: &Interval,
        unseen_ns: f64,
    ) -> f64 {
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        let napi_ns = self.napi.usage_ns();
        let napi_used = napi_ns.saturating_sub(self.napi_ns);
        self.napi_ns = napi_ns;
        let at_pressed = |column: &[u64]| -> u64 {
            let cpus = interval.cpus.iter().zip(column);
            let pressed = cpus.filter(|((cpu, _), _)| pressed.contains(&cpu.0));
            pressed.map(|(_, ns)| *ns).sum()
        };
        let caused = row.map_or(0, |row| at_pressed(&row.caused_by_cpu_ns));
        let charged = row.map_or(0, |row| at_pressed(&row.charged_by_cpu_ns));
        let used = Use {
            billed_ns: self.billed_ns(&ledger, pressed),
            caused_ns: ledger.caused_ns() as f64,
            charged_ns: charged as f64,
            owed_ns: ledger.owed_ns() as f64,
            softirq_ns: caused.saturating_sub(napi_used) as f64 + unseen_ns,
            napi_ns: napi_used as f64,
        };
        self.rates.update(&used, interval.length);
        self.charged_ns += napi_used;
        Rates::of(&used, interval.length).corrected()
    }

    /// What the scheduler billed to it on the CPUs `pressed`; where the kernel does not tell (pure
    /// cgroup v2) on all CPUs, at most all of these.
    fn billed_ns(&mut self, ledger: &Ledger, pressed: &[u32]) -> f64 {
        let now = self.place.usage_by_cpu_ns();
        let before = std::mem::replace(&mut self.billed_by_cpu_ns, now);
        if self.billed_by_cpu_ns.is_empty() || before.is_empty() {
            return ledger.cpu_usage_ns as f64;
        }
        let cpus = (0_u32..).zip(self.billed_by_cpu_ns.iter().zip(before));
        let used: u64 = cpus
            .filter(|(cpu, _)| pressed.contains(cpu))
            .map(|(_, (now, before))| now.saturating_sub(before))
            .sum();
        used as f64
    }

    /// Learns what its packets cost from an interval in which so many went each way.
    pub fn packets(&mut self, rx: u64, tx: u64, ledger: &Ledger, interval: &Interval) {
        let all = self.rates.at_others_cost() * interval.length.as_nanos() as f64;
        let (caused_rx, caused_tx) = (ledger.caused_rx_ns as f64, ledger.caused_tx_ns as f64);
        let part = caused_tx / (caused_rx + caused_tx).max(1.0);
        self.rx_cost
            .update(all * (1.0 - part), rx as f64, interval.length);
        self.tx_cost.update(all * part, tx as f64, interval.length);
    }

    /// The part (0..=1) of its network CPU that is for what it sends.
    pub fn sends(&self) -> f64 {
        let (rx, tx) = (self.rx_cost.ns(), self.tx_cost.ns());
        tx / (rx + tx).max(1.0)
    }

    /// Scheduled time that it had less in an interval than its weight would have given it, while
    /// that was lowered; nanoseconds.
    pub fn withheld_ns(&self, length: Duration) -> f64 {
        match self.share {
            Some(share) if self.weight.is_corrected() => {
                self.rates.withheld(share) * length.as_nanos() as f64
            }
            _ => 0.0,
        }
    }

    /// CPU time by which its quota was raised for an interval, nanoseconds.
    pub fn added_quota_ns(&self, length: Duration) -> f64 {
        let added = self.quota.value().zip(self.quota.base);
        let added = added.map_or(0.0, |(value, base)| value / base.max(1.0) - 1.0);
        let quota = self.quota_cpus.unwrap_or(0.0);
        (added * quota).max(0.0) * length.as_nanos() as f64
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

    /// Takes everything back but its NAPI threads.
    pub fn release(&mut self, journal: &mut Journal) {
        self.weight.restore(journal);
        self.quota.restore(journal);
        self.until = None;
        (self.budget, self.share) = (None, None);
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
