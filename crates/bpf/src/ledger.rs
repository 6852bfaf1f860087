//! The ledger's memory, mapped: reading a row costs a few cache lines and no system call.

use crate::mapped::{MappedArray, Plain};
use crate::skeleton::types::cf_row;
use std::io;
use std::os::fd::BorrowedFd;

/// Counts of one row on one CPU, cumulative since load: nanoseconds, packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "field names are those of struct cf_row, explained there"
)]
pub struct RowReading {
    pub rx_ns: u64,
    pub tx_ns: u64,
    pub hardirq_ns: u64,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub charged_network_ns: u64,
    pub charged_other_ns: u64,
    pub interruptions: u64,
}

// SAFETY: generated from a C struct of 64-bit integers.
unsafe impl Plain for cf_row {}

/// Reads the rows of every CPU.
pub struct LedgerReader {
    /// Rows of the first CPU, then of the next ones.
    rows: MappedArray<cf_row>,
    rows_per_cpu: u32,
}

impl LedgerReader {
    /// Maps the ledger of `fd` for reading.
    pub(crate) fn map(fd: BorrowedFd<'_>, rows_per_cpu: u32, cpus: u32) -> io::Result<Self> {
        Ok(LedgerReader {
            rows: MappedArray::map(fd, rows_per_cpu * cpus)?,
            rows_per_cpu,
        })
    }

    /// Reads the counts of row `row` on CPU `cpu`; zero if out of range.
    pub fn read(&self, cpu: u32, row: u32) -> RowReading {
        if row >= self.rows_per_cpu {
            return RowReading::default();
        }
        let index = cpu as usize * self.rows_per_cpu as usize + row as usize;
        let row = self.rows.read(index);
        row.map_or_else(RowReading::default, |row| RowReading::of(&row))
    }
}

impl RowReading {
    /// Joins two readings field by field.
    fn join_with(&self, other: &RowReading, join: impl Fn(u64, u64) -> u64) -> RowReading {
        RowReading {
            rx_ns: join(self.rx_ns, other.rx_ns),
            tx_ns: join(self.tx_ns, other.tx_ns),
            hardirq_ns: join(self.hardirq_ns, other.hardirq_ns),
            rx_packets: join(self.rx_packets, other.rx_packets),
            rx_bytes: join(self.rx_bytes, other.rx_bytes),
            tx_packets: join(self.tx_packets, other.tx_packets),
            tx_bytes: join(self.tx_bytes, other.tx_bytes),
            charged_network_ns: join(self.charged_network_ns, other.charged_network_ns),
            charged_other_ns: join(self.charged_other_ns, other.charged_other_ns),
            interruptions: join(self.interruptions, other.interruptions),
        }
    }

    /// Returns the counts since `earlier`; a count that fell reads as 0.
    #[must_use]
    pub fn minus(&self, earlier: &RowReading) -> RowReading {
        self.join_with(earlier, u64::saturating_sub)
    }

    /// Returns the sum with `scale` times the counts of `more`.
    #[must_use]
    pub fn plus(&self, more: &RowReading, scale: f64) -> RowReading {
        self.join_with(more, |now, more| now + (more as f64 * scale).round() as u64)
    }

    /// Makes a reading from a row as the programs write it.
    pub fn of(row: &cf_row) -> RowReading {
        RowReading {
            rx_ns: row.rx_ns,
            tx_ns: row.tx_ns,
            hardirq_ns: row.hardirq_ns,
            rx_packets: row.rx_packets,
            rx_bytes: row.rx_bytes,
            tx_packets: row.tx_packets,
            tx_bytes: row.tx_bytes,
            charged_network_ns: row.charged_network_ns,
            charged_other_ns: row.charged_other_ns,
            interruptions: row.interruptions,
        }
    }
}
