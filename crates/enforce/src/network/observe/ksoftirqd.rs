//! Time of other tasks that the scheduler bills to `ksoftirqd`. A task in a system call whose
//! softirqs are handled wakes the thread, and continues until it leaves the kernel. The scheduler
//! bills the task until the wake-up, and the thread for the rest. With many flows through a route
//! that is a large part of the receiver's own work.

use cofferdam_types::Interval;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Threads by CPU.
#[derive(Debug, Default)]
pub(super) struct Ksoftirqd {
    threads: HashMap<u32, Thread>,
}

#[derive(Debug)]
struct Thread {
    schedstat: File,
    billed_ns: Option<u64>,
}

impl Ksoftirqd {
    /// Finds the threads. Finds none if the host's processes are not visible.
    pub fn find() -> Ksoftirqd {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let threads = processes.filter_map(|entry| {
            let folder = entry.path();
            // Other entries are no processes.
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            let comm = fs::read_to_string(folder.join("comm")).ok()?;
            let schedstat = File::open(folder.join("schedstat")).ok();
            let thread = schedstat.map(|schedstat| Thread {
                schedstat,
                billed_ns: None,
            });
            Some((cpu_of(&comm)?, thread?))
        });
        Ksoftirqd {
            threads: threads.collect(),
        }
    }

    /// Discards the earlier readings, which are too old.
    pub fn forget(&mut self) {
        let threads = self.threads.values_mut();
        threads.for_each(|thread| thread.billed_ns = None);
    }

    /// Time billed to each CPU's thread since the last reading, beyond the unattributed softirqs of
    /// `interval`, which ends now, nanoseconds. A CPU without such softirqs is not read, because
    /// its thread did not run: few CPUs of a large host are busy.
    pub fn update(&mut self, interval: &Interval) -> BTreeMap<u32, f64> {
        let cpus = interval.cpus.iter();
        let late = cpus.filter_map(|(cpu, time)| {
            let thread = self.threads.get_mut(&cpu.0)?;
            if time.charged_nobody_ns == 0 {
                thread.billed_ns = None;
                return None;
            }
            let billed_ns = thread.update()?;
            let late = billed_ns.saturating_sub(time.charged_nobody_ns);
            Some((cpu.0, late as f64))
        });
        late.collect()
    }
}

impl Thread {
    fn update(&mut self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.schedstat.read_at(&mut text, 0).ok()?;
        let now = billed_ns(std::str::from_utf8(text.get(..length)?).ok()?)?;
        let before = self.billed_ns.replace(now)?;
        Some(now.saturating_sub(before))
    }
}

/// CPU of the thread with this name; `None` for any other thread.
fn cpu_of(comm: &str) -> Option<u32> {
    comm.trim_end().strip_prefix("ksoftirqd/")?.parse().ok()
}

/// Time on a CPU, from the text of a `schedstat`.
fn billed_ns(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::policy::simulation::interval;
    use cofferdam_types::CpuTime;

    #[test]
    fn names_and_times_are_read() {
        assert_eq!(cpu_of("ksoftirqd/17\n"), Some(17));
        for other in ["ksoftirqd/\n", "ksoftirqd/x", "migration/0", ""] {
            assert_eq!(cpu_of(other), None, "{other}");
        }
        assert_eq!(billed_ns("1525 7 3\n"), Some(1525));
        assert_eq!(billed_ns(""), None);
    }

    /// 5 of 9 ms were softirqs: the other 4 ms belong to the task before. Softirqs of an idle
    /// CPU are unattributed as well.
    /// Promise 30.
    #[test]
    fn time_beyond_softirqs_belongs_to_the_task_before() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let thread = Thread {
            schedstat: File::open(file.path()).unwrap(),
            billed_ns: None,
        };
        let mut threads = Ksoftirqd {
            threads: [(0, thread)].into(),
        };
        let mut update = |billed_ns: u64, nobody_ns: u64| {
            fs::write(file.path(), format!("{billed_ns} 7 3\n")).unwrap();
            let time = CpuTime {
                charged_nobody_ns: nobody_ns,
                ..CpuTime::default()
            };
            threads.update(&interval(&[time], &[])).get(&0).copied()
        };
        assert_eq!(update(1_000_000, 1), None, "the first reading");
        assert_eq!(update(10_000_000, 5_000_000), Some(4e6));
        assert_eq!(update(10_000_000, 5_000_000), Some(0.0));
        assert_eq!(update(20_000_000, 0), None, "no softirq of the thread");
        assert_eq!(
            update(30_000_000, 5_000_000),
            None,
            "the first one after it"
        );
        assert_eq!(update(36_000_000, 5_000_000), Some(1e6));
    }

    /// One thread per CPU, where kernel threads are visible.
    #[test]
    fn the_threads_of_this_host_are_found() {
        let comm = fs::read_to_string("/proc/2/comm").unwrap_or_default();
        let online = cofferdam_host::online_cpus(&cofferdam_host::HostFs::host()).unwrap();
        let least = if comm == "kthreadd\n" {
            online.len()
        } else {
            0
        };
        let found = Ksoftirqd::find();
        assert!(found.threads.len() >= least, "{found:?}");
    }
}
