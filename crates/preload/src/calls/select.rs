//! `select` and `pselect`, which wait like `poll`.

use super::{give, wait};
use crate::real;
use cofferdam_bsd::Result;
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};
use nix::errno::Errno;
use std::time::{Duration, Instant};

/// Number of descriptors in a set.
const MOST: c_int = libc::FD_SETSIZE as c_int;

/// Sets of the program: readable, writable and urgent.
type Sets = [*mut fd_set; 3];

const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

/// Copies of the sets, whose first `count` bits are used.
struct Copies([Option<fd_set>; 3]);

impl Copies {
    /// # Safety
    /// Non-null sets must be valid for `count` descriptors.
    unsafe fn of(sets: Sets, count: c_int) -> Copies {
        let bytes = bytes(count);
        Copies(sets.map(|set| {
            if set.is_null() {
                return None;
            }
            // SAFETY: all zeros are an empty set.
            let mut copy: fd_set = unsafe { std::mem::zeroed() };
            // SAFETY: as the caller guarantees; the copy has space for all descriptors.
            unsafe {
                std::ptr::copy_nonoverlapping(set.cast::<u8>(), (&raw mut copy).cast(), bytes);
            }
            Some(copy)
        }))
    }

    /// Pointers to the copies for the kernel.
    fn places(&mut self) -> Sets {
        self.0.each_mut().map(|set| match set {
            Some(set) => &raw mut *set,
            None => std::ptr::null_mut(),
        })
    }

    /// # Safety
    /// See [`Copies::of`].
    unsafe fn write(&self, sets: Sets, count: c_int) {
        for (from, to) in self.0.iter().zip(sets) {
            if let Some(from) = from {
                // SAFETY: as the caller guarantees.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        (&raw const *from).cast::<u8>(),
                        to.cast(),
                        bytes(count),
                    );
                }
            }
        }
    }

    fn clear(&mut self) {
        for set in self.0.iter_mut().flatten() {
            // SAFETY: the set is valid.
            unsafe { libc::FD_ZERO(set) };
        }
    }

    /// Descriptors for `poll`. `None` if `poll` would not have the same meaning.
    fn polled(&self, count: c_int) -> Option<Vec<pollfd>> {
        let mut all = Vec::new();
        for fd in 0..count {
            let has = |set: &Option<fd_set>| {
                // SAFETY: the descriptor is below the set's size.
                set.as_ref()
                    .is_some_and(|set| unsafe { libc::FD_ISSET(fd, set) })
            };
            let wanted = self.0.iter().zip(EVENTS).filter(|(set, _)| has(set));
            let events = wanted.fold(0, |all, (_, event)| all | event);
            if events == libc::POLLPRI {
                // The end of a connection is no urgent data, but `poll` reports it.
                return None;
            }
            if events != 0 {
                all.push(pollfd {
                    fd,
                    events,
                    revents: 0,
                });
            }
        }
        (1..=wait::MOST_FDS).contains(&all.len()).then_some(all)
    }
}

/// Size of the first `count` bits in the kernel's words.
fn bytes(count: c_int) -> usize {
    (count as usize).div_ceil(64) * 8
}

/// # Safety
/// The contract of `pselect(2)`, except that non-null sets must be valid.
unsafe fn wait_for(
    count: c_int,
    sets: Sets,
    limit: Option<Duration>,
    signals: *const sigset_t,
) -> Result<c_int> {
    if !(1..=MOST).contains(&count) {
        return Err(Errno::ENOSYS);
    }
    // SAFETY: as the caller guarantees.
    let requested = unsafe { Copies::of(sets, count) };
    let fds = requested.polled(count).ok_or(Errno::ENOSYS)?;
    let mut found = Copies(requested.0);
    let look = || {
        found = Copies(requested.0);
        // Signal handlers run during the wait, not here.
        real::pselect(count, found.places(), &mut { wait::NOW }, std::ptr::null())
    };
    let ready = wait::wait(&fds, None, limit, signals, look)?;
    if ready == 0 {
        found.clear();
    }
    // SAFETY: as the caller guarantees.
    unsafe { found.write(sets, count) };
    Ok(ready)
}

/// `pselect(2)`.
///
/// # Safety
/// The contract of the system call, except that non-null sets must be valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    urgent: *mut fd_set,
    timeout: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    let sets = [read, write, urgent];
    let kernel = |time: *mut timespec| real::pselect(count, sets, time, signals);
    // SAFETY: as the caller guarantees.
    unsafe {
        wait::timed(timeout, kernel, |limit| {
            wait_for(count, sets, limit, signals)
        })
    }
}

/// `select(2)`, which writes the remaining time.
///
/// # Safety
/// The contract of [`pselect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    urgent: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: as the caller guarantees.
    let requested = (!timeout.is_null()).then(|| unsafe { timeout.read() });
    let limit = requested.map(|time| wait::duration_of(time).ok_or(Errno::EINVAL));
    let limit = match limit.transpose() {
        Ok(limit) => limit,
        Err(error) => return give(Err(error)),
    };
    let mut time = limit.map(wait::timespec_of);
    let began = Instant::now();
    // SAFETY: as the caller guarantees.
    let ready = unsafe {
        pselect(
            count,
            read,
            write,
            urgent,
            wait::pointer_to(&mut time),
            std::ptr::null(),
        )
    };
    if let Some(limit) = limit {
        let left = limit.saturating_sub(began.elapsed());
        let left = timeval {
            tv_sec: left.as_secs() as i64,
            tv_usec: i64::from(left.subsec_micros()),
        };
        // SAFETY: as the caller guarantees.
        unsafe { timeout.write(left) };
    }
    ready
}
