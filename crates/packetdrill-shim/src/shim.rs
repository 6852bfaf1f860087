//! The host behind a lock, and waiting on a clock that does not run.
//!
//! packetdrill has two threads: one plays the script, the other makes the system calls that the
//! script says block. The clock moves only in the first, by `usleep` and `netdev_receive`, by a
//! microsecond at each `gettimeofday` (packetdrill spins on it), and when the first thread itself
//! makes a call that waits. So a script takes no time, and happens the same way each time.

use crate::host::{Host, Result};
use cofferdam_netstack::Time;
use nix::errno::Errno;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// How long the script waits, in real time, for the other thread to see what happened. It exists
/// only so that a thread which is stuck elsewhere cannot stop the script permanently.
const PATIENCE: Duration = Duration::from_secs(2);

/// What `packetdrill_interface.userdata` points at.
#[derive(Debug)]
pub struct Shim {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// The thread that plays the script.
    script: ThreadId,
}

#[derive(Debug)]
struct Inner {
    host: Host,
    /// Counts changes of the host.
    change: u64,
    /// Calls that wait in other threads, and how many of them have seen the last change.
    waiting: u32,
    looked: u32,
    /// When those that give up do so.
    limits: Vec<(ThreadId, Time)>,
    /// Threads whose call waited and has ended, and that have not read the time since: packetdrill
    /// records when a call ended only afterwards.
    leaving: Vec<ThreadId>,
}

impl Shim {
    /// Made by the thread that plays the script.
    pub fn new(host: Host) -> Shim {
        Shim {
            inner: Mutex::new(Inner {
                host,
                change: 0,
                waiting: 0,
                looked: 0,
                limits: Vec::new(),
                leaving: Vec::new(),
            }),
            changed: Condvar::new(),
            script: std::thread::current().id(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in the host ends the process: nothing can be poisoned.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, inner: &mut Inner) {
        inner.change += 1;
        inner.looked = 0;
        self.changed.notify_all();
    }

    /// Makes a call that does not wait.
    pub fn call<T>(&self, call: impl FnOnce(&mut Host) -> T) -> T {
        let mut inner = self.lock();
        let result = call(&mut inner.host);
        self.notify(&mut inner);
        result
    }

    /// Makes a call that may say `EAGAIN`, again and again until it does not. `limit`: then it is
    /// given up with `EAGAIN`.
    ///
    /// # Errors
    /// Those of the call; `EDEADLK` when the script's own thread would wait endlessly.
    pub fn wait<T>(
        &self,
        limit: Option<Time>,
        mut attempt: impl FnMut(&mut Host) -> Result<T>,
    ) -> Result<T> {
        let mut inner = self.lock();
        let mut is_counted = false;
        let result = loop {
            match attempt(&mut inner.host) {
                Err(Errno::EAGAIN) if limit.is_none_or(|limit| inner.host.now() < limit) => {}
                result => break result,
            }
            if std::thread::current().id() == self.script {
                // Nobody else would move the clock.
                if !inner.host.skip(limit) {
                    break Err(Errno::EDEADLK);
                }
                self.notify(&mut inner);
                continue;
            }
            if !is_counted {
                inner.waiting += 1;
                is_counted = true;
                let this = std::thread::current().id();
                inner.limits.extend(limit.map(|limit| (this, limit)));
            }
            inner.looked += 1;
            self.changed.notify_all();
            let seen = inner.change;
            inner = (self.changed)
                .wait_while(inner, |inner| inner.change == seen)
                .unwrap_or_else(PoisonError::into_inner);
        };
        if is_counted {
            let this = std::thread::current().id();
            inner.waiting -= 1;
            inner.limits.retain(|(thread, _)| *thread != this);
            inner.leaving.push(this);
        }
        self.notify(&mut inner);
        result
    }

    /// Lets other threads see what happened before the clock moves. `and_leave`: and lets those
    /// whose call has ended write down the time.
    fn hand_over(&self, and_leave: bool) -> MutexGuard<'_, Inner> {
        let until = Instant::now() + PATIENCE;
        let mut inner = self.lock();
        while inner.looked < inner.waiting || (and_leave && !inner.leaving.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                inner.leaving.clear();
                break;
            }
            inner = (self.changed)
                .wait_timeout(inner, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        inner
    }

    /// Moves the clock to what is due next: in the host, for a call that waits, or at `limit`.
    /// False when nothing is.
    fn step(&self, inner: &mut Inner, limit: Option<Time>) -> bool {
        let limits = inner.limits.iter().map(|(_, limit)| *limit);
        let next = limits.chain(limit).min();
        let moved = inner.host.skip(next);
        self.notify(inner);
        moved
    }

    /// Moves the clock.
    pub fn sleep(&self, time: Duration) {
        let mut inner = self.hand_over(true);
        let until = inner.host.now() + time;
        // Step by step: a call that a timer ends is over at the time of that timer.
        while inner.host.now() < until {
            self.step(&mut inner, Some(until));
            if inner.waiting > 0 {
                drop(inner);
                inner = self.hand_over(true);
            }
        }
    }

    /// The time, after which a microsecond passes.
    pub fn time(&self) -> Time {
        let mut inner = self.lock();
        let now = inner.host.now();
        inner.host.advance(now + Duration::from_micros(1));
        let this = std::thread::current().id();
        inner.leaving.retain(|thread| *thread != this);
        self.notify(&mut inner);
        now
    }

    /// The next packet that leaves and when, and moves the clock to then. `None` when there will
    /// be none.
    pub fn next_packet(&self) -> Option<(Time, Vec<u8>)> {
        loop {
            let mut inner = self.hand_over(false);
            if let Some(packet) = inner.host.departed() {
                return Some(packet);
            }
            if !self.step(&mut inner, None) {
                return None;
            }
        }
    }
}
