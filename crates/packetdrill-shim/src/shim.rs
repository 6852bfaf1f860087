//! The host behind a lock, and waiting on a clock that only the script advances.
//!
//! packetdrill has two threads. One plays the script; the other makes the system calls that the
//! script marks as blocking. The clock advances only in the first: by `usleep` and
//! `netdev_receive`, by a microsecond at each `gettimeofday` (packetdrill spins on it), and when
//! the first thread itself makes a call that blocks. A script therefore takes no real time and runs
//! the same way every time.

use crate::host::{Host, Result};
use cofferdam_netstack::Time;
use nix::errno::Errno;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Maximum real time that the script waits for the other thread to see a change. It only keeps a
/// thread that is stuck elsewhere from stopping the script forever.
const PATIENCE: Duration = Duration::from_secs(2);

/// Target of `packetdrill_interface.userdata`.
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
    /// Number of changes of the host.
    change: u64,
    /// Calls that wait in other threads, and how many of them have seen the last change.
    waiting: u32,
    looked: u32,
    /// Deadlines of the waiting calls.
    limits: Vec<(ThreadId, Time)>,
    /// Threads whose blocking call has ended but that have not read the time since. packetdrill
    /// records the end of a call only afterwards.
    leaving: Vec<ThreadId>,
}

impl Shim {
    /// Creates the shim; call it in the thread that plays the script.
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
        // A panic in the host ends the process, so the lock is never poisoned.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self, inner: &mut Inner) {
        inner.change += 1;
        inner.looked = 0;
        self.changed.notify_all();
    }

    /// Makes a call that does not block.
    pub fn call<T>(&self, call: impl FnOnce(&mut Host) -> T) -> T {
        let mut inner = self.lock();
        let result = call(&mut inner.host);
        self.notify(&mut inner);
        result
    }

    /// Repeats a call until it no longer returns `EAGAIN`, or until the clock reaches `limit`.
    ///
    /// # Errors
    /// The errors of the call; `EDEADLK` if the script's own thread would wait forever.
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
                // No other thread would advance the clock.
                if !inner.host.skip(limit) {
                    break Err(Errno::EDEADLK);
                }
                self.notify(&mut inner);
                continue;
            }
            if !is_counted {
                inner.waiting += 1;
                is_counted = true;
                let thread_id = std::thread::current().id();
                inner.limits.extend(limit.map(|limit| (thread_id, limit)));
            }
            inner.looked += 1;
            self.changed.notify_all();
            let seen = inner.change;
            inner = (self.changed)
                .wait_while(inner, |inner| inner.change == seen)
                .unwrap_or_else(PoisonError::into_inner);
        };
        if is_counted {
            let thread_id = std::thread::current().id();
            inner.waiting -= 1;
            inner.limits.retain(|(thread, _)| *thread != thread_id);
            inner.leaving.push(thread_id);
        }
        self.notify(&mut inner);
        result
    }

    /// Lets other threads see the last change before the clock advances. With `and_leave`, also
    /// waits until those whose call has ended have read the time.
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

    /// Advances the clock to what is due next: an event of the host, the deadline of a waiting
    /// call, or `limit`. Returns false if nothing is due.
    fn step(&self, inner: &mut Inner, limit: Option<Time>) -> bool {
        let limits = inner.limits.iter().map(|(_, limit)| *limit);
        let next = limits.chain(limit).min();
        let moved = inner.host.skip(next);
        self.notify(inner);
        moved
    }

    /// Advances the clock by `time`.
    pub fn sleep(&self, time: Duration) {
        let mut inner = self.hand_over(true);
        let until = inner.host.now() + time;
        // One step at a time, so that a call ended by a timer ends at the time of that timer.
        while inner.host.now() < until {
            self.step(&mut inner, Some(until));
            if inner.waiting > 0 {
                drop(inner);
                inner = self.hand_over(true);
            }
        }
    }

    /// The time; the clock advances by a microsecond afterwards.
    pub fn time(&self) -> Time {
        let mut inner = self.lock();
        let now = inner.host.now();
        inner.host.advance(now + Duration::from_micros(1));
        let thread_id = std::thread::current().id();
        inner.leaving.retain(|thread| *thread != thread_id);
        self.notify(&mut inner);
        now
    }

    /// Advances the clock to the next packet that leaves. Returns it with its time, or `None` if
    /// there will be none.
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
