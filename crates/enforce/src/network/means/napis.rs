//! NAPI threads of one container, and threads that are leaving one.

use super::napi::{NapiError, NapiThread};
use crate::journal::{Journal, RevertReport};
use crate::network::place::Place;
use crate::tuning::network::TRY_AGAIN;
use cofferdam_types::{CgroupId, Container, NetnsId};
use std::time::Instant;

/// NAPI threads of one container.
#[derive(Debug, Default)]
pub(in crate::network) struct NapiThreads {
    running: Vec<InterfaceThread>,
    refusals: Vec<ThreadRefusal>,
}

/// Interface whose thread is running or being moved.
#[derive(Debug)]
struct InterfaceThread {
    /// Index of the interface inside the container.
    interface: u32,
    thread: NapiThread,
}

/// Interface whose thread could not be started.
#[derive(Debug)]
struct ThreadRefusal {
    interface: u32,
    /// Time of the next try.
    until: Instant,
    why: NapiError,
}

impl NapiThreads {
    /// Whether an interface has no thread, and a try is due.
    pub fn lacks(&self, container: &Container) -> bool {
        let now = Instant::now();
        let mut pairs = container.interfaces.iter();
        pairs.any(|pair| !self.has_outcome(pair.container_ifindex.0, now))
    }

    fn has_outcome(&self, interface: u32, now: Instant) -> bool {
        let mut refused = self.refusals.iter().filter(|r| r.until > now);
        self.running.iter().any(|e| e.interface == interface)
            || refused.any(|r| r.interface == interface)
    }

    /// Starts the missing threads of the container's interfaces.
    pub fn start(
        &mut self,
        journal: &mut Journal,
        container: &Container,
        place: &Place,
        in_container: bool,
    ) {
        let now = Instant::now();
        self.refusals.retain(|r| r.until > now);
        for pair in &container.interfaces {
            let interface = pair.container_ifindex.0;
            if self.has_outcome(interface, now) {
                continue;
            }
            match NapiThread::start(journal, container, pair, place, in_container) {
                Ok(thread) => self.running.push(InterfaceThread { interface, thread }),
                Err(e) if e.vanished() => self.refusals.push(ThreadRefusal {
                    interface,
                    until: now + TRY_AGAIN / 10,
                    why: NapiError::InterfaceGone,
                }),
                Err(why) => self.refusals.push(ThreadRefusal {
                    interface,
                    until: now + TRY_AGAIN,
                    why,
                }),
            }
        }
    }

    /// Records threads that have arrived in the container's cgroup.
    pub fn arrive(&mut self, journal: &mut Journal) {
        for mut running in std::mem::take(&mut self.running) {
            match running.thread.arrive(journal) {
                Ok(()) => self.running.push(running),
                Err(why) => {
                    running.thread.revert(journal);
                    self.refusals.push(ThreadRefusal {
                        interface: running.interface,
                        until: Instant::now() + TRY_AGAIN,
                        why,
                    });
                }
            }
        }
    }

    /// Whether an interface or a thread is gone. A device whose GRO was turned off and on has
    /// another thread. All threads must leave then, because they share a cgroup; the remaining ones
    /// are started again later.
    pub fn is_stale(&self, container: &Container) -> bool {
        let listed = |index: u32| {
            let mut pairs = container.interfaces.iter();
            pairs.any(|pair| pair.container_ifindex.0 == index)
        };
        !self
            .running
            .iter()
            .all(|e| listed(e.interface) && e.thread.is_alive())
    }

    /// Starts removing all threads. The caller reverts each returned thread once it has left.
    pub(super) fn start_removal(&mut self, journal: &mut Journal) -> Vec<NapiThread> {
        let mut leaving: Vec<NapiThread> = self.running.drain(..).map(|e| e.thread).collect();
        for thread in &mut leaving {
            thread.start_removal(journal);
        }
        leaving
    }

    /// Whether it has any threads, running or being moved.
    pub fn has_threads(&self) -> bool {
        !self.running.is_empty()
    }

    /// Whether all of its threads are in its cgroup.
    pub fn in_place(&self) -> bool {
        self.has_threads() && self.running.iter().all(|e| !e.thread.is_moving())
    }

    /// Reason why an interface has no thread.
    pub fn refusal(&self) -> Option<String> {
        self.refusals.first().map(|r| r.why.to_string())
    }

    /// CPU time of the threads, nanoseconds.
    pub fn usage_ns(&self) -> u64 {
        // All interfaces of the container share one leaf.
        let first = self.running.first();
        first.and_then(|e| e.thread.usage_ns()).unwrap_or(0)
    }
}

/// Threads that are leaving. Their interfaces stay untouched until they have left.
#[derive(Debug, Default)]
pub(super) struct LeavingThreads(Vec<LeavingContainer>);

#[derive(Debug)]
struct LeavingContainer {
    cgroup: CgroupId,
    netns: Option<NetnsId>,
    threads: Vec<NapiThread>,
}

impl LeavingThreads {
    /// Adds the leaving threads of a container.
    pub fn add(&mut self, container: &Container, threads: Vec<NapiThread>) {
        if !threads.is_empty() {
            self.0.push(LeavingContainer {
                cgroup: container.cgroup,
                netns: container.netns,
                threads,
            });
        }
    }

    /// Whether threads of this container, or of its namespace, are still leaving. Its interfaces
    /// may have belonged to another container, as when a container joins a pod.
    pub fn includes(&self, container: &Container) -> bool {
        let same = |left: &LeavingContainer| {
            left.cgroup == container.cgroup || left.netns.is_some() && left.netns == container.netns
        };
        self.0.iter().any(same)
    }

    /// Reverts the other changes for the threads that have left; with `wait` for all. Returns a
    /// report of the changes.
    pub fn step(&mut self, journal: &mut Journal, wait: bool) -> RevertReport {
        let mut report = RevertReport::default();
        let may_finish =
            |left: &LeavingContainer| wait || left.threads.iter().all(NapiThread::has_left);
        let (done, rest): (Vec<LeavingContainer>, _) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(may_finish);
        self.0 = rest;
        for left in done {
            // The first thread created the cgroup that all of them were in.
            for thread in left.threads.into_iter().rev() {
                report.add(thread.revert(journal));
            }
        }
        report
    }
}
