//! Rings of reports, mapped. Reading costs no system call and delays no program. The kernel
//! overwrites reports that were not read in time, and the reader counts them.

use crate::latency::report::{Report, decode_report};
use crate::mapped::{MappedArray, Plain};
use crate::skeleton::latency_types::lt_report;
use std::io;
use std::mem::size_of;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{Ordering, fence};

const RECORD_BYTES: usize = size_of::<lt_report>();

/// Counts of one reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportCounts {
    /// Reports that were passed on.
    pub reports: u64,
    /// Reports that were overwritten before they were read.
    pub lost: u64,
    /// Reports that contradict themselves: two packets shared an entry for a moment.
    pub rejected: u64,
}

// SAFETY: generated from a C struct of integers, with padding spelt out.
unsafe impl Plain for lt_report {}

/// Reader with its own position in each CPU's ring.
pub struct ReportRing {
    /// Records of all rings, one ring after the other.
    records: MappedArray<lt_report>,
    per_cpu: u64,
    /// Next position to read, per CPU.
    next: Vec<u64>,
}

impl ReportRing {
    pub(super) fn map(fd: BorrowedFd<'_>, per_cpu: u32, cpus: u32) -> io::Result<ReportRing> {
        let mut ring = ReportRing {
            records: MappedArray::map(fd, per_cpu * cpus)?,
            per_cpu: per_cpu.into(),
            next: vec![0; cpus as usize],
        };
        ring.skip_to_end();
        Ok(ring)
    }

    /// Skips everything written so far.
    fn skip_to_end(&mut self) {
        for cpu in 0..self.next.len() {
            let newest = (0..self.per_cpu).map(|i| self.published(cpu, i)).max();
            self.next[cpu] = newest.unwrap_or(0);
        }
    }

    fn record(&self, cpu: usize, position: u64) -> *const lt_report {
        let index = cpu * self.per_cpu as usize + (position % self.per_cpu) as usize;
        let record = self.records.at(index);
        record.expect("`cpu` is below the number of rings, the rest modulo their length")
    }

    fn published(&self, cpu: usize, position: u64) -> u64 {
        let at = self.record(cpu, position);
        // SAFETY: a field of a record inside the mapping (see `MappedArray::at`); the kernel writes
        // it at the same time, hence volatile.
        unsafe { (&raw const (*at).published).read_volatile() }
    }

    /// Copies the record at a position, if it is complete and not overwritten.
    fn copy(&self, cpu: usize, position: u64) -> Option<[u8; RECORD_BYTES]> {
        if self.published(cpu, position) != position + 1 {
            return None;
        }
        fence(Ordering::Acquire);
        let at = self.record(cpu, position).cast::<[u8; RECORD_BYTES]>();
        // SAFETY: inside the mapping (see `MappedArray::at`); bytes have no alignment. The check
        // below detects a concurrent write, and the copy is discarded.
        let copy = unsafe { at.read_volatile() };
        fence(Ordering::Acquire);
        (self.published(cpu, position) == position + 1).then_some(copy)
    }

    /// Passes every pending report to `sink`, CPU by CPU, in the order of each CPU.
    pub fn take(&mut self, mut sink: impl FnMut(Report)) -> ReportCounts {
        let mut counts = ReportCounts::default();
        for cpu in 0..self.next.len() {
            // At most one lap: a flood must not keep the reader here for ever.
            for _ in 0..self.per_cpu {
                let position = self.next[cpu];
                match self.copy(cpu, position) {
                    Some(record) => {
                        self.next[cpu] = position + 1;
                        match decode_report(&record) {
                            Some(report) => {
                                counts.reports += 1;
                                sink(report);
                            }
                            None => counts.rejected += 1,
                        }
                    }
                    None => {
                        let there = self.published(cpu, position);
                        if there <= position + 1 {
                            // Not written yet, or being written right now.
                            break;
                        }
                        // The writer has lapped the reader: resume half a ring ahead of the
                        // writer's tail.
                        let resume = there.saturating_sub(self.per_cpu / 2);
                        counts.lost += resume.saturating_sub(position).max(1);
                        self.next[cpu] = resume.max(position + 1);
                    }
                }
            }
        }
        counts
    }
}
