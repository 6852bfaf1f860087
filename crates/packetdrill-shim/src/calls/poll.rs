//! `poll` and `epoll`, on the script's clock.

use super::convert::{done, give, shim};
use crate::memory;
use crate::shim::Shim;
use cofferdam_netstack::Time;
use libc::{c_int, c_void, epoll_event, nfds_t, pollfd};
use nix::errno::Errno;
use std::time::Duration;

/// Maximum number of entries per call.
const MOST: usize = 1 << 16;

/// Deadline of a wait `timeout_ms` from now; `None` if negative, which waits forever.
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
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let mut entries = match usize::try_from(number) {
        Ok(number @ ..=MOST) => match memory::get_all(files, number) {
            Ok(entries) => entries,
            Err(error) => return done(Err(error)),
        },
        _ => return done(Err(Errno::EINVAL)),
    };
    let ready = shim.wait(limit(shim, timeout_ms), |host| {
        for file in &mut entries {
            file.revents = host.poll(file.fd, file.events);
        }
        match entries.iter().filter(|file| file.revents != 0).count() {
            0 => Err(Errno::EAGAIN),
            ready => Ok(ready),
        }
    });
    for (index, entry) in entries.iter().enumerate() {
        if let Err(error) = memory::put(files.wrapping_add(index), *entry) {
            return done(Err(error));
        }
    }
    or_none(ready)
}

/// Turns a timeout into a count of zero.
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
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    give(shim.call(|host| host.epoll_create()))
}

pub unsafe extern "C" fn epoll_ctl(
    userdata: *mut c_void,
    epoll: c_int,
    operation: c_int,
    file: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let wanted = match (event.is_null(), operation) {
        (true, _) | (_, libc::EPOLL_CTL_DEL) => Ok(None),
        (false, _) => memory::get(event).map(|event| Some((event.events, event.u64))),
    };
    let call = |wanted| shim.call(|host| host.epoll_control(epoll, operation, file, wanted));
    done(wanted.and_then(call))
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
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let ready = shim.wait(limit(shim, timeout_ms), |host| {
        host.epoll_ready(epoll, most)
    });
    or_none(ready.and_then(|found| {
        for (index, (bits, data)) in found.iter().enumerate() {
            let event = epoll_event {
                events: *bits,
                u64: *data,
            };
            memory::put(events.wrapping_add(index), event)?;
        }
        Ok(found.len())
    }))
}
