//! CPU time that the hypervisor gave to other virtual machines, from `/proc/stat`.

use crate::ticks::TickParts;
use crate::tuning::reservation::COMPARE_EVERY;
use cofferdam_host::HostFs;
use cofferdam_types::CpuId;
use std::collections::BTreeMap;
use std::time::Instant;

/// Column of the stolen ticks.
const STEAL: &[usize] = &[7];

/// Stolen part of each CPU's time between the last two readings.
#[derive(Debug)]
pub(super) struct StolenTime {
    updated_at: Option<Instant>,
    ticks: TickParts,
    parts: BTreeMap<u32, f64>,
}

impl Default for StolenTime {
    fn default() -> StolenTime {
        StolenTime {
            updated_at: None,
            ticks: TickParts::new(STEAL),
            parts: BTreeMap::new(),
        }
    }
}

impl StolenTime {
    /// Reads the counters, at most once a second: they count ticks of 10 ms, and the file lists
    /// every interrupt of the host.
    pub fn update(&mut self, fs: &HostFs, now: Instant) {
        let passed = self.updated_at.map(|at| now.saturating_duration_since(at));
        if passed.is_some_and(|passed| passed < COMPARE_EVERY) {
            return;
        }
        let Ok(text) = fs.read_text("/proc/stat") else {
            self.parts.clear();
            return;
        };
        self.updated_at = Some(now);
        self.parts = self.ticks.update(&text, passed.unwrap_or_default());
    }

    /// Stolen part of the time of `cpus`, thousandths.
    pub fn milli<'a>(&self, cpus: impl IntoIterator<Item = &'a CpuId>) -> u32 {
        let parts = cpus
            .into_iter()
            .map(|cpu| self.parts.get(&cpu.0).copied().unwrap_or(0.0));
        let (count, sum) = parts.fold((0_u32, 0.0), |(n, sum), part| (n + 1, sum + part));
        (sum / f64::from(count.max(1)) * 1000.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Promise 37.
    #[test]
    fn the_stolen_part_covers_the_time_since_the_last_reading() {
        let root = tempfile::tempdir().unwrap();
        let fs = HostFs::below(root.path());
        let write = |first: u64, second: u64| {
            std::fs::create_dir_all(root.path().join("proc")).unwrap();
            let text = format!(
                "cpu  1 1 1 1 1 0 0 9\ncpu0 1 1 1 1 1 0 0 {first} 0 0\n\
                 cpu1 1 1 1 1 1 0 0 {second}\ncpu2 1 1\n"
            );
            std::fs::write(root.path().join("proc/stat"), text).unwrap();
        };
        let start = Instant::now();
        let mut stolen = StolenTime::default();
        write(500, 70);
        stolen.update(&fs, start);
        assert_eq!(
            stolen.milli(&[CpuId(0), CpuId(1)]),
            0,
            "nothing is known yet"
        );
        write(540, 70);
        stolen.update(&fs, start + Duration::from_millis(500));
        assert_eq!(stolen.milli(&[CpuId(0)]), 0, "too soon");
        stolen.update(&fs, start + 2 * COMPARE_EVERY);
        assert_eq!(stolen.milli(&[CpuId(0)]), 200);
        assert_eq!(stolen.milli(&[CpuId(0), CpuId(1)]), 100);
        assert_eq!(stolen.milli(&[CpuId(2), CpuId(9)]), 0, "not counted here");
        assert_eq!(stolen.milli(&[]), 0);
        // A CPU that comes online again counts from the start; another clock may leap.
        write(3, 1_000_000);
        stolen.update(&fs, start + 4 * COMPARE_EVERY);
        assert_eq!(stolen.milli(&[CpuId(0)]), 0);
        assert_eq!(stolen.milli(&[CpuId(1)]), 1000);
        std::fs::remove_file(root.path().join("proc/stat")).unwrap();
        stolen.update(&fs, start + 6 * COMPARE_EVERY);
        assert_eq!(stolen.milli(&[CpuId(1)]), 0);
    }
}
