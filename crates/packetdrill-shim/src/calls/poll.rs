//! `poll` and `epoll`: times are the script's.

use super::convert::{done, give, shim};
use crate::shim::Shim;
use cofferdam_netstack::Time;
use libc::{c_int, c_void, epoll_event, nfds_t, pollfd};
use nix::errno::Errno;
use std::time::Duration;

/// When to give up: milliseconds from now, without end when negative.
fn limit(shim: &Shim, timeout_ms: c_int) -> Option<Time> {
    let timeout = Duration::from_millis(u64::try_from(timeout_ms).ok()?);
    Some(shim.call(|host| host.now()) + timeout)
}

pub unsafe extern "C" fn poll(
    userdata: *mut c_void,
    files: *mut pollfd,
    number: nfds_t,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: the table's first argument; the array is as in poll(2).
    let (shim, files) = unsafe {
        let files = match number {
            0 => &mut [][..],
            _ => std::slice::from_raw_parts_mut(files, number as usize),
        };
        (shim(userdata), files)
    };
    let ready = shim.wait(limit(shim, timeout_ms), |host| {
        for file in &mut *files {
            file.revents = host.poll(file.fd, file.events);
        }
        match files.iter().filter(|file| file.revents != 0).count() {
            0 => Err(Errno::EAGAIN),
            ready => Ok(ready),
        }
    });
    or_none(ready)
}

/// A wait that ran out found none.
fn or_none(ready: crate::host::Result<usize>) -> c_int {
    match ready {
        Err(Errno::EAGAIN) => 0,
        other => give(other),
    }
}

pub unsafe extern "C" fn epoll_create(userdata: *mut c_void, size: c_int) -> c_int {
    if size <= 0 {
        return done(Err(Errno::EINVAL));
    }
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    shim.call(|host| host.epoll_create())
}

pub unsafe extern "C" fn epoll_ctl(
    userdata: *mut c_void,
    epoll: c_int,
    operation: c_int,
    file: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the table's first argument; the event is null or valid, as in epoll_ctl(2).
    let (shim, event) = unsafe { (shim(userdata), event.as_ref()) };
    let wanted = event.map(|event| (event.events, event.u64));
    done(shim.call(|host| host.epoll_control(epoll, operation, file, wanted)))
}

pub unsafe extern "C" fn epoll_wait(
    userdata: *mut c_void,
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    let most = match usize::try_from(most) {
        Ok(most) if most > 0 => most,
        _ => return done(Err(Errno::EINVAL)),
    };
    // SAFETY: the table's first argument.
    let shim = unsafe { shim(userdata) };
    let ready = shim.wait(limit(shim, timeout_ms), |host| {
        host.epoll_ready(epoll, most)
    });
    or_none(ready.map(|found| {
        for (index, (bits, data)) in found.iter().enumerate() {
            let event = epoll_event {
                events: *bits,
                u64: *data,
            };
            // SAFETY: at most `most` were found, and the array has as many.
            unsafe { events.add(index).write(event) };
        }
        found.len()
    }))
}
