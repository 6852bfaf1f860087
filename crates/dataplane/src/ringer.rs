//! The dataplane's end of an application's bell, and the limit of a ring's cost.
//!
//! A ring wakes all waiters at the application's end. Each of its epoll watches, of which it may
//! have hundreds of thousands, costs half a microsecond with interrupts off. Every descriptor that
//! can be polled has such a queue. The loop therefore rings by itself only if a recent ring was
//! cheap: it meets at most the watches that the application has added within [`TRUSTED_FOR`].
//! Otherwise a thread of the session rings and measures, at the cost of a switch of threads. An
//! application whose rings stay expensive is ended. After a ring that was expensive for the loop,
//! no session of its application is trusted for a while.
//!
//! | ring of | costs | next one |
//! |---|---|---|
//! | the loop | little | the loop's within [`TRUSTED_FOR`], else the thread's |
//! | the loop | more than [`CHEAP`] | the thread's, for [`DISTRUSTED_FOR`] |
//! | the thread | little | the loop's, unless distrusted |
//! | the thread | more than [`DEAR`], [`MOST_DEAR`] times in a row | none: [`Offence::Bell`] |
//!
//! [`Offence::Bell`]: crate::engine::Offence::Bell

use crate::bell::ring;
use crate::tuning::bell::{CHEAP, DEAR, DISTRUSTED_FOR, MOST_DEAR, TRUSTED_FOR};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Trust in one configured application: whether the loop may ring its sessions.
#[derive(Debug)]
pub(crate) struct Trust {
    begun: Instant,
    /// Nanoseconds since `begun` until which the loop may not ring.
    distrusted_until_ns: AtomicU64,
}

impl Default for Trust {
    fn default() -> Trust {
        Trust {
            begun: Instant::now(),
            distrusted_until_ns: AtomicU64::new(0),
        }
    }
}

impl Trust {
    fn now_ns(&self) -> u64 {
        nanoseconds(self.begun.elapsed())
    }

    fn end(&self, now_ns: u64) {
        let until_ns = now_ns + nanoseconds(DISTRUSTED_FOR);
        self.distrusted_until_ns.store(until_ns, Ordering::Relaxed);
    }

    fn is_given(&self, now_ns: u64) -> bool {
        now_ns >= self.distrusted_until_ns.load(Ordering::Relaxed)
    }
}

/// State that the loop and a session's thread share.
#[derive(Debug, Default)]
struct Line {
    /// Whether the thread is to ring.
    is_asked: AtomicBool,
    /// Whether the session has ended.
    is_over: AtomicBool,
    /// Time of the last cheap ring in nanoseconds of [`Trust::now_ns`]; 0 after an expensive one.
    cheap_at_ns: AtomicU64,
    /// Rings by the thread.
    #[cfg(test)]
    rung: AtomicU64,
    /// Rings by the loop.
    #[cfg(test)]
    rung_by_loop: AtomicU64,
}

/// Bell of one sleeping application.
#[derive(Debug)]
pub(crate) struct Bell {
    fd: RawFd,
    /// The descriptor, until a thread has it.
    own: Mutex<Option<OwnedFd>>,
    thread: OnceLock<Thread>,
    line: Arc<Line>,
    trust: Arc<Trust>,
}

impl Bell {
    pub fn new(fd: OwnedFd, trust: Arc<Trust>) -> Bell {
        Bell {
            fd: fd.as_raw_fd(),
            own: Mutex::new(Some(fd)),
            thread: OnceLock::new(),
            line: Arc::default(),
            trust,
        }
    }

    /// Starts the session's thread, before the first ring. Without the thread the loop always
    /// rings. `offend` is called once if rings stay expensive.
    ///
    /// # Errors
    /// No thread can be started. The bell is then of no use.
    pub fn start(&self, offend: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(fd) = own.take() else {
            return Ok(());
        };
        let (line, trust) = (self.line.clone(), self.trust.clone());
        let thread = std::thread::Builder::new().name("bell".to_owned());
        // The thread also closes the descriptor, because that wakes as a ring does.
        let thread = thread
            .stack_size(64 << 10)
            .spawn(move || serve(&fd, &line, &trust, offend))?;
        // The descriptor was still here, so that there is no thread yet.
        let _ = self.thread.set(thread.thread().clone());
        Ok(())
    }

    /// Rings now or soon. Never blocks.
    #[inline]
    pub fn ring(&self) {
        let Some(thread) = self.thread.get() else {
            return ring(self.fd);
        };
        let begun_ns = self.trust.now_ns();
        let cheap_at_ns = self.line.cheap_at_ns.load(Ordering::Relaxed);
        let is_fresh = begun_ns.saturating_sub(cheap_at_ns) < nanoseconds(TRUSTED_FOR);
        if cheap_at_ns == 0 || !is_fresh || !self.trust.is_given(begun_ns) {
            self.line.is_asked.store(true, Ordering::Release);
            return thread.unpark();
        }
        #[cfg(test)]
        self.line.rung_by_loop.fetch_add(1, Ordering::Relaxed);
        ring(self.fd);
        let ended_ns = self.trust.now_ns();
        let is_cheap = ended_ns - begun_ns < nanoseconds(CHEAP);
        let cheap_at_ns = if is_cheap { ended_ns } else { 0 };
        self.line.cheap_at_ns.store(cheap_at_ns, Ordering::Relaxed);
        if !is_cheap {
            self.trust.end(ended_ns);
        }
    }

    /// Rings by the loop since the session's thread runs.
    #[cfg(test)]
    pub fn rings_of_loop(&self) -> u64 {
        self.line.rung_by_loop.load(Ordering::Relaxed)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.line.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Body of a session's thread.
fn serve(fd: &OwnedFd, line: &Line, trust: &Trust, offend: impl FnOnce()) {
    let mut offend = Some(offend);
    let mut dear = 0;
    while !line.is_over.load(Ordering::Acquire) {
        if !line.is_asked.swap(false, Ordering::Acquire) {
            std::thread::park();
            continue;
        }
        let before = cpu_time();
        ring(fd.as_raw_fd());
        #[cfg(test)]
        line.rung.fetch_add(1, Ordering::Relaxed);
        let cost = cpu_time().saturating_sub(before);
        if cost < CHEAP {
            line.cheap_at_ns.store(trust.now_ns(), Ordering::Relaxed);
        }
        dear = if cost < DEAR { 0 } else { dear + 1 };
        if dear == MOST_DEAR
            && let Some(offend) = offend.take()
        {
            offend();
        }
        if dear >= MOST_DEAR {
            // No further ring until the session has ended.
            line.is_asked.store(false, Ordering::Relaxed);
            while !line.is_over.load(Ordering::Acquire) {
                std::thread::park();
            }
        }
    }
}

/// CPU time of the calling thread, without that of other threads on its CPU.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::{BellEnd, bell};
    use cofferdam_lab::fixtures::{time_limit, wait_until};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
    use std::os::fd::AsFd;

    const LIMIT: Duration = Duration::from_secs(60);
    const PATIENCE: Duration = Duration::from_secs(10);

    fn events(end: &BellEnd, timeout: PollTimeout) -> PollFlags {
        let mut fds = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, timeout).expect("polled");
        fds[0].revents().expect("known flags")
    }

    fn rings_of_the_thread(bell: &Bell) -> u64 {
        bell.line.rung.load(Ordering::Relaxed)
    }

    /// Promise 69.
    #[test]
    fn the_loop_rings_only_while_a_cheap_ring_is_fresh() {
        time_limit(LIMIT, || {
            let (bell, end) = bell(Arc::default()).expect("a bell");
            bell.start(|| panic!("no offence")).expect("a thread");
            bell.ring();
            wait_until("the thread's ring", PATIENCE, || {
                rings_of_the_thread(&bell) == 1 && bell.line.cheap_at_ns.load(Ordering::Relaxed) > 0
            });
            let now_ns = bell.trust.now_ns();
            bell.line.cheap_at_ns.store(now_ns, Ordering::Relaxed);
            end.take_rings();
            bell.ring();
            assert!(events(&end, PollTimeout::ZERO).contains(PollFlags::POLLIN));
            // An older cheap ring does not count.
            bell.line.cheap_at_ns.store(1, Ordering::Relaxed);
            std::thread::sleep(TRUSTED_FOR);
            let before = rings_of_the_thread(&bell);
            bell.ring();
            wait_until("the thread's ring", PATIENCE, || {
                rings_of_the_thread(&bell) == before + 1
            });
            // A ring that was expensive for the loop ends the trust, of other sessions as well.
            bell.trust.end(bell.trust.now_ns());
            let now_ns = bell.trust.now_ns();
            bell.line.cheap_at_ns.store(now_ns, Ordering::Relaxed);
            bell.ring();
            wait_until("the thread's ring", PATIENCE, || {
                rings_of_the_thread(&bell) == before + 2
            });
            drop(bell);
            wait_until("the thread's end", PATIENCE, || {
                events(&end, PollTimeout::from(10_u8)).contains(PollFlags::POLLHUP)
            });
        });
    }

    /// Creates epoll sets that watch a bell `count` times each.
    fn watch(end: &BellEnd, sets: usize, count: usize) -> Vec<(Epoll, Vec<OwnedFd>)> {
        let copies: Vec<OwnedFd> = (0..count)
            .map(|_| end.as_fd().try_clone_to_owned().expect("a copy"))
            .collect();
        let set = || {
            let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("a set");
            for copy in &copies {
                let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
                set.add(copy, event).expect("watched");
            }
            set
        };
        let mut all: Vec<_> = (0..sets).map(|_| (set(), Vec::new())).collect();
        if let Some((_, descriptors)) = all.first_mut() {
            *descriptors = copies;
        }
        all
    }

    /// Promise 69.
    #[test]
    fn a_hundred_thousand_waiters_at_a_bell_are_an_offence() {
        time_limit(LIMIT, || {
            let (bell, end) = bell(Arc::default()).expect("a bell");
            let is_accused = Arc::new(AtomicBool::new(false));
            let accuse = is_accused.clone();
            let offend = move || accuse.store(true, Ordering::Relaxed);
            bell.start(offend).expect("a thread");
            let sets = watch(&end, 200, 500);
            let mut cost = Duration::ZERO;
            wait_until("the offence", PATIENCE, || {
                let before = cpu_time();
                (0..10).for_each(|_| bell.ring());
                cost = cost.max(cpu_time().saturating_sub(before));
                is_accused.load(Ordering::Relaxed)
            });
            assert_eq!(bell.line.cheap_at_ns.load(Ordering::Relaxed), 0);
            println!("ten rings cost the loop {cost:?} at most");
            drop(sets);
        });
    }
}
