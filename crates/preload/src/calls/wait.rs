//! `epoll_wait`, `poll` and related calls. A thread that is about to wait does the pump's work
//! first. The dataplane then wakes the thread itself, without the pump's thread.
//!
//! A wait in this library is no cancellation point (`pthread_cancel`).

use super::give;
use crate::epoll_sets;
use crate::inside::{self, Inside};
use crate::process::{self, Home, Rest};
use crate::pump::Pump;
use crate::real;
use crate::signals::SignalGuard;
use crate::table::{self, Set};
use cofferdam_bsd::Result;
use libc::{c_int, epoll_event, nfds_t, pollfd, sigset_t, timespec, timeval};
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Largest number of descriptors for which a wait needs no allocation. With more, the pump's thread
/// serves the session as if no thread waited.
pub const MOST_FDS: usize = 63;

/// Waits until `look`, which does not wait, finds something. It looks at what `fds` are ready for.
/// `signals` is the signal mask during the wait; null is the thread's own. `home` is the source of
/// the dataplane's data that the caller waits for.
pub fn wait(
    fds: &[pollfd],
    home: Option<Home>,
    limit: Option<Duration>,
    signals: *const sigset_t,
    mut look: impl FnMut() -> c_int,
) -> Result<c_int> {
    let blocked = SignalGuard::all();
    let signals = match signals.is_null() {
        true => blocked.before(),
        false => signals,
    };
    let is_for_data = home.is_some() || fds.iter().any(|one| table::may_be_connection(one.fd));
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut all = [pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; MOST_FDS + 1];
    all[1..=fds.len()].copy_from_slice(fds);
    process::with_pump(|pump| pump.run_for_caller(home));
    loop {
        let found = Errno::result(look())?;
        if found != 0 || limit == Some(Duration::ZERO) {
            return Ok(found);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(0);
        }
        let rest = process::with_pump(|pump| pump.prepare_caller_wait(home, is_for_data));
        let rest = rest.unwrap_or(Rest::Alone);
        all[0].fd = match rest {
            // There is work to do.
            Rest::Not => continue,
            Rest::Bell(bell) => bell,
            Rest::Alone => -1,
        };
        all[0].events = libc::POLLIN;
        let waited = inside::outside(|| pause(&mut all[..=fds.len()], left, signals));
        if let Rest::Bell(_) = rest {
            let is_over = is_over(&all[0]) && waited.is_ok();
            process::with_pump(|pump| pump.handle_caller_wake(is_over, home));
        }
        waited?;
    }
}

fn pause(fds: &mut [pollfd], left: Option<Duration>, signals: *const sigset_t) -> Result<c_int> {
    let mut time = left.map(timespec_of);
    let fds = (fds.as_mut_ptr(), fds.len() as nfds_t);
    Errno::result(real::ppoll(fds, pointer_to(&mut time), signals))
}

/// Duration of a C time; `None` if it is negative.
pub fn duration_of(time: timeval) -> Option<Duration> {
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).ok()?);
    let part = Duration::from_micros(u64::try_from(time.tv_usec).ok()?);
    Some(whole.saturating_add(part))
}

/// C time of a duration.
pub fn timespec_of(time: Duration) -> timespec {
    timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// Pointer to a time, or null.
pub fn pointer_to(time: &mut Option<timespec>) -> *mut timespec {
    time.as_mut()
        .map_or(std::ptr::null_mut(), |time| &raw mut *time)
}

/// Time of zero.
pub const NOW: timespec = timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Readiness of descriptors without waiting; arguments and result as for `ppoll(2)`.
pub fn poll_now(fds: *mut pollfd, count: nfds_t) -> c_int {
    real::ppoll((fds, count), &mut { NOW }, std::ptr::null())
}

/// Runs a call with a timeout: by `wait`, or by `kernel` if the library cannot serve it or `wait`
/// returns `ENOSYS`. `kernel` gets a copy of the timeout, because the kernel writes the remaining
/// time and C's functions do not.
///
/// # Safety
///
/// The timeout must be valid or null.
pub unsafe fn timed(
    timeout: *const timespec,
    kernel: impl Fn(*mut timespec) -> c_int,
    wait: impl FnOnce(Option<Duration>) -> Result<c_int>,
) -> c_int {
    // SAFETY: as the caller guarantees.
    let requested = (!timeout.is_null()).then(|| unsafe { timeout.read() });
    let kernel = || kernel(pointer_to(&mut { requested }));
    // The kernel reports the invalid timeout.
    let Ok(limit) = limit(requested) else {
        return kernel();
    };
    let Some(_inside) = Inside::enter().filter(|_| process::has_pump()) else {
        return kernel();
    };
    match wait(limit) {
        Err(Errno::ENOSYS) => kernel(),
        result => give(result),
    }
}

/// Duration in milliseconds; a negative one is unlimited.
fn of_ms(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// `poll` on the program's own array.
///
/// # Safety
///
/// The contract of `ppoll(2)`; the kernel checks the pointers.
pub unsafe fn poll_at(
    fds: *mut pollfd,
    count: nfds_t,
    limit: Option<Duration>,
    signals: *const sigset_t,
) -> Result<c_int> {
    let look = || poll_now(fds, count);
    if count == 0 || count as usize > MOST_FDS {
        return Err(Errno::ENOSYS);
    }
    // The kernel has checked the array before it is read here.
    let found = Errno::result(look())?;
    if found != 0 {
        return Ok(found);
    }
    // SAFETY: the kernel has read the array.
    let own = unsafe { std::slice::from_raw_parts(fds, count as usize) };
    wait(own, None, limit, signals, look)
}

/// `epoll_wait(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe { epoll_pwait(fd, events, most, timeout_ms, std::ptr::null()) }
}

/// `epoll_pwait(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
    signals: *const sigset_t,
) -> c_int {
    let events = (events, most);
    let entered = Inside::enter().filter(|_| process::has_pump());
    let Some(_inside) = entered else {
        return real::epoll_pwait(fd, events, timeout_ms, signals);
    };
    let limit = of_ms(timeout_ms);
    // SAFETY: as the caller guarantees.
    give(unsafe { wait_in_set(fd, events, limit, signals) })
}

/// `epoll_pwait` with any form of timeout.
///
/// # Safety
///
/// The contract of the system call, except that the memory must be valid.
unsafe fn wait_in_set(
    fd: RawFd,
    events: (*mut epoll_event, c_int),
    limit: Option<Duration>,
    signals: *const sigset_t,
) -> Result<c_int> {
    let home = table::set(fd);
    // SAFETY: as the caller guarantees.
    let look = || unsafe { poll_set(home, events) };
    let fds = [readable(fd)];
    wait(&fds, Some(Home::Set(home)), limit, signals, look)
}

/// Collects the library's events for this set's thread and the kernel's events, each connection
/// once.
///
/// # Safety
///
/// The array must have space for that number of events.
unsafe fn poll_set(home: Set, (events, most): (*mut epoll_event, c_int)) -> c_int {
    let mut count = 0;
    process::with_pump(|pump| {
        pump.report_buffered(home, |data| {
            if count >= most {
                return false;
            }
            let event = epoll_event {
                events: libc::EPOLLIN as u32,
                u64: data,
            };
            // SAFETY: as the caller of epoll_wait guarantees, the array has space for `most`
            // events.
            unsafe { events.add(count as usize).write_unaligned(event) };
            count += 1;
            true
        });
    });
    if count == 0 {
        return real::epoll_pwait(home.0, (events, most), 0, std::ptr::null());
    }
    if count >= most {
        return count;
    }
    let rest = (events.wrapping_add(count as usize), most - count);
    let more = real::epoll_pwait(home.0, rest, 0, std::ptr::null());
    let Ok(more) = usize::try_from(more) else {
        return count;
    };
    // SAFETY: all events were just written, the last by the kernel.
    let all = unsafe { std::slice::from_raw_parts_mut(events, count as usize + more) };
    join(all, count as usize) as c_int
}

/// Merges the kernel's events, from index `first` on, with earlier ones of the same data. Returns
/// the number of events.
fn join(all: &mut [epoll_event], first: usize) -> usize {
    let mut left = first;
    for place in first..all.len() {
        let event = all[place];
        let (events, data) = (event.events, event.u64);
        let same = all[..first].iter_mut().find(|earlier| {
            let earlier_data = earlier.u64;
            earlier_data == data
        });
        match same {
            Some(earlier) => earlier.events |= events,
            None => {
                all[left] = event;
                left += 1;
            }
        }
    }
    left
}

/// `epoll_pwait2(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    let events = (events, most);
    let kernel = |time: *mut timespec| real::epoll_pwait2(fd, events, time, signals);
    // SAFETY: as the caller guarantees.
    unsafe {
        timed(timeout, kernel, |limit| {
            wait_in_set(fd, events, limit, signals)
        })
    }
}

/// `epoll_ctl(2)`. A process that waits for connections of an inherited listener serves the
/// listener itself.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    set: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if what == libc::EPOLL_CTL_ADD
        && table::inherits_listeners()
        && let Some(_inside) = Inside::enter()
    {
        super::listen::serve_inherited_listener(fd);
    }
    if what == libc::EPOLL_CTL_ADD {
        epoll_sets::is_added(fd);
    }
    let result = real::epoll_ctl(set, what, fd, event);
    if result == 0
        && table::may_be_connection(fd)
        && let Some(_inside) = Inside::enter()
        && let Some((connected, _)) = table::connection(fd)
    {
        let registration = match what {
            libc::EPOLL_CTL_DEL => None,
            // SAFETY: the kernel has read it.
            _ => Some(unsafe { event.read_unaligned() }),
        };
        let registration = registration.map(|event| (event.events, event.u64));
        connected.record_registration(table::set(set), registration);
    }
    result
}

/// Poll entry for a readable descriptor.
pub fn readable(fd: RawFd) -> pollfd {
    pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Duration of the program's timeout; `None` is unlimited.
///
/// # Errors
///
/// `EINVAL` if the timeout is invalid.
fn limit(timeout: Option<timespec>) -> Result<Option<Duration>> {
    let Some(time) = timeout else {
        return Ok(None);
    };
    let part = u32::try_from(time.tv_nsec)
        .ok()
        .filter(|ns| *ns < 1_000_000_000);
    let whole = u64::try_from(time.tv_sec).ok();
    let limit = whole.zip(part).map(|(s, ns)| Duration::new(s, ns));
    limit.map(Some).ok_or(Errno::EINVAL)
}

/// `poll(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let mut time = of_ms(timeout_ms).map(timespec_of);
    // SAFETY: as the caller guarantees.
    unsafe { ppoll(fds, count, pointer_to(&mut time), std::ptr::null()) }
}

/// `ppoll(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    let kernel = |time: *mut timespec| real::ppoll((fds, count), time, signals);
    // SAFETY: as the caller guarantees.
    unsafe { timed(timeout, kernel, |limit| poll_at(fds, count, limit, signals)) }
}

/// `poll(2)` for programs that are compiled with fortification.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout_ms: c_int,
    room: libc::size_t,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        std::process::abort();
    }
    // SAFETY: as the caller guarantees.
    unsafe { poll(fds, count, timeout_ms) }
}

/// `ppoll(2)` for programs that are compiled with fortification.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    signals: *const sigset_t,
    room: libc::size_t,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        std::process::abort();
    }
    // SAFETY: as the caller guarantees.
    unsafe { ppoll(fds, count, timeout, signals) }
}

/// Waits until `body` returns an answer of the dataplane. The caller is already inside.
///
/// # Errors
///
/// `ENETDOWN` after the time limit.
pub fn for_answer<T>(limit: Duration, mut body: impl FnMut(&mut Pump) -> Option<T>) -> Result<T> {
    let until = Instant::now() + limit;
    loop {
        let found = process::with_pump(|pump| {
            pump.run_for_caller(None);
            body(pump).ok_or_else(|| pump.prepare_caller_wait(None, true))
        });
        let left = until.saturating_duration_since(Instant::now());
        match found {
            Some(Ok(answer)) => return Ok(answer),
            None => return Err(Errno::ENETDOWN),
            Some(Err(Rest::Not)) => {}
            Some(Err(Rest::Alone)) => return process::wait(left, body),
            Some(Err(Rest::Bell(bell))) => {
                let mut bell = [readable(bell)];
                let waited = inside::outside(|| pause(&mut bell, Some(left), std::ptr::null()));
                let is_over = is_over(&bell[0]) && waited.is_ok();
                process::with_pump(|pump| pump.handle_caller_wake(is_over, None));
                if left.is_zero() {
                    return Err(Errno::ENETDOWN);
                }
            }
        }
    }
}

/// Whether the dataplane has closed the bell.
fn is_over(bell: &pollfd) -> bool {
    bell.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Waits for one descriptor. The caller is already inside.
pub fn for_one(fd: RawFd, events: i16, limit: Option<Duration>) -> Result<c_int> {
    let mut entry = pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: the entry is a local variable.
    unsafe { poll_at(&raw mut entry, 1, limit, std::ptr::null()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 52.
    #[test]
    fn kernel_and_library_events_merge_per_connection() {
        let event = |events: i32, data: u64| epoll_event {
            events: events as u32,
            u64: data,
        };
        let mut all = [
            event(libc::EPOLLIN, 1),
            event(libc::EPOLLIN, 2),
            event(libc::EPOLLIN, 3),
            event(libc::EPOLLOUT, 2),
            event(libc::EPOLLHUP, 4),
        ];
        assert_eq!(join(&mut all, 2), 4);
        let left = all[..4]
            .iter()
            .map(|event| (event.events as i32, event.u64));
        let expected = [
            (libc::EPOLLIN, 1),
            (libc::EPOLLIN | libc::EPOLLOUT, 2),
            (libc::EPOLLIN, 3),
            (libc::EPOLLHUP, 4),
        ];
        assert_eq!(left.collect::<Vec<_>>(), expected);
    }
}
