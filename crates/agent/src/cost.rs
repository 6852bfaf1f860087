//! Resources that the agent itself uses.

use crate::view::Cost;
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};
use std::time::Duration;

impl Cost {
    /// Measures the CPU time and the resident memory of this process.
    pub fn now() -> Cost {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok();
        let cpu = usage.map(|u| {
            let time = |t: nix::sys::time::TimeVal| {
                let seconds = u64::try_from(t.tv_sec()).unwrap_or(0);
                let micros = u64::try_from(t.tv_usec()).unwrap_or(0);
                Duration::from_secs(seconds) + Duration::from_micros(micros)
            };
            time(u.user_time()) + time(u.system_time())
        });
        Cost {
            cpu: cpu.unwrap_or_default(),
            resident_bytes: resident_bytes().unwrap_or(0),
        }
    }
}

/// Resident memory: the second field of `/proc/self/statm`, in pages.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page).ok()?)
}
