//! Files that depend on a container's quota: the kernel refuses (EINVAL) a quota below the cgroup's
//! burst, and in v1 one below the quota of a child cgroup. These files are lowered before the quota
//! and raised after it. A child's quota above its parent's had no effect of its own, so nothing
//! else changes.

use crate::journal::{ChangeError, Form, Journal, Target};
use crate::network::place::Follower;
use crate::tuning::network::LOWEST_QUOTA_US;
use std::fs;
use std::path::Path;

/// Files that were lowered with a quota.
#[derive(Debug, Default)]
pub(super) struct Followers {
    lowered: Vec<Target>,
}

impl Followers {
    /// Lowers the files that do not fit into a quota of `cpus`. `files` is sorted by distance from
    /// the quota, nearest first.
    pub fn lower(
        &mut self,
        journal: &mut Journal,
        files: &[Follower],
        cpus: f64,
    ) -> Result<(), ChangeError> {
        for follower in files.iter().rev() {
            let most_us = follower.most_us(cpus);
            if read_us(&follower.file).is_some_and(|now_us| now_us > most_us)
                && let Ok(target) = Target::file(&follower.file)
            {
                write_us(journal, &target, most_us)?;
                if !self.lowered.contains(&target) {
                    self.lowered.push(target);
                }
            }
        }
        Ok(())
    }

    /// Raises the lowered files as far as a quota of `cpus` allows. Values that the kernel refuses
    /// are retried later.
    pub fn raise(&mut self, journal: &mut Journal, files: &[Follower], cpus: f64) {
        for follower in files {
            let Ok(target) = Target::file(&follower.file) else {
                continue;
            };
            let Some(own) = journal.before(&target).map(str::to_owned) else {
                continue;
            };
            let text = fs::read_to_string(&follower.file).unwrap_or_default();
            let now_us = text.trim().parse().unwrap_or(f64::INFINITY);
            let most_us = follower.most_us(cpus);
            // Reverting a change leaves a later value of another program alone.
            let is_whole = parse_us(&own).is_none_or(|own_us| own_us <= most_us);
            if is_whole || !journal.wrote(&target, text.trim()) {
                self.revert(journal, &target);
            } else if now_us < most_us {
                let _ = write_us(journal, &target, most_us);
            }
        }
    }

    fn revert(&mut self, journal: &mut Journal, target: &Target) {
        if journal.revert(target).is_clean() {
            self.lowered.retain(|lowered| lowered != target);
        }
    }

    /// Reverts all files, nearest first; the quota itself is already reverted.
    pub fn revert_all(&mut self, journal: &mut Journal) {
        self.lowered.sort_by_key(|target| match target {
            Target::File { path, .. } => (path.components().count(), is_burst(path)),
            _ => (0, false),
        });
        for target in std::mem::take(&mut self.lowered) {
            journal.revert(&target);
        }
    }
}

impl Follower {
    /// Largest value that the kernel accepts under a quota of `cpus`, microseconds.
    fn most_us(&self, cpus: f64) -> f64 {
        let most_us = (cpus * self.period_us).floor();
        match is_burst(&self.file) {
            true => most_us,
            false => most_us.max(LOWEST_QUOTA_US),
        }
    }
}

fn is_burst(file: &Path) -> bool {
    file.ends_with("cpu.cfs_burst_us") || file.ends_with("cpu.max.burst")
}

fn read_us(file: &Path) -> Option<f64> {
    parse_us(&fs::read_to_string(file).ok()?)
}

/// Finite value, microseconds.
fn parse_us(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|us| *us >= 0.0)
}

fn write_us(journal: &mut Journal, target: &Target, us: f64) -> Result<(), ChangeError> {
    match journal.set(target, Form::Text, &format!("{us:.0}")) {
        Err(e) if !e.vanished() => Err(e),
        _ => Ok(()),
    }
}
