//! Does the kernel report every softirq? It counts them in `/proc/softirqs`; softirqs counted there
//! but not seen by the markers are time that no ledger has.

use crate::error::StartError;
use cofferdam_bpf::ReferenceClock;
use std::fs;

const SOFTIRQS: &str = "/proc/softirqs";

/// The difference of the two counts, from the moment the programs were attached.
pub(crate) struct Unseen {
    /// Of stretches that are over.
    counted: u64,
    /// Both counts at the beginning of this one; `None` while only windows are measured.
    base: Option<(u64, u64)>,
}

impl Unseen {
    /// `ours`: softirqs that the programs have seen so far.
    pub(crate) fn new(ours: u64) -> Unseen {
        Unseen {
            counted: 0,
            base: Some((kernel_count(), ours)),
        }
    }

    /// From now on not every softirq shall be seen.
    pub(crate) fn pause(&mut self, ours: u64) {
        self.counted = self.count(ours);
        self.base = None;
    }

    /// From now on every one shall be again.
    pub(crate) fn resume(&mut self, ours: u64) {
        self.base = Some((kernel_count(), ours));
    }

    /// Softirqs since the start that were not seen. The two counts are not read at the same
    /// instant, so that up to one softirq a CPU is in flight between them.
    pub(crate) fn count(&self, ours: u64) -> u64 {
        let Some((kernel_base, ours_base)) = self.base else {
            return self.counted;
        };
        let kernel = kernel_count().saturating_sub(kernel_base);
        self.counted + kernel.saturating_sub(ours.saturating_sub(ours_base))
    }
}

/// A count of the softirqs that the kernel kept from its tracepoints, from now on, by the
/// independent clock: for tests of programs on tracepoints.
///
/// # Errors
/// When the clock does not load or cannot be read.
pub fn unseen_by_reference() -> Result<impl FnMut() -> u64, StartError> {
    let clock = ReferenceClock::start()?;
    let softirqs = clock.softirqs();
    let unseen = Unseen::new(softirqs.map_err(|e| StartError::Failed(e.to_string()))?);
    // A clock that cannot be read any more excuses nothing.
    Ok(move || clock.softirqs().map_or(0, |seen| unseen.count(seen)))
}

fn kernel_count() -> u64 {
    fs::read_to_string(SOFTIRQS).map_or(0, |text| sum(&text))
}

/// All vectors of all CPUs. The counts are 32 bits wide in the kernel and printed so.
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
        let text = "                    CPU0       CPU1       \n          HI:          1          2\n       TIMER:     4         8\n";
        assert_eq!(sum(text), 15);
        assert_eq!(sum(""), 0);
    }

    /// Promise 1.
    #[test]
    fn counts_from_its_start() {
        let mut unseen = Unseen {
            counted: 3,
            base: Some((kernel_count() + 1_000_000_000, 10)),
        };
        assert_eq!(unseen.count(5), 3, "never negative");
        unseen.pause(5);
        assert_eq!(
            unseen.count(5),
            3,
            "nothing is missed while windows are taken"
        );
    }
}
