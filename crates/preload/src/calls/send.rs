//! `write` and related calls. [`udp`] handles datagrams. For a connection, the calling thread
//! passes data to the session as far as the window allows. The rest, and data of other sockets,
//! goes to the kernel.
//!
//! stdio's internal calls, sendfile and splice bypass this library. They write to the pair, whose
//! data precedes later data, so the order is preserved.

use super::{slices, udp};
use crate::inside::Inside;
use crate::{process, real, table};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::io::IoSlice;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// Flags that do not change where data is sent.
const PLAIN: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_MORE;

/// Sends a datagram if the dataplane serves the socket, or serves it from now on because of `to`.
///
/// # Safety
///
/// The contract of `sendmsg(2)`, except that the memory must be valid.
unsafe fn datagram(
    fd: RawFd,
    parts: &[IoSlice<'_>],
    to: (*const sockaddr, socklen_t),
    control: (*mut c_void, size_t),
    flags: c_int,
) -> Option<ssize_t> {
    let _inside = Inside::enter()?;
    let message = udp::Message {
        parts,
        to,
        control,
        flags,
    };
    // SAFETY: as the caller guarantees.
    let sent = unsafe { udp::send(fd, &message) }?;
    Some(sent.unwrap_or_else(|error| {
        error.set();
        -1
    }))
}

/// Sends a datagram of one part, see [`datagram`].
unsafe fn datagram_of_one(
    fd: RawFd,
    (bytes, len): (*const c_void, size_t),
    to: (*const sockaddr, socklen_t),
    flags: c_int,
) -> Option<ssize_t> {
    if to.0.is_null() && !table::has_udp() {
        return None;
    }
    // SAFETY: as the caller guarantees.
    let part = unsafe { slices::one(bytes, len) };
    let parts = match &part {
        Some(part) => std::slice::from_ref(part),
        None if len == 0 => &[],
        // The pointer is invalid, which the kernel must report.
        None => return None,
    };
    // SAFETY: as the caller guarantees.
    unsafe { datagram(fd, parts, to, NO_CONTROL, flags) }
}

/// Sends a datagram of several parts, see [`datagram`].
unsafe fn datagram_of_parts(
    fd: RawFd,
    (parts, count): (*const iovec, size_t),
    to: (*const sockaddr, socklen_t),
    control: (*mut c_void, size_t),
    flags: c_int,
) -> Option<ssize_t> {
    if to.0.is_null() && !table::has_udp() {
        return None;
    }
    if let (1, Some(part)) = (
        count,
        // SAFETY: as the caller guarantees.
        unsafe { parts.as_ref() },
    ) && control.0.is_null()
    {
        // SAFETY: as the caller guarantees.
        return unsafe { datagram_of_one(fd, (part.iov_base, part.iov_len), to, flags) };
    }
    // SAFETY: as the caller guarantees.
    let parts = unsafe { slices::of_datagram(parts, count) }?;
    // SAFETY: as the caller guarantees.
    unsafe { datagram(fd, &parts, to, control, flags) }
}

const NO_CONTROL: (*mut c_void, size_t) = (std::ptr::null_mut(), 0);
const NOWHERE: (*const sockaddr, socklen_t) = (std::ptr::null(), 0);

/// Passes data to the session. Returns the number of accepted bytes, 0 if the kernel must be asked.
/// For a descriptor that [`table::may_be_connection`].
fn pass_to_session(fd: RawFd, parts: &[IoSlice<'_>]) -> usize {
    // A signal handler that has interrupted the library must not enter it again.
    let Some(_inside) = Inside::enter() else {
        return 0;
    };
    let Some((connected, inode)) = table::connection(fd) else {
        return 0;
    };
    if connected.is_shut.load(Ordering::Acquire) {
        return 0;
    }
    process::with_pump(|pump| pump.send(connected.name(), inode, parts)).unwrap_or(0)
}

/// Parts from byte `at` on.
fn remaining(parts: &[IoSlice<'_>], mut at: usize) -> Vec<iovec> {
    let mut rest = Vec::with_capacity(parts.len());
    for part in parts {
        let skipped = at.min(part.len());
        at -= skipped;
        if skipped < part.len() {
            rest.push(iovec {
                iov_base: part[skipped..].as_ptr().cast_mut().cast(),
                iov_len: part.len() - skipped,
            });
        }
    }
    rest
}

/// Result of a call before which `sent` bytes were sent.
fn total_sent(sent: usize, more: ssize_t) -> ssize_t {
    match (sent, more) {
        (0, more) => more,
        (sent, more) => sent as ssize_t + more.max(0),
    }
}

/// `write(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: as the caller guarantees.
    if let Some(sent) = unsafe { datagram_of_one(fd, (bytes, len), NOWHERE, 0) } {
        return sent;
    }
    if !table::may_be_connection(fd) {
        return real::write(fd, bytes, len);
    }
    // SAFETY: as the caller guarantees.
    let Some(part) = (unsafe { slices::one(bytes, len) }) else {
        return real::write(fd, bytes, len);
    };
    match pass_to_session(fd, &[part]) {
        sent if sent == len => len as ssize_t,
        sent => total_sent(
            sent,
            real::write(fd, part[sent..].as_ptr().cast(), len - sent),
        ),
    }
}

/// `writev(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let all = (parts, usize::try_from(count).unwrap_or(usize::MAX));
    // SAFETY: as the caller guarantees.
    if let Some(sent) = unsafe { datagram_of_parts(fd, all, NOWHERE, NO_CONTROL, 0) } {
        return sent;
    }
    if !table::may_be_connection(fd) {
        return real::writev(fd, parts, count);
    }
    // SAFETY: as the caller guarantees.
    let Some(all) = (unsafe { slices::all(parts, usize::try_from(count).unwrap_or(0)) }) else {
        return real::writev(fd, parts, count);
    };
    let sent = pass_to_session(fd, &all);
    let rest = remaining(&all, sent);
    match (sent, rest.len()) {
        (0, _) => real::writev(fd, parts, count),
        (sent, 0) => sent as ssize_t,
        (sent, left) => total_sent(sent, real::writev(fd, rest.as_ptr(), left as c_int)),
    }
}

/// `send(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as the caller guarantees.
    unsafe { sendto(fd, bytes, len, flags, std::ptr::null(), 0) }
}

/// `sendto(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    let to = (to, to_len);
    // SAFETY: as the caller guarantees.
    if let Some(sent) = unsafe { datagram_of_one(fd, (bytes, len), to, flags) } {
        return sent;
    }
    if !table::may_be_connection(fd) || !to.0.is_null() || flags & !PLAIN != 0 {
        return real::sendto(fd, bytes, len, flags, to);
    }
    // SAFETY: as the caller guarantees.
    let Some(part) = (unsafe { slices::one(bytes, len) }) else {
        return real::sendto(fd, bytes, len, flags, to);
    };
    match pass_to_session(fd, &[part]) {
        sent if sent == len => len as ssize_t,
        sent => {
            let rest = part[sent..].as_ptr().cast();
            total_sent(sent, real::sendto(fd, rest, len - sent, flags, to))
        }
    }
}

/// `sendmsg(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if !message.is_null() {
        // SAFETY: as the caller guarantees.
        let header = unsafe { message.read() };
        let to = (header.msg_name.cast_const().cast(), header.msg_namelen);
        let parts = (header.msg_iov.cast_const(), header.msg_iovlen);
        let control = (header.msg_control, header.msg_controllen);
        // SAFETY: as the caller guarantees.
        if let Some(sent) = unsafe { datagram_of_parts(fd, parts, to, control, flags) } {
            return sent;
        }
    }
    if !table::may_be_connection(fd) || message.is_null() || flags & !PLAIN != 0 {
        return real::sendmsg(fd, message, flags);
    }
    // SAFETY: as the caller guarantees.
    let mut header = unsafe { message.read() };
    if !header.msg_name.is_null() || header.msg_controllen != 0 {
        return real::sendmsg(fd, message, flags);
    }
    // SAFETY: as the caller guarantees.
    let Some(all) = (unsafe { slices::all(header.msg_iov, header.msg_iovlen) }) else {
        return real::sendmsg(fd, message, flags);
    };
    let sent = pass_to_session(fd, &all);
    let mut rest = remaining(&all, sent);
    match (sent, rest.len()) {
        (0, _) => real::sendmsg(fd, message, flags),
        (sent, 0) => sent as ssize_t,
        (sent, left) => {
            header.msg_iov = rest.as_mut_ptr();
            header.msg_iovlen = left;
            total_sent(sent, real::sendmsg(fd, &raw const header, flags))
        }
    }
}

/// `shutdown(2)`. Later data must not bypass the pair, which is shut down.
#[unsafe(no_mangle)]
pub extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if let Some((_inside, found)) = udp::enter(fd) {
        return udp::shutdown(&found, how);
    }
    if matches!(how, libc::SHUT_WR | libc::SHUT_RDWR)
        && let Some(_inside) = Inside::enter()
        && let Some((connected, _)) = table::connection(fd)
    {
        connected.is_shut.store(true, Ordering::Release);
    }
    real::shutdown(fd, how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_the_session_rejects_starts_at_the_next_byte() {
        let parts = [&b"ab"[..], b"cde", b"f"].map(IoSlice::new);
        let texts = |at| {
            let rest = remaining(&parts, at);
            rest.iter().map(|part| part.iov_len).collect::<Vec<_>>()
        };
        assert_eq!(texts(0), [2, 3, 1]);
        assert_eq!(texts(1), [1, 3, 1]);
        assert_eq!(texts(4), [1, 1]);
        assert_eq!(texts(6), [0; 0]);
        assert_eq!(
            (total_sent(0, -1), total_sent(3, -1), total_sent(3, 2)),
            (-1, 3, 5)
        );
    }
}
