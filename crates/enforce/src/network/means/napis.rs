//! NAPI threads of one container, and threads that are leaving one.

use super::napi::{NapiError, NapiThread};
use crate::journal::{Journal, UndoReport};
use crate::network::place::Place;
use crate::tuning::network::TRY_AGAIN;
use cofferdam_types::{CgroupId, Container, NetnsId};
use std::time::Instant;

/// NAPI threads of one container.
#[derive(Debug, Default)]
pub(in crate::network) struct NapiThreads {
    engaged: Vec<Engaged>,
    refused: Vec<Refused>,
}

/// Interface whose thread is running or being moved.
#[derive(Debug)]
struct Engaged {
    /// Index of the interface inside the container.
    interface: u32,
    thread: NapiThread,
}

/// Interface whose thread could not be started.
#[derive(Debug)]
struct Refused {
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
        pairs.any(|pair| !self.knows(pair.container_ifindex.0, now))
    }

    fn knows(&self, interface: u32, now: Instant) -> bool {
        let mut refused = self.refused.iter().filter(|r| r.until > now);
        self.engaged.iter().any(|e| e.interface == interface)
            || refused.any(|r| r.interface == interface)
    }

    /// Starts the missing threads of the container's interfaces.
    pub fn engage(
        &mut self,
        journal: &mut Journal,
        container: &Container,
        place: &Place,
        in_container: bool,
    ) {
        let now = Instant::now();
        self.refused.retain(|r| r.until > now);
        for pair in &container.interfaces {
            let interface = pair.container_ifindex.0;
            if self.knows(interface, now) {
                continue;
            }
            match NapiThread::engage(journal, container, pair, place, in_container) {
                Ok(thread) => self.engaged.push(Engaged { interface, thread }),
                Err(e) if e.vanished() => self.refused.push(Refused {
                    interface,
                    until: now + TRY_AGAIN / 10,
                    why: NapiError::Gone,
                }),
                Err(why) => self.refused.push(Refused {
                    interface,
                    until: now + TRY_AGAIN,
                    why,
                }),
            }
        }
    }

    /// Records threads that have arrived in the container's cgroup.
    pub fn arrive(&mut self, journal: &mut Journal) {
        for mut engaged in std::mem::take(&mut self.engaged) {
            match engaged.thread.arrive(journal) {
                Ok(()) => self.engaged.push(engaged),
                Err(why) => {
                    engaged.thread.disengage(journal);
                    self.refused.push(Refused {
                        interface: engaged.interface,
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
            .engaged
            .iter()
            .all(|e| listed(e.interface) && e.thread.is_alive())
    }

    /// Starts removing all threads. Each returned thread is to be reverted once it has left.
    pub(super) fn leave(&mut self, journal: &mut Journal) -> Vec<NapiThread> {
        let mut leaving: Vec<NapiThread> = self.engaged.drain(..).map(|e| e.thread).collect();
        for thread in &mut leaving {
            thread.leave(journal);
        }
        leaving
    }

    /// Whether it has any threads, running or being moved.
    pub fn any(&self) -> bool {
        !self.engaged.is_empty()
    }

    /// Whether all of its threads are in its cgroup.
    pub fn in_place(&self) -> bool {
        self.any() && self.engaged.iter().all(|e| !e.thread.is_moving())
    }

    /// Reason why an interface has no thread.
    pub fn refusal(&self) -> Option<String> {
        self.refused.first().map(|r| r.why.to_string())
    }

    /// CPU time of the threads, nanoseconds.
    pub fn usage_ns(&self) -> u64 {
        // All interfaces of the container share one leaf.
        let first = self.engaged.first();
        first.and_then(|e| e.thread.usage_ns()).unwrap_or(0)
    }
}

/// Threads that are leaving. Their interfaces stay untouched until they have left.
#[derive(Debug, Default)]
pub(super) struct Leaving(Vec<Left>);

#[derive(Debug)]
struct Left {
    cgroup: CgroupId,
    netns: Option<NetnsId>,
    threads: Vec<NapiThread>,
}

impl Leaving {
    /// Adds the leaving threads of a container.
    pub fn add(&mut self, container: &Container, threads: Vec<NapiThread>) {
        if !threads.is_empty() {
            self.0.push(Left {
                cgroup: container.cgroup,
                netns: container.netns,
                threads,
            });
        }
    }

    /// Whether threads of this container, or of its namespace, are still leaving. Its interfaces
    /// may have belonged to another container, as when a container joins a pod.
    pub fn of(&self, container: &Container) -> bool {
        let same = |left: &Left| {
            left.cgroup == container.cgroup || left.netns.is_some() && left.netns == container.netns
        };
        self.0.iter().any(same)
    }

    /// Reverts the other changes for the threads that have left; with `wait` for all. Returns a
    /// report of the changes.
    pub fn step(&mut self, journal: &mut Journal, wait: bool) -> UndoReport {
        let mut report = UndoReport::default();
        let gone = |left: &Left| wait || left.threads.iter().all(NapiThread::has_left);
        let (done, rest): (Vec<Left>, _) = std::mem::take(&mut self.0).into_iter().partition(gone);
        self.0 = rest;
        for left in done {
            // The first thread created the cgroup that all of them were in.
            for thread in left.threads.into_iter().rev() {
                report.add(thread.disengage(journal));
            }
        }
        report
    }
}
