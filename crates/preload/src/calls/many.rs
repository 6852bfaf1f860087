//! `sendmmsg` and `recvmmsg`, message by message for sockets that the dataplane serves.

use super::receive::recvmsg;
use super::send::sendmsg;
use crate::{real, table};
use libc::{c_int, c_uint, mmsghdr, timespec};
use std::time::{Duration, Instant};

/// `sendmmsg(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: as the caller guarantees.
    let has_name =
        || count > 0 && !messages.is_null() && unsafe { !(*messages).msg_hdr.msg_name.is_null() };
    let is_ours = table::has_udp() && table::udp(fd).is_some();
    if !is_ours && !has_name() {
        return real::sendmmsg(fd, messages, count, flags);
    }
    for place in 0..count.min(libc::UIO_MAXIOV as c_uint) {
        // SAFETY: as the caller guarantees.
        let message = unsafe { &mut *messages.add(place as usize) };
        // SAFETY: as the caller guarantees.
        let sent = unsafe { sendmsg(fd, &raw const message.msg_hdr, flags) };
        match c_uint::try_from(sent) {
            Ok(sent) => message.msg_len = sent,
            Err(_) if place == 0 => return -1,
            Err(_) => return place as c_int,
        }
    }
    count.min(libc::UIO_MAXIOV as c_uint) as c_int
}

/// `recvmmsg(2)`. As in Linux, the timeout is checked only after each datagram.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !table::has_udp() || table::udp(fd).is_none() {
        return real::recvmmsg(fd, messages, count, flags, timeout);
    }
    // SAFETY: as the caller guarantees.
    let limit = (!timeout.is_null()).then(|| unsafe { timeout.read() });
    let limit = limit.map(|time| Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
    let began = Instant::now();
    let mut each = flags & !libc::MSG_WAITFORONE;
    let mut taken = 0;
    for place in 0..count.min(libc::UIO_MAXIOV as c_uint) {
        // SAFETY: as the caller guarantees.
        let message = unsafe { &mut *messages.add(place as usize) };
        // SAFETY: as the caller guarantees.
        let got = unsafe { recvmsg(fd, &raw mut message.msg_hdr, each) };
        match c_uint::try_from(got) {
            Ok(got) => message.msg_len = got,
            Err(_) if place == 0 => return -1,
            Err(_) => break,
        }
        taken += 1;
        if flags & libc::MSG_WAITFORONE != 0 {
            each |= libc::MSG_DONTWAIT;
        }
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            break;
        }
    }
    if let Some(limit) = limit {
        let left = limit.saturating_sub(began.elapsed());
        // SAFETY: as the caller guarantees.
        unsafe { timeout.write(super::wait::timespec_of(left)) };
    }
    taken
}
