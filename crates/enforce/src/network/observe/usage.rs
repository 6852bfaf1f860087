//! What the scheduler billed a container, read only while it matters: most containers of a host
//! do nothing that others pay for.

use crate::network::place::{Place, usage_ns};
use crate::network::policy::Billed;
use std::time::{Duration, Instant};

/// CPU time of one container at the last look.
#[derive(Debug, Default)]
pub(super) struct Usage {
    last: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    at: Instant,
    /// Nanoseconds on each CPU; empty where the kernel does not tell (pure cgroup v2).
    by_cpu_ns: Vec<u64>,
    all_ns: u64,
}

impl Usage {
    /// What was billed in an interval of `length` that ends now. When the last look was longer ago,
    /// what was billed since then is taken to have come evenly.
    pub fn look(&mut self, place: &Place, length: Duration) -> Billed {
        let by_cpu_ns = place.usage_by_cpu_ns();
        let all_ns = if by_cpu_ns.is_empty() {
            let directory = place.directories.first().map(|d| d.full());
            directory.and_then(|d| usage_ns(&d)).unwrap_or(0)
        } else {
            by_cpu_ns.iter().sum()
        };
        let now = Seen {
            at: Instant::now(),
            by_cpu_ns,
            all_ns,
        };
        let billed = self.last.as_ref().map(|last| now.since(last, length));
        self.last = Some(now);
        billed.unwrap_or_default()
    }
}

impl Seen {
    fn since(&self, earlier: &Seen, length: Duration) -> Billed {
        let between = self.at.duration_since(earlier.at);
        // Two looks are never exactly one interval apart: only a pause is spread.
        let part = match between > length * 2 {
            true => length.as_secs_f64() / between.as_secs_f64(),
            false => 1.0,
        };
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64 * part;
        let by_cpu = self.by_cpu_ns.iter().zip(&earlier.by_cpu_ns);
        Billed {
            all_ns: since(self.all_ns, earlier.all_ns),
            by_cpu_ns: by_cpu.map(|(now, before)| since(*now, *before)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_spread_evenly_and_a_usual_interval_is_not() {
        let at = Instant::now();
        let seen = |ms: u64, by_cpu_ns: Vec<u64>| Seen {
            at: at + Duration::from_millis(ms),
            all_ns: by_cpu_ns.iter().sum(),
            by_cpu_ns,
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
}
