//! Time limits, waiting, and one root test at a time.

use cofferdam_lab::undo_all;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{File, OpenOptions};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Runs `body` on a thread of its own; panics when it takes longer than `limit`, after having
/// undone every fixture that still stands. Panics of `body` pass through.
#[track_caller]
pub fn time_limit<T: Send + 'static>(
    limit: Duration,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, ended) = channel();
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let worker = std::thread::Builder::new()
        .name(name)
        .spawn(move || {
            let value = body();
            // Nobody listens any more once the limit is over.
            let _ = done.send(());
            value
        })
        .expect("a test process can start a thread");
    if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        undo_all();
        panic!("the test took longer than its limit of {limit:?}; its fixtures were undone");
    }
    match worker.join() {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs `body` again, up to five times, when it fails while `hidden` grows.
/// `hidden` counts what the kernel kept from its tracepoints: some hosted kernels hide the time
/// slices of their supervisor, and such a round proves nothing about programs on tracepoints. A
/// failure of any other round passes through.
pub fn repeat_when_hidden(mut hidden: impl FnMut() -> u64, mut body: impl FnMut()) {
    const ROUNDS: u32 = 5;
    for round in 1.. {
        let before = hidden();
        let Err(panic) = catch_unwind(AssertUnwindSafe(&mut body)) else {
            return;
        };
        let kept = hidden().saturating_sub(before);
        if round == ROUNDS || kept == 0 {
            resume_unwind(panic);
        }
        eprintln!("round {round}: the kernel hid {kept} softirqs from its tracepoints; again");
    }
}

/// Waits until `condition` holds; panics after `limit`. `what` ends the sentence "waited for".
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < limit,
            "waited {limit:?} for {what} in vain"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Held by one root test at a time, on the whole machine.
pub struct Exclusive {
    _lock: Flock<File>,
}

/// Waits until no other root test runs, in this process or another: such tests measure CPUs
/// that all share. The kernel frees the lock when the process ends, however it ends.
#[track_caller]
pub fn exclusive() -> Exclusive {
    let path = "/run/cofferdam-tests.lock";
    let file = match OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
    {
        Ok(file) => file,
        Err(e) => panic!("cannot open {path}: {e}; these tests run as root (make test)"),
    };
    match Flock::lock(file, FlockArg::LockExclusive) {
        Ok(lock) => Exclusive { _lock: lock },
        Err((_, e)) => panic!("cannot lock {path}: {e}"),
    }
}
