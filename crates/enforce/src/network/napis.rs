//! The NAPI threads of one container, and those that are leaving one.

use super::napi::NapiThread;
use super::place::Place;
use crate::journal::{Journal, UndoReport};
use cofferdam_types::{CgroupId, Container};
use std::time::{Duration, Instant};

/// When something that failed is tried again.
pub(super) const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The NAPI threads of one container.
#[derive(Debug, Default)]
pub(super) struct NapiThreads {
    /// By index of the interface inside the container.
    engaged: Vec<(u32, NapiThread)>,
    /// Interfaces that could not be engaged, until when, and why.
    refused: Vec<(u32, Instant, String)>,
}

impl NapiThreads {
    /// Begins to put every interface's thread in place that is not.
    pub fn engage(
        &mut self,
        journal: &mut Journal,
        container: &Container,
        place: &Place,
        in_container: bool,
    ) {
        let now = Instant::now();
        self.refused.retain(|(_, until, _)| *until > now);
        for pair in &container.interfaces {
            let index = pair.container_ifindex.0;
            let known = self.engaged.iter().any(|(i, _)| *i == index)
                || self.refused.iter().any(|(i, _, _)| *i == index);
            if known {
                continue;
            }
            match NapiThread::engage(journal, container, pair, place, in_container) {
                Ok(thread) => self.engaged.push((index, thread)),
                Err(e) if e.vanished() => {
                    self.refused.push((
                        index,
                        now + TRY_AGAIN / 10,
                        "the interface is gone".into(),
                    ));
                }
                Err(e) => self.refused.push((index, now + TRY_AGAIN, e.to_string())),
            }
        }
    }

    /// Takes note of threads that have arrived in the container's cgroup.
    pub fn arrive(&mut self, journal: &mut Journal) {
        let mut failed = Vec::new();
        for (index, thread) in &mut self.engaged {
            if let Err(e) = thread.arrive(journal) {
                failed.push((*index, e));
            }
        }
        for (index, error) in failed {
            if let Some(at) = self.engaged.iter().position(|(i, _)| *i == index) {
                self.engaged.remove(at).1.disengage(journal);
            }
            let until = Instant::now() + TRY_AGAIN;
            self.refused.push((index, until, error.to_string()));
        }
    }

    /// Whether an interface or a thread is gone (a device whose GRO somebody turned off and on
    /// has another thread). All must leave then, as they share a cgroup; the rest is put in place
    /// again after.
    pub fn is_stale(&self, container: &Container) -> bool {
        let listed = |index: u32| {
            let mut pairs = container.interfaces.iter();
            pairs.any(|pair| pair.container_ifindex.0 == index)
        };
        !self
            .engaged
            .iter()
            .all(|(index, t)| listed(*index) && t.is_alive())
    }

    /// Begins to take everything back. What is returned is to be disengaged once it has left.
    pub fn leave(&mut self, journal: &mut Journal) -> Vec<NapiThread> {
        let mut leaving: Vec<NapiThread> = self.engaged.drain(..).map(|(_, t)| t).collect();
        for thread in &mut leaving {
            thread.leave(journal);
        }
        leaving
    }

    /// Whether it has any, on their way or arrived.
    pub fn any(&self) -> bool {
        !self.engaged.is_empty()
    }

    /// Whether all of them are where they should be.
    pub fn in_place(&self) -> bool {
        self.any() && self.engaged.iter().all(|(_, t)| !t.is_moving())
    }

    /// Why an interface has no thread in place.
    pub fn refusal(&self) -> Option<&str> {
        self.refused.first().map(|(_, _, why)| why.as_str())
    }

    /// CPU time that the threads have used, nanoseconds.
    pub fn usage_ns(&self) -> u64 {
        // One leaf for all interfaces of the container.
        let first = self.engaged.first();
        first.and_then(|(_, t)| t.usage_ns()).unwrap_or(0)
    }
}

/// Threads on their way out. Until they are gone their interfaces are not touched again.
#[derive(Debug, Default)]
pub(super) struct Leaving(Vec<(CgroupId, Vec<NapiThread>)>);

impl Leaving {
    /// These of a container leave.
    pub fn add(&mut self, cgroup: CgroupId, threads: Vec<NapiThread>) {
        if !threads.is_empty() {
            self.0.push((cgroup, threads));
        }
    }

    /// Whether some of this container have not left yet.
    pub fn of(&self, cgroup: CgroupId) -> bool {
        self.0.iter().any(|(id, _)| *id == cgroup)
    }

    /// Takes back what else was changed for those that have left; with `wait` for all. Tells what
    /// was taken back.
    pub fn step(&mut self, journal: &mut Journal, wait: bool) -> UndoReport {
        let mut report = UndoReport::default();
        let gone = |threads: &Vec<NapiThread>| wait || threads.iter().all(NapiThread::has_left);
        let (done, rest) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(_, threads)| gone(threads));
        self.0 = rest;
        let done: Vec<(CgroupId, Vec<NapiThread>)> = done;
        for (_, threads) in done {
            // The first one made the cgroup that they were all in.
            for thread in threads.into_iter().rev() {
                report.add(thread.disengage(journal));
            }
        }
        report
    }
}
