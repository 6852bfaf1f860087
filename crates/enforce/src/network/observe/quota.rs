//! CPU quotas that bind a container, read from time to time.

use crate::network::place::Place;
use crate::tuning::network::{QUOTA_PERIOD, QUOTA_READ_INTERVAL};
use std::time::{Duration, Instant};

/// Quotas of one container and the cgroups above it, as last read.
#[derive(Debug)]
pub(super) struct QuotaFiles {
    read_at: Option<Instant>,
    /// Tightest of these quotas, CPUs.
    pub cpus: Option<f64>,
    /// Period of its own quota, or the kernel's default.
    pub period: Duration,
}

impl Default for QuotaFiles {
    fn default() -> Self {
        QuotaFiles {
            read_at: None,
            cpus: None,
            period: QUOTA_PERIOD,
        }
    }
}

impl QuotaFiles {
    /// Reads the files if that is due. `own_us` is the container's own quota if its file contains a
    /// correction.
    pub fn update(&mut self, place: &Place, own_us: Option<f64>) {
        if self
            .read_at
            .is_some_and(|at| at.elapsed() < QUOTA_READ_INTERVAL)
        {
            return;
        }
        self.read_at = Some(Instant::now());
        self.cpus = place.tightest_quota(own_us);
        let own = place
            .quota()
            .map(|found| Duration::from_secs_f64(found.quota.period_us / 1e6));
        self.period = own.unwrap_or(QUOTA_PERIOD);
    }
}
