//! One step: who pays for whom, and what is done about it.

use super::Network;
use super::container::Enforced;
use crate::journal::Journal;
use cofferdam_types::{CgroupId, ContainerLedger, Interval, Means};
use std::collections::HashMap;
use std::time::Instant;

/// Others pay on a CPU when this part of it is charged to them.
const PAID: f64 = 0.003;
/// A container causes work on a CPU when it takes this part of it.
const CAUSES: f64 = 0.01;
/// Below this part of a CPU a container's network work is passed over.
const COUNTS: f64 = 0.001;

impl Network {
    /// Acts on what happened in `interval`.
    pub fn step(&mut self, journal: &mut Journal, interval: &Interval) {
        self.leaving.step(journal, false);
        if self.enforced.is_empty() || interval.length.is_zero() {
            self.pressed = false;
            return;
        }
        let rows: HashMap<CgroupId, &ContainerLedger> = interval
            .containers
            .iter()
            .map(|row| (row.container.cgroup, row))
            .collect();
        let length_ns = interval.length.as_nanos() as f64;
        let mut charged_by_cpu = vec![0_u64; interval.cpus.len()];
        for row in &interval.containers {
            for (sum, ns) in charged_by_cpu.iter_mut().zip(&row.charged_by_cpu_ns) {
                *sum += ns;
            }
        }
        // Most containers did nothing, or nothing that counts: they cost a look, no more.
        let mut active = Vec::new();
        for (id, enforced) in &self.enforced {
            let row = rows.get(id);
            let pressed = row.map_or_else(Vec::new, |row| {
                pressed_cpus(row, &charged_by_cpu, interval, length_ns)
            });
            let counts = |r: &ContainerLedger| r.ledger.caused_ns() as f64 > COUNTS * length_ns;
            let counts = row.is_some_and(|row| counts(row));
            if enforced.until.is_some() || !pressed.is_empty() || counts {
                active.push((*id, pressed));
            }
        }
        self.pressed = false;
        if active.is_empty() {
            self.note_payers(&rows, interval);
            return;
        }
        self.look_around(interval);
        let mut withheld = Vec::new();
        for (id, pressed) in active {
            let Some(mut enforced) = self.enforced.remove(&id) else {
                continue;
            };
            let row = rows.get(&id).copied();
            self.step_one(journal, &mut enforced, row, &pressed, interval);
            withheld.push((id, pressed, enforced.withheld_ns(interval.length)));
            self.pressed |= enforced.until.is_some();
            self.enforced.insert(id, enforced);
        }
        self.note_returned(&withheld, interval);
        self.note_payers(&rows, interval);
    }

    /// What all containers that count now are measured by: idle time, neighbours, interrupts.
    fn look_around(&mut self, interval: &Interval) {
        // After a pause the first figures are of a longer time than the interval.
        let since = self.looked.map_or(interval.length, |at| at.elapsed());
        self.looked = Some(Instant::now());
        self.idle.update(since.max(interval.length).as_secs_f64());
        self.rivals.note(interval);
        if let Some(interrupts) = &mut self.interrupts {
            if since > interval.length * 2 {
                interrupts.forget();
            }
            interrupts.update();
        }
        let rows = interval.containers.iter();
        let pairs = rows.flat_map(|row| &row.container.interfaces);
        self.host_ends = pairs
            .filter_map(|pair| Some((pair.host_netns?, pair.host_ifindex?)))
            .collect();
    }

    /// What was withheld from those who caused went back to those who had paid, by what each
    /// had paid.
    fn note_returned(&mut self, withheld: &[(CgroupId, Vec<u32>, f64)], interval: &Interval) {
        for (offender, pressed, ns) in withheld.iter().filter(|(_, _, ns)| *ns > 0.0) {
            let payers = interval.containers.iter();
            let payers = payers.filter(|row| row.container.cgroup != *offender);
            let paid: Vec<(CgroupId, f64)> = payers
                .map(|row| (row.container.cgroup, paid_ns(row, pressed, interval)))
                .collect();
            let all: f64 = paid.iter().map(|(_, ns)| ns).sum();
            if all <= 0.0 {
                continue;
            }
            for (id, one) in paid {
                if let Some(payer) = self.enforced.get_mut(&id) {
                    payer.returned_ns += (ns.min(all) * one / all) as u64;
                }
            }
        }
        for payer in self.enforced.values_mut() {
            payer.returned_ns += payer.added_quota_ns(interval.length) as u64;
        }
    }

    fn step_one(
        &mut self,
        journal: &mut Journal,
        enforced: &mut Enforced,
        row: Option<&ContainerLedger>,
        pressed: &[u32],
        interval: &Interval,
    ) {
        let now = Instant::now();
        let pressed = &enforced.still_pressed(pressed, now);
        enforced.napi.arrive(journal);
        let napi_ns = enforced.napi_used_ns();
        let unseen_ns = match (&self.interrupts, row) {
            (Some(interrupts), Some(row)) => {
                let columns = (&row.caused_by_cpu_ns[..], &row.charged_by_cpu_ns[..]);
                interrupts.unseen_ns(&interval.cpus, columns, pressed, napi_ns)
            }
            _ => 0.0,
        };
        let used = enforced.measure(row, pressed, interval, (unseen_ns, napi_ns));
        if !enforced.is_alive() {
            self.let_go(journal, enforced);
            return;
        }
        enforced.look_at_quota(now);
        let limit = enforced.limit.cpus();
        let charges_quota = limit.is_some_and(|cpus| enforced.rates.caused() > CAUSES * cpus);
        if !pressed.is_empty() || charges_quota {
            enforced.until = Some(now + self.options.linger);
        }
        let Some(until) = enforced.until else {
            return;
        };
        if now >= until {
            enforced.debt.lapse();
            enforced.limit.debt.lapse();
            self.let_go(journal, enforced);
            return;
        }
        self.keep_accounts(enforced, &used, pressed, interval);
        self.stop(enforced, row, interval);
        self.correct_weight(journal, enforced);
        self.correct_quota(journal, enforced);
        if self.may(Means::NapiThread) {
            let container = enforced.container.clone();
            enforced.unstoppable =
                self.options.napi_in_container && limit.is_some() && !self.stops_threads();
            if enforced.unstoppable || enforced.napi.is_stale(&container) {
                self.leaving
                    .add(container.cgroup, enforced.napi.leave(journal));
            }
            if !enforced.unstoppable && !self.leaving.of(container.cgroup) {
                enforced.napi.engage(
                    journal,
                    &container,
                    &enforced.place,
                    self.options.napi_in_container,
                );
            }
        }
    }
}

/// What a container paid for others on these CPUs, nanoseconds.
fn paid_ns(row: &ContainerLedger, cpus: &[u32], interval: &Interval) -> f64 {
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let columns = interval.cpus.iter().zip(columns);
    let paid = columns
        .filter(|((cpu, _), _)| cpus.contains(&cpu.0))
        .map(|(_, (caused, charged))| charged.saturating_sub(*caused));
    paid.sum::<u64>() as f64
}

/// CPUs on which the container of `row` causes work and others pay.
fn pressed_cpus(
    row: &ContainerLedger,
    charged_by_cpu: &[u64],
    interval: &Interval,
    length_ns: f64,
) -> Vec<u32> {
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let cpus = interval.cpus.iter().zip(columns).zip(charged_by_cpu);
    cpus.filter(|((_, (caused, own)), all)| {
        let others = all.saturating_sub(**own) as f64;
        others > PAID * length_ns && **caused as f64 > CAUSES * length_ns
    })
    .map(|(((cpu, _), _), _)| cpu.0)
    .collect()
}
