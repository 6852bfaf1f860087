//! One container whose network CPU is enforced.

use super::control::{Debt, PacketCost, Rates, Use};
use super::napis::NapiThreads;
use super::place::Place;
use super::quota::Quota;
use super::usage::Usage;
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
    /// Why nothing of it can be dropped.
    pub drop_refused: Option<String>,
    /// Why what it sends cannot be.
    pub sent_refused: Option<String>,
    /// Network CPU that went into packets that were dropped, in CPUs; known under a quota.
    pub dropping: f64,
    /// The quota that it is held to.
    pub limit: Quota,
    /// Its own quota, in CPUs, ours left out; known once it was corrected.
    pub quota_cpus: Option<f64>,
    /// Its NAPI threads must not run in its cgroup, because a quota does not stop them.
    pub unstoppable: bool,
    /// CPU time of its NAPI threads at the last step.
    napi_ns: u64,
    usage: Usage,
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
            dropping: 0.0,
            limit: Quota::default(),
            unstoppable: false,
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
            sent_refused: None,
            napi_ns: 0,
            usage: Usage::default(),
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

    /// CPU time of its NAPI threads since this was asked last, nanoseconds.
    pub fn napi_used_ns(&mut self) -> u64 {
        let now = self.napi.usage_ns();
        now.saturating_sub(std::mem::replace(&mut self.napi_ns, now))
    }

    /// Takes an interval's counts in; `pressed` are the CPUs on which others pay, `unseen_ns` what
    /// its packets cost there that the ledger does not see, `napi_used` what its NAPI threads ran.
    /// Returns its rates in this interval.
    pub fn measure(
        &mut self,
        row: Option<&ContainerLedger>,
        pressed: &[u32],
        interval: &Interval,
        (unseen_ns, napi_used): (f64, u64),
    ) -> Rates {
        let ledger = row.map(|row| row.ledger).unwrap_or_default();
        let at_pressed = |column: &[u64]| -> u64 {
            let cpus = interval.cpus.iter().zip(column);
            let pressed = cpus.filter(|((cpu, _), _)| pressed.contains(&cpu.0));
            pressed.map(|(_, ns)| *ns).sum()
        };
        let caused = row.map_or(0, |row| at_pressed(&row.caused_by_cpu_ns));
        let charged = row.map_or(0, |row| at_pressed(&row.charged_by_cpu_ns));
        let billed = self.usage.look(&self.place, pressed, interval.length);
        let used = Use {
            usage_ns: billed.all_ns,
            billed_ns: billed.there_ns,
            caused_ns: ledger.caused_ns() as f64 + unseen_ns,
            charged_ns: charged as f64,
            owed_ns: ledger.owed_ns() as f64 + unseen_ns,
            softirq_ns: caused.saturating_sub(napi_used) as f64 + unseen_ns,
            napi_ns: napi_used as f64,
        };
        self.rates.update(&used, interval.length);
        self.charged_ns += napi_used;
        Rates::of(&used, interval.length)
    }

    /// Looks after its quota from time to time.
    pub fn look_at_quota(&mut self, now: Instant) {
        let own_us = self.quota.base.filter(|_| self.quota.is_corrected());
        self.limit.look(self.place.cpu.as_ref(), own_us, now);
    }

    /// Network CPU that counts against its budget, in CPUs: under a quota all of it, else what
    /// others pay for.
    pub fn network_cpus(&self) -> f64 {
        match self.limit.cpus() {
            Some(_) => self.rates.caused(),
            None => self.rates.at_others_cost(),
        }
    }

    /// Network CPU that it may cause, in CPUs, within its share of the CPUs where others wait and
    /// within its quota; as [`Enforced::network_cpus`] counts it.
    pub fn set_budget(&mut self, of_share: Option<f64>) {
        let of_quota = self.limit.budget(&self.rates, self.dropping);
        let scale = self.network_cpus() / self.rates.at_others_cost().max(1e-6);
        let of_share = of_share.map(|budget| budget * scale.max(1.0));
        self.budget = match (of_share, of_quota) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
    }

    /// Learns what its packets cost from an interval in which so many passed each way, and
    /// `dropped` did not. Under a quota, once most are dropped, what those that pass cost stays as
    /// known: the rest went into dropping, which no limit on those that pass can lower.
    pub fn packets(
        &mut self,
        (rx, tx): (u64, u64),
        dropped: u64,
        ledger: &Ledger,
        interval: &Interval,
    ) {
        let length_ns = interval.length.as_nanos() as f64;
        let all = self.network_cpus() * length_ns;
        if self.limit.cpus().is_some() && dropped > rx + tx {
            let passed =
                rx as f64 * self.rx_cost.ns_per_packet() + tx as f64 * self.tx_cost.ns_per_packet();
            self.dropping = (all - passed).max(0.0) / length_ns;
            return;
        }
        self.dropping = 0.0;
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
