//! Makes ledgers from rows of counters.

use crate::ReadError;
use crate::identities::Slot;
use cofferdam_bpf::{Counts, CpuReading, PairReading, RowReading, reason_row};
use cofferdam_types::{
    CgroupId, ContainerLedger, CpuId, CpuTime, Health, Ledger, Reason, Snapshot,
};
use std::collections::{BTreeMap, HashMap};
use std::time::{Instant, SystemTime};

/// All CPUs and all rows, read in one pass, so that printed figures add up.
#[derive(Clone, Default)]
pub(crate) struct Reading {
    cpus: Vec<OneCpu>,
}

/// Totals of a CPU together with its rows.
#[derive(Clone, Default)]
struct OneCpu {
    reading: CpuReading,
    rows: Vec<RowReading>,
}

impl OneCpu {
    fn row(&self, row: usize) -> RowReading {
        self.rows.get(row).copied().unwrap_or_default()
    }
}

impl Reading {
    /// Reads the rows below `rows`.
    pub(crate) fn take(programs: &impl Counts, rows: u32) -> Result<Reading, ReadError> {
        let cpus = (0..programs.cpus()).map(|cpu| read_cpu(programs, cpu, rows));
        Ok(Reading {
            cpus: cpus.collect::<Result<_, _>>()?,
        })
    }

    /// Returns each CPU's counts in row `row`: the base of a container that begins now.
    pub(crate) fn row(&self, row: u32) -> Vec<RowReading> {
        let of_cpu = |cpu: &OneCpu| cpu.row(row as usize);
        self.cpus.iter().map(of_cpu).collect()
    }

    /// Returns the counts since `earlier`.
    pub(crate) fn since(&self, earlier: &Reading) -> Reading {
        let none = OneCpu::default();
        let cpus = self.cpus.iter().enumerate().map(|(i, now)| {
            let old = earlier.cpus.get(i).unwrap_or(&none);
            let rows = now.rows.iter().enumerate();
            OneCpu {
                reading: CpuReading {
                    time: now.reading.time - old.reading.time,
                    ..now.reading
                },
                rows: rows.map(|(row, now)| now.minus(&old.row(row))).collect(),
            }
        });
        Reading {
            cpus: cpus.collect(),
        }
    }

    /// Adds `scale` times the times and rows of `more`; takes its other values.
    pub(crate) fn add(&mut self, more: &Reading, scale: f64) {
        self.cpus.resize_with(more.cpus.len(), OneCpu::default);
        for (cpu, more) in self.cpus.iter_mut().zip(&more.cpus) {
            cpu.reading = CpuReading {
                time: cpu.reading.time.plus(more.reading.time, scale),
                ..more.reading
            };
            let rows = cpu.rows.len().max(more.rows.len());
            cpu.rows.resize(rows, RowReading::default());
            for (row, more) in cpu.rows.iter_mut().zip(&more.rows) {
                *row = row.plus(more, scale);
            }
        }
    }

    /// Replaces row `row` on each CPU by `rows`; returns the growth of the caused time.
    pub(crate) fn replace_row(&mut self, row: u32, rows: &[RowReading]) -> Vec<u64> {
        let at = row as usize;
        let cpus = self.cpus.iter_mut().zip(rows);
        cpus.map(|(cpu, new)| {
            let old = cpu.row(at);
            cpu.rows
                .resize(cpu.rows.len().max(at + 1), RowReading::default());
            cpu.rows[at] = *new;
            ledger_of(&new.minus(&old)).caused_ns()
        })
        .collect()
    }

    /// Returns the time that row `row` causes on each CPU, nanoseconds.
    pub(crate) fn caused_of(&self, row: u32) -> Vec<u64> {
        let rows = self.row(row);
        rows.iter().map(|row| ledger_of(row).caused_ns()).collect()
    }

    /// Adds time on each CPU to row `row`.
    pub(crate) fn add_to_row(&mut self, row: u32, ns: &[u64]) {
        for (cpu, ns) in self.cpus.iter_mut().zip(ns) {
            if let Some(row) = cpu.rows.get_mut(row as usize) {
                row.rx_ns += ns;
            }
        }
    }

    /// Returns the caused and the charged network CPU of each row on all CPUs, nanoseconds.
    pub(crate) fn sums(&self) -> Vec<(u64, u64)> {
        let rows = self.cpus.iter().map(|cpu| cpu.rows.len()).max();
        let mut sums = vec![(0, 0); rows.unwrap_or(0)];
        for cpu in &self.cpus {
            for (sum, row) in sums.iter_mut().zip(&cpu.rows) {
                sum.0 += ledger_of(row).caused_ns();
                sum.1 += row.charged_network_ns;
            }
        }
        sums
    }

    /// Iterates over the totals of each CPU, in CPU order.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = &CpuReading> {
        self.cpus.iter().map(|cpu| &cpu.reading)
    }

    /// Returns a container's counts since it got its row. With `returned` the scheduler itself
    /// deducts interrupt time from the interrupted task (IRQ_TIME_ACCOUNTING). No container is
    /// charged then: its CPU use lacks the interrupts in its slices.
    pub(crate) fn slot(&self, slot: &Slot, returned: bool) -> ContainerLedger {
        let mut counted = self.counts_of(slot, &slot.base, returned);
        counted.ledger.cpu_usage_ns = slot
            .cpu_usage_last_ns
            .saturating_sub(slot.cpu_usage_base_ns);
        counted
    }

    /// Returns all counts of a container in a reading that is a difference, without its CPU use.
    pub(crate) fn difference(&self, slot: &Slot, returned: bool) -> ContainerLedger {
        let nothing = vec![RowReading::default(); self.cpus.len()];
        self.counts_of(slot, &nothing, returned)
    }

    fn counts_of(&self, slot: &Slot, base: &[RowReading], returned: bool) -> ContainerLedger {
        let mut ledger = Ledger::default();
        let mut caused_by_cpu_ns = Vec::new();
        let mut charged_by_cpu_ns = Vec::new();
        let mut interruptions_by_cpu = Vec::new();
        for (cpu, base) in self.cpus.iter().zip(base) {
            let row = cpu.row(slot.row as usize);
            let mut on_cpu = ledger_of(&row) - ledger_of(base);
            let mut interruptions = row.interruptions.saturating_sub(base.interruptions);
            if returned {
                (on_cpu.charged_network_ns, on_cpu.charged_other_ns) = (0, 0);
                interruptions = 0;
            }
            caused_by_cpu_ns.push(on_cpu.caused_ns());
            charged_by_cpu_ns.push(on_cpu.charged_network_ns);
            interruptions_by_cpu.push(interruptions);
            ledger += on_cpu;
        }
        let container = slot.container.clone();
        ContainerLedger {
            container,
            ledger,
            caused_by_cpu_ns,
            charged_by_cpu_ns,
            interruptions_by_cpu,
            received_from: BTreeMap::new(),
        }
    }

    /// Returns the whole ledger of this moment.
    pub(crate) fn snapshot(
        &self,
        started: Instant,
        containers: Vec<ContainerLedger>,
        health: Health,
    ) -> Snapshot {
        Snapshot {
            time: SystemTime::now(),
            uptime: started.elapsed(),
            cpus: self.times(),
            containers,
            unattributed_ns: self.reasons(),
            health,
            sampling: None,
        }
    }

    /// Returns the time of each CPU, by its number.
    pub(crate) fn times(&self) -> Vec<(CpuId, CpuTime)> {
        let times = self.cpus().map(|cpu| cpu.time);
        (0..).map(CpuId).zip(times).collect()
    }

    /// Returns the time that belongs to no container, by reason, on all CPUs.
    pub(crate) fn reasons(&self) -> BTreeMap<Reason, u64> {
        Reason::ALL
            .into_iter()
            .map(|reason| (reason, self.reason_ns(reason)))
            .collect()
    }

    /// Returns the time of one reason on all CPUs.
    pub(crate) fn reason_ns(&self, reason: Reason) -> u64 {
        let row = reason_row(reason) as usize;
        let rows = self.cpus.iter().filter_map(|cpu| cpu.rows.get(row));
        rows.map(|row| ledger_of(row).caused_ns()).sum()
    }
}

/// Sets the senders of each of `containers`; `cgroup_of_row` has the containers with a row.
pub(crate) fn note_senders(
    pairs: Vec<PairReading>,
    cgroup_of_row: &HashMap<u32, CgroupId>,
    containers: &mut [ContainerLedger],
) {
    let mut senders: HashMap<CgroupId, BTreeMap<CgroupId, u64>> = HashMap::new();
    for pair in pairs {
        let cgroup = |row: u32| cgroup_of_row.get(&row).copied();
        if let (Some(sender), Some(receiver)) = (cgroup(pair.sender), cgroup(pair.receiver)) {
            let from = senders.entry(receiver).or_default();
            from.insert(sender, pair.packets);
        }
    }
    for entry in containers {
        entry.received_from = senders.remove(&entry.container.cgroup).unwrap_or_default();
    }
}

/// Reads the packets by sending and receiving row.
pub(crate) fn read_pairs(programs: &impl Counts) -> Result<Vec<PairReading>, ReadError> {
    programs.pairs().map_err(|e| ReadError(e.to_string()))
}

fn ledger_of(row: &RowReading) -> Ledger {
    Ledger {
        caused_rx_ns: row.rx_ns,
        caused_tx_ns: row.tx_ns,
        caused_hardirq_ns: row.hardirq_ns,
        rx_packets: row.rx_packets,
        rx_bytes: row.rx_bytes,
        tx_packets: row.tx_packets,
        tx_bytes: row.tx_bytes,
        charged_network_ns: row.charged_network_ns,
        charged_other_ns: row.charged_other_ns,
        cpu_usage_ns: 0,
    }
}

/// Most readings of one CPU in search of one that was not disturbed.
const TRIES: u32 = 8;
/// Time that a CPU may attribute while its rows are read, nanoseconds. A thousandth of its measured
/// time is allowed as well.
const UNDISTURBED_NS: u64 = 10_000;

/// Reads the totals of a CPU and its rows below `rows`, including rows without an owner. The two
/// are read one after the other. If the CPU attributed more in between, or the reader was delayed,
/// it reads again and takes the best try. `attributed_ns` then exceeds the measured time, at most
/// by the time that was attributed in between.
fn read_cpu(programs: &impl Counts, cpu: u32, rows: u32) -> Result<OneCpu, ReadError> {
    let read = || {
        programs
            .cpu_reading(cpu)
            .map_err(|e| ReadError(e.to_string()))
    };
    let mut before = read()?;
    let mut best: Option<(u64, OneCpu)> = None;
    for _ in 0..TRIES {
        let mut reading = before;
        let rows: Vec<_> = (0..rows).map(|row| programs.row(cpu, row)).collect();
        // Time that waits for its packets has been measured and is in no row yet.
        reading.time.attributed_ns = before.waiting_ns;
        for ledger in rows.iter().map(ledger_of) {
            reading.time.attributed_ns += ledger.caused_ns();
            // Includes cgroups of the host, and containers without a row of their own.
            reading.time.charged_ns += ledger.charged_network_ns + ledger.charged_other_ns;
        }
        let after = read()?;
        let drift_ns = given_ns(&after).abs_diff(given_ns(&before));
        let disturbed = drift_ns > UNDISTURBED_NS.max(given_ns(&before) / 1000);
        if best.as_ref().is_none_or(|(least, _)| drift_ns < *least) {
            best = Some((drift_ns, OneCpu { reading, rows }));
        }
        if !disturbed {
            break;
        }
        before = after;
    }
    let none = || OneCpu {
        reading: before,
        rows: Vec::new(),
    };
    Ok(best.map_or_else(none, |(_, cpu)| cpu))
}

/// Returns the time that the rows must add up to.
fn given_ns(reading: &CpuReading) -> u64 {
    reading
        .time
        .measured_ns()
        .saturating_sub(reading.waiting_ns)
}

#[cfg(test)]
mod tests;
