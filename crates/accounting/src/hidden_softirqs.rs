//! Checks whether the kernel reports every softirq. It counts them in `/proc/softirqs`. A softirq
//! that is counted there but hidden from the markers is time that no ledger has.

use crate::error::StartError;
use cofferdam_bpf::ReferenceClock;
use std::fs;

const SOFTIRQS: &str = "/proc/softirqs";

/// Difference of the two counts, since the programs were attached.
pub(crate) struct HiddenSoftirqs {
    /// Hidden softirqs of former exact periods.
    counted: u64,
    /// Both counts at the begin of this exact period; `None` while only windows are measured.
    base: Option<(u64, u64)>,
}

impl HiddenSoftirqs {
    /// Starts counting; the programs have seen `ours` softirqs so far.
    pub(crate) fn new(ours: u64) -> HiddenSoftirqs {
        HiddenSoftirqs {
            counted: 0,
            base: Some((kernel_count(), ours)),
        }
    }

    /// Pauses: from now on the programs are not meant to see every softirq.
    pub(crate) fn pause(&mut self, ours: u64) {
        self.counted = self.count(ours);
        self.base = None;
    }

    /// Resumes: from now on the programs must see every softirq again.
    pub(crate) fn resume(&mut self, ours: u64) {
        self.base = Some((kernel_count(), ours));
    }

    /// Returns the number of hidden softirqs since the start. The two counts are not read at the
    /// same instant, so up to one softirq per CPU is in flight between them.
    pub(crate) fn count(&self, ours: u64) -> u64 {
        let Some((kernel_base, ours_base)) = self.base else {
            return self.counted;
        };
        let kernel = kernel_count().saturating_sub(kernel_base);
        self.counted + kernel.saturating_sub(ours.saturating_sub(ours_base))
    }
}

/// Returns a count of the softirqs that the kernel hides from its tracepoints from now on, by the
/// independent clock. For tests of programs on tracepoints.
///
/// # Errors
/// When the clock does not load or cannot be read.
pub fn hidden_softirqs_by_reference() -> Result<impl FnMut() -> u64, StartError> {
    let clock = ReferenceClock::start()?;
    let softirqs = clock.softirqs();
    let hidden = HiddenSoftirqs::new(softirqs.map_err(|e| StartError::Failed(e.to_string()))?);
    // If the clock cannot be read, no softirq counts as hidden.
    Ok(move || clock.softirqs().map_or(0, |ours| hidden.count(ours)))
}

fn kernel_count() -> u64 {
    fs::read_to_string(SOFTIRQS).map_or(0, |text| sum(&text))
}

/// Sums up all vectors of all CPUs. The counts are 32 bits wide in the kernel, and in the file.
fn sum(text: &str) -> u64 {
    let rows = text.lines().skip(1);
    rows.flat_map(|row| row.split_whitespace().skip(1))
        .filter_map(|n| n.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 1.
    #[test]
    fn sums_every_vector_of_every_cpu() {
        let text = "                    CPU0       CPU1       \n\
                    \x20         HI:          1          2\n\
                    \x20      TIMER:     4         8\n";
        assert_eq!(sum(text), 15);
        assert_eq!(sum(""), 0);
    }

    /// Promise 1.
    #[test]
    fn counts_from_its_start() {
        let mut hidden = HiddenSoftirqs {
            counted: 3,
            base: Some((kernel_count() + 1_000_000_000, 10)),
        };
        assert_eq!(hidden.count(5), 3, "never negative");
        hidden.pause(5);
        assert_eq!(hidden.count(5), 3, "none is hidden while windows are taken");
    }
}
