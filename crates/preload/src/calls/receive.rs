//! `read` and related calls. [`udp`] handles datagrams. For a connection, data that the library
//! buffers for a thread in `epoll_wait`, and data that arrives during a blocking call, is copied
//! from the dataplane's memory. The kernel handles everything else.

use super::{blocking, slices, udp};
use crate::inside::Inside;
use crate::table::{self, Stage};
use crate::{process, real};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use std::io::IoSliceMut;
use std::os::fd::RawFd;

/// Flags that do not change what is read.
const PLAIN: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;

/// Receives the next datagram if the dataplane serves the socket.
///
/// # Safety
///
/// The contract of `recvmsg(2)`, except that the memory must be valid.
unsafe fn datagram(fd: RawFd, message: &mut msghdr, flags: c_int) -> Option<ssize_t> {
    let (_inside, found) = udp::enter(fd)?;
    // SAFETY: as the caller guarantees.
    let got = unsafe { udp::recvmsg(&found, message, flags) };
    Some(got.unwrap_or_else(|error| {
        error.set();
        -1
    }))
}

/// Receives a datagram in parts, see [`datagram`].
unsafe fn parts_of_datagram(
    fd: RawFd,
    (parts, count): (*const iovec, size_t),
    (from, from_len): (*mut sockaddr, *mut socklen_t),
    flags: c_int,
) -> Option<ssize_t> {
    if !table::has_udp() {
        return None;
    }
    // SAFETY: all zeros are a valid value.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.cast_mut(), count);
    if !from.is_null() && !from_len.is_null() {
        // SAFETY: as the caller guarantees.
        (message.msg_name, message.msg_namelen) = (from.cast(), unsafe { from_len.read() });
    }
    // SAFETY: as the caller guarantees.
    let got = unsafe { datagram(fd, &mut message, flags) }?;
    if got >= 0 && !message.msg_name.is_null() {
        // SAFETY: as the caller guarantees.
        unsafe { from_len.write(message.msg_namelen) };
    }
    Some(got)
}

/// Receives a datagram in one part, see [`datagram`].
unsafe fn one_datagram(
    fd: RawFd,
    (bytes, len): (*mut c_void, size_t),
    from: (*mut sockaddr, *mut socklen_t),
    flags: c_int,
) -> Option<ssize_t> {
    let part = iovec {
        iov_base: bytes,
        iov_len: len,
    };
    // SAFETY: as the caller guarantees.
    unsafe { parts_of_datagram(fd, (&raw const part, 1), from, flags) }
}

const NOBODY: (*mut sockaddr, *mut socklen_t) = (std::ptr::null_mut(), std::ptr::null_mut());

/// Copies data that was buffered or has arrived during a blocking call. Returns `None` if the
/// kernel must be asked. For a descriptor that [`table::may_be_connection`].
fn take_data(fd: RawFd, parts: &mut [IoSliceMut<'_>], flags: c_int) -> Option<ssize_t> {
    // A signal handler that has interrupted the library must not enter it again.
    let _inside = Inside::enter().filter(|_| process::has_pump())?;
    let (connected, inode) = table::connection(fd)?;
    let name = connected.name();
    let mut taken = process::with_pump(|pump| pump.receive(name, inode, parts)).flatten();
    // A connection in an epoll set is not read by a blocking call of the library.
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

/// Reads one part.
///
/// # Safety
///
/// The contract of `read(2)`, except that the memory must be valid.
unsafe fn one(fd: RawFd, bytes: *mut c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    // SAFETY: as the caller guarantees.
    let part = unsafe { slices::one_to_fill(bytes, len) }?;
    take_data(fd, &mut [part], flags)
}

/// `read(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, bytes: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: as the caller guarantees.
    if let Some(got) = unsafe { one_datagram(fd, (bytes, len), NOBODY, 0) } {
        return got;
    }
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
/// The contract of the system call.
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
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as the caller guarantees.
    if let Some(got) = unsafe { one_datagram(fd, (bytes, len), (from, from_len), flags) } {
        return got;
    }
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
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let all = (parts, usize::try_from(count).unwrap_or(usize::MAX));
    // SAFETY: as the caller guarantees.
    if let Some(got) = unsafe { parts_of_datagram(fd, all, NOBODY, 0) } {
        return got;
    }
    let len = usize::try_from(count).unwrap_or(0);
    if table::may_be_connection(fd)
        // SAFETY: as the caller guarantees.
        && let Some(mut all) = unsafe { slices::to_fill(parts, len) }
        && let Some(taken) = take_data(fd, &mut all, 0)
    {
        return taken;
    }
    real::readv(fd, parts, count)
}

/// `recvmsg(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as the caller guarantees.
    if let Some(message) = unsafe { message.as_mut() }
        // SAFETY: as the caller guarantees.
        && let Some(got) = unsafe { datagram(fd, message, flags) }
    {
        return got;
    }
    if !table::may_be_connection(fd) || message.is_null() || flags & !PLAIN != 0 {
        return real::recvmsg(fd, message, flags);
    }
    // SAFETY: as the caller guarantees.
    let header = unsafe { message.read() };
    // SAFETY: as the caller guarantees.
    if let Some(mut all) = unsafe { slices::to_fill(header.msg_iov, header.msg_iovlen) }
        && let Some(taken) = take_data(fd, &mut all, flags)
    {
        if taken < 0 {
            return taken;
        }
        // SAFETY: as the caller guarantees. A stream has no address and no control message.
        unsafe {
            (*message).msg_namelen = 0;
            (*message).msg_controllen = 0;
            (*message).msg_flags = 0;
        }
        return taken;
    }
    real::recvmsg(fd, message, flags)
}

/// `read(2)` for programs that are compiled with fortification.
///
/// # Safety
/// The contract of the system call.
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

/// `recv(2)` for programs that are compiled with fortification.
///
/// # Safety
/// The contract of the system call.
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

/// `recvfrom(2)` for programs that are compiled with fortification.
///
/// # Safety
/// The contract of the system call.
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
