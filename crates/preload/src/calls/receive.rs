//! `read` and its kin: what is held for a thread that was told of it by `epoll_wait`, and what comes while a
//! call blocks, is copied from where the dataplane put it; all else is the kernel's to give.

use super::{blocking, slices};
use crate::inside::Inside;
use crate::table::{self, Stage};
use crate::{process, real};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::io::IoSliceMut;
use std::os::fd::RawFd;

/// Flags that say nothing about what is read.
const PLAIN: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;

/// Bytes that were held, or have come while the call blocked, and are copied; none where the kernel must be
/// asked. For a descriptor that [`table::may_be_connection`].
fn taken(fd: RawFd, parts: &mut [IoSliceMut<'_>], flags: c_int) -> Option<ssize_t> {
    // A handler of a signal that has interrupted the library has no second turn.
    let _inside = Inside::enter().filter(|_| process::has_pump())?;
    let (connected, inode) = table::connection(fd)?;
    let name = connected.name();
    let mut taken = process::with_pump(|pump| pump.receive(name, inode, parts)).flatten();
    // What is waited for in an epoll set is not read by calls that block.
    let may_block = flags & libc::MSG_DONTWAIT == 0 && !connected.is_watched();
    if taken.is_none() && may_block && connected.stage() == Stage::Open && real::blocks(fd) {
        match blocking::read(fd, (name, inode), parts) {
            Ok(read) => taken = read,
            Err(error) => {
                error.set();
                return Some(-1);
            }
        }
    }
    ssize_t::try_from(taken?).ok()
}

/// One part.
///
/// # Safety
/// As `read(2)`, except that the memory must be there.
unsafe fn one(fd: RawFd, bytes: *mut c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    // SAFETY: as the caller guarantees.
    let part = unsafe { slices::one_to_fill(bytes, len) }?;
    taken(fd, &mut [part], flags)
}

/// `read(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, len: size_t) -> ssize_t {
    if table::may_be_connection(fd)
        // SAFETY: as the caller guarantees.
        && let Some(taken) = unsafe { one(fd, bytes, len, 0) }
    {
        return taken;
    }
    real::read(fd, bytes, len)
}

/// `recv(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the caller guarantees.
    unsafe {
        recvfrom(
            fd,
            bytes,
            len,
            flags,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    }
}

/// `recvfrom(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if table::may_be_connection(fd)
        && from.is_null()
        && flags & !PLAIN == 0
        // SAFETY: as the caller guarantees.
        && let Some(taken) = unsafe { one(fd, bytes, len, flags) }
    {
        return taken;
    }
    real::recvfrom(fd, bytes, len, flags, (from, from_len))
}

/// `readv(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if table::may_be_connection(fd)
        // SAFETY: as the caller guarantees.
        && let Some(mut all) = unsafe { slices::to_fill(parts, usize::try_from(count).unwrap_or(0)) }
        && let Some(taken) = taken(fd, &mut all, 0)
    {
        return taken;
    }
    real::readv(fd, parts, count)
}

/// `recvmsg(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if !table::may_be_connection(fd) || message.is_null() || flags & !PLAIN != 0 {
        return real::recvmsg(fd, message, flags);
    }
    // SAFETY: as the caller guarantees.
    let told = unsafe { message.read() };
    // SAFETY: as the caller guarantees.
    if let Some(mut all) = unsafe { slices::to_fill(told.msg_iov, told.msg_iovlen) }
        && let Some(taken) = taken(fd, &mut all, flags)
    {
        if taken < 0 {
            return taken;
        }
        // SAFETY: as the caller guarantees. No address and no control message comes of a stream.
        unsafe {
            (*message).msg_namelen = 0;
            (*message).msg_controllen = 0;
            (*message).msg_flags = 0;
        }
        return taken;
    }
    real::recvmsg(fd, message, flags)
}

/// `read(2)` as programs that are built with checks call it.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    if room < len {
        std::process::abort();
    }
    // SAFETY: as the caller guarantees.
    unsafe { read(fd, bytes, len) }
}

/// `recv(2)`, as [`__read_chk`].
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if room < len {
        std::process::abort();
    }
    // SAFETY: as the caller guarantees.
    unsafe { recv(fd, bytes, len, flags) }
}

/// `recvfrom(2)`, as [`__read_chk`].
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if room < len {
        std::process::abort();
    }
    // SAFETY: as the caller guarantees.
    unsafe { recvfrom(fd, bytes, len, flags, from, from_len) }
}
