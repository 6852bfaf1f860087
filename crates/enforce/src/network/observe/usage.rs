//! CPU time that the scheduler billed a container, read from its cgroup. The file is open only
//! while each step reads it: most containers of a host do nothing that others are charged for.

use crate::network::place::{BilledTime, Place, UsageFile};
use crate::network::policy::BilledInterval;
use crate::tuning::network::USAGE_FILES;
use std::time::{Duration, Instant};

/// Reader of a container's CPU time: its file and its last reading.
#[derive(Debug, Default)]
pub(super) struct UsageReader {
    last: Option<UsageReading>,
    /// Open from one step to the next.
    file: Option<UsageFile>,
    /// Whether it was read in this step.
    was_read: bool,
}

#[derive(Debug)]
struct UsageReading {
    at: Instant,
    billed: BilledTime,
}

impl UsageReader {
    /// CPU time billed in an interval of `length` that ends now. At the first reading, or if the
    /// file cannot be read, it is zero. After a failure the next reading covers the time since the
    /// last successful one. If that is longer than twice `length`, the time is assumed to be spread
    /// evenly.
    pub fn update(&mut self, place: &Place, length: Duration) -> BilledInterval {
        self.was_read = true;
        let read = self.file.as_ref().and_then(UsageFile::read);
        let read = read.or_else(|| {
            self.file = place.open_usage();
            self.file.as_ref()?.read()
        });
        let Some(billed) = read else {
            return BilledInterval::default();
        };
        let now = UsageReading {
            at: Instant::now(),
            billed,
        };
        let billed = self.last.as_ref().map(|last| now.since(last, length));
        self.last = Some(now);
        billed.unwrap_or_default()
    }

    /// Ends a step in which `open` other files stay open. Closes this file if it was not read, or
    /// if too many are open.
    pub fn limit_open_files(&mut self, open: &mut usize) {
        let was_read = std::mem::take(&mut self.was_read);
        match was_read && *open < USAGE_FILES {
            true => *open += 1,
            false => self.file = None,
        }
    }
}

impl UsageReading {
    fn since(&self, earlier: &UsageReading, length: Duration) -> BilledInterval {
        let between = self.at.duration_since(earlier.at);
        // Two readings are never exactly one interval apart: only a pause is spread.
        let part = match between > length * 2 {
            true => length.as_secs_f64() / between.as_secs_f64(),
            false => 1.0,
        };
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64 * part;
        let (now, before) = (&self.billed, &earlier.billed);
        let by_cpu = now.by_cpu_ns.iter().zip(&before.by_cpu_ns);
        BilledInterval {
            all_ns: since(now.all_ns, before.all_ns),
            by_cpu_ns: by_cpu.map(|(now, before)| since(*now, *before)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::place::Directory;
    use std::path::Path;

    #[test]
    fn only_a_pause_is_spread_evenly() {
        let at = Instant::now();
        let seen = |ms: u64, by_cpu_ns: Vec<u64>| UsageReading {
            at: at + Duration::from_millis(ms),
            billed: BilledTime {
                all_ns: by_cpu_ns.iter().sum(),
                by_cpu_ns,
            },
        };
        let (first, length) = (seen(0, vec![100, 1000]), Duration::from_millis(20));
        let billed = seen(25, vec![300, 1400]).since(&first, length);
        assert_eq!(
            (billed.all_ns, billed.by_cpu_ns),
            (600.0, vec![200.0, 400.0])
        );
        let billed = seen(80, vec![1100, 3000]).since(&first, length);
        assert_eq!(
            (billed.all_ns, billed.by_cpu_ns),
            (750.0, vec![250.0, 500.0])
        );
    }

    fn place(mount: &Path) -> Place {
        Place {
            directories: vec![Directory {
                mount: mount.to_owned(),
                path: "/".into(),
            }],
            cpu: None,
            cpuset: None,
            is_pods: false,
        }
    }

    /// A lifetime of an hour, of which the container used 5 µs between two readings.
    #[test]
    fn a_failed_read_does_not_bill_the_past() {
        let mount = tempfile::tempdir().unwrap();
        let (file, place) = (mount.path().join("cpu.stat"), place(mount.path()));
        // Two readings of this test are never further apart than two such intervals.
        let length = Duration::from_secs(600);
        let mut usage = UsageReader::default();
        let mut billed_ns = |text: &str| {
            std::fs::write(&file, text).unwrap();
            usage.update(&place, length).all_ns
        };
        assert_eq!(billed_ns(""), 0.0);
        assert_eq!(billed_ns("usage_usec 3600000000\n"), 0.0);
        assert_eq!(billed_ns(""), 0.0);
        assert_eq!(billed_ns("usage_usec 3600000005\n"), 5_000.0);
    }

    #[test]
    fn a_file_stays_open_while_it_is_read() {
        let mount = tempfile::tempdir().unwrap();
        std::fs::write(mount.path().join("cpu.stat"), "usage_usec 7\n").unwrap();
        let place = place(mount.path());
        let (mut usage, mut open) = (UsageReader::default(), 0);
        usage.update(&place, Duration::ZERO);
        usage.limit_open_files(&mut open);
        assert!(usage.file.is_some() && open == 1);
        usage.limit_open_files(&mut open);
        assert!(usage.file.is_none() && open == 1, "not read in this step");
        open = USAGE_FILES;
        usage.update(&place, Duration::ZERO);
        usage.limit_open_files(&mut open);
        assert!(usage.file.is_none() && open == USAGE_FILES);
    }
}
