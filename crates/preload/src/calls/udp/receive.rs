//! `recv` and related calls on UDP sockets.

use super::UdpSocket;
use super::takeover::take_over;
use crate::calls::blocking;
use crate::control;
use crate::heading::{self, Heading};
use crate::inside;
use crate::real;
use cofferdam_bsd::{Result, with_bytes};
use libc::{c_int, iovec, msghdr, ssize_t};
use nix::errno::Errno;

/// Parts of a message that need no allocation.
const FEW: usize = 8;

/// `recvmsg(2)`. The caller is already inside.
///
/// # Safety
///
/// The contract of the system call, except that the memory must be valid.
pub unsafe fn recvmsg(found: &UdpSocket, message: &mut msghdr, flags: c_int) -> Result<ssize_t> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        // Only the kernel socket has an error queue.
        let kernel = found.shown.kernel().ok_or(Errno::EAGAIN)?;
        return Errno::result(real::recvmsg(kernel, message, flags));
    }
    if message.msg_iovlen > libc::UIO_MAXIOV as usize {
        return Err(Errno::EMSGSIZE);
    }
    // SAFETY: as the caller guarantees.
    let mut taken = unsafe { take(found, message, flags | libc::MSG_DONTWAIT) };
    if taken == Err(Errno::EAGAIN) && flags & libc::MSG_DONTWAIT == 0 {
        blocking::until_readable(found.fd)?;
        // SAFETY: as the caller guarantees.
        taken = unsafe { take(found, message, flags) };
    }
    let (heading, got, got_flags) = taken?;
    let Some(heading) = heading else {
        // The socket is shut down for reading, or the process with the library's end has ended.
        let waits = flags & libc::MSG_DONTWAIT == 0 && real::blocks(found.fd);
        return match found.shown.is_shut_for_reading() {
            true if waits => Ok(0),
            true => Err(Errno::EAGAIN),
            false => {
                let found = take_over(found)?;
                // SAFETY: as the caller guarantees.
                unsafe { recvmsg(&found, message, flags) }
            }
        };
    };
    if heading.error != 0 {
        return Err(Errno::from_raw(heading.error));
    }
    message.msg_flags = got_flags & !libc::MSG_EOR;
    if !message.msg_name.is_null() {
        let room = message.msg_namelen as usize;
        with_bytes(heading.name(), found.is_v6, |bytes| {
            let count = bytes.len().min(room);
            // SAFETY: as the caller guarantees, the buffer has space for `count` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), message.msg_name.cast(), count);
            }
            message.msg_namelen = bytes.len() as libc::socklen_t;
        });
    }
    // SAFETY: as the caller guarantees.
    unsafe { control::write(message, found.shown.wanted(), found.is_v6, &heading) };
    Ok(got)
}

/// Receives the next message of the pair. The heading is `None` if the pair has ended.
unsafe fn take(
    found: &UdpSocket,
    message: &msghdr,
    flags: c_int,
) -> Result<(Option<Heading>, ssize_t, c_int)> {
    let mut bytes = [0_u8; heading::BYTES];
    let first = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let theirs = match message.msg_iov.is_null() || message.msg_iovlen == 0 {
        true => &[],
        // SAFETY: as the caller guarantees.
        false => unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) },
    };
    let mut few = [first; FEW + 1];
    let mut many = Vec::new();
    let parts = match few.get_mut(1..=theirs.len()) {
        Some(place) => {
            place.copy_from_slice(theirs);
            &mut few[..=theirs.len()]
        }
        None => {
            many.push(first);
            many.extend_from_slice(theirs);
            &mut many[..]
        }
    };
    // SAFETY: all zeros are a valid value.
    let mut own: msghdr = unsafe { std::mem::zeroed() };
    (own.msg_iov, own.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
    let got = match flags & libc::MSG_DONTWAIT {
        0 => inside::outside(|| real::recvmsg(found.fd, &raw mut own, flags)),
        _ => real::recvmsg(found.fd, &raw mut own, flags),
    };
    let got = Errno::result(got)?;
    let heading = Heading::decode(&bytes);
    if got > 0 && heading.is_none() {
        // A message without a heading was not written by the library.
        return Err(Errno::EAGAIN);
    }
    let heading = heading.filter(|_| got > 0);
    Ok((heading, got - heading::BYTES as ssize_t, own.msg_flags))
}

/// Bytes of the next datagram (`FIONREAD`).
pub fn waiting(found: &UdpSocket) -> c_int {
    // SAFETY: all zeros are a valid value.
    let mut own: msghdr = unsafe { std::mem::zeroed() };
    let flags = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    let got = real::recvmsg(found.fd, &raw mut own, flags);
    (got - heading::BYTES as ssize_t).max(0) as c_int
}
