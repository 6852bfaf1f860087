//! From rows of counters to ledgers.

use crate::ReadError;
use crate::identities::Slot;
use cofferdam_bpf::{AccountingPrograms, CpuReading, RowReading};
use cofferdam_types::{ContainerLedger, Ledger, Reason};
use std::collections::BTreeMap;

/// A container's counts since it got its row. With `returned` the scheduler itself takes
/// interrupt time off whom it interrupts (IRQ_TIME_ACCOUNTING): nobody is charged then, and
/// what ran in a container's slices is not in its CPU use.
pub(crate) fn read_slot(
    programs: &AccountingPrograms,
    slot: &Slot,
    returned: bool,
) -> ContainerLedger {
    let mut ledger = Ledger::default();
    let mut caused_by_cpu_ns = Vec::new();
    let mut charged_by_cpu_ns = Vec::new();
    for (cpu, base) in slot.base.iter().enumerate() {
        let mut on_cpu = ledger_of(&programs.ledger().read(cpu as u32, slot.row)) - ledger_of(base);
        if returned {
            (on_cpu.charged_network_ns, on_cpu.charged_other_ns) = (0, 0);
        }
        caused_by_cpu_ns.push(on_cpu.caused_ns());
        charged_by_cpu_ns.push(on_cpu.charged_network_ns);
        ledger += on_cpu;
    }
    ledger.cpu_usage_ns = slot
        .cpu_usage_last_ns
        .saturating_sub(slot.cpu_usage_base_ns);
    let container = slot.container.clone();
    ContainerLedger {
        container,
        ledger,
        caused_by_cpu_ns,
        charged_by_cpu_ns,
    }
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

/// Time that belongs to no container, by reason, all CPUs.
pub(crate) fn read_reasons(programs: &AccountingPrograms) -> BTreeMap<Reason, u64> {
    let mut reasons = BTreeMap::new();
    for (row, reason) in Reason::ALL.into_iter().enumerate() {
        let ns = (0..programs.cpus())
            .map(|cpu| ledger_of(&programs.ledger().read(cpu, row as u32)).caused_ns())
            .sum();
        reasons.insert(reason, ns);
    }
    reasons
}

/// Readings of one CPU that are tried for one that was not disturbed.
const TRIES: u32 = 8;
/// A CPU may measure this much more while its rows are read, nanoseconds.
const UNDISTURBED_NS: u64 = 100_000;

/// What a CPU measured together with what the rows below `rows` say of it, those without an
/// owner by now included. The two are read one after the other; when the reader was held up
/// in between, it reads again and keeps the best try.
pub(crate) fn read_cpu(
    programs: &AccountingPrograms,
    cpu: u32,
    rows: u32,
) -> Result<CpuReading, ReadError> {
    let read = || {
        programs
            .cpu_reading(cpu)
            .map_err(|e| ReadError(e.to_string()))
    };
    let mut best: Option<(u64, CpuReading)> = None;
    let mut before = read()?;
    for _ in 0..TRIES {
        let mut reading = before;
        for row in 0..rows {
            let ledger = ledger_of(&programs.ledger().read(cpu, row));
            reading.time.attributed_ns += ledger.caused_ns();
            // Only containers are ever charged, those without a row of their own included.
            reading.time.charged_ns += ledger.charged_network_ns + ledger.charged_other_ns;
        }
        let after = read()?;
        let drift_ns = after.time.measured_ns() - before.time.measured_ns();
        if best.is_none_or(|(least, _)| drift_ns < least) {
            best = Some((drift_ns, reading));
        }
        if drift_ns <= UNDISTURBED_NS {
            break;
        }
        before = after;
    }
    Ok(best.map_or(before, |(_, reading)| reading))
}
