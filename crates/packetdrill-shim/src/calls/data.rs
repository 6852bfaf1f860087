//! Bytes in and out. All reading calls are one, and all writing calls.

use super::{give, may_wait, shim};
use crate::host::{Flags, Result};
use crate::shim::Shim;
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use nix::errno::Errno;

/// Reads into pieces of memory, in order.
///
/// # Safety
/// Each piece is valid memory.
unsafe fn receive(shim: &Shim, file: c_int, pieces: &[iovec], flags: c_int) -> ssize_t {
    let most = pieces.iter().map(|piece| piece.iov_len).sum();
    let read = Flags::from_bits(flags).and_then(|flags| {
        let waits = !flags.dont_wait && !shim.call(|host| host.is_nonblocking(file));
        may_wait(shim, waits, |host| host.read(file, most, flags.peek))
    });
    give(read.map(|bytes| {
        let mut rest = bytes.as_slice();
        for piece in pieces {
            let (now, later) = rest.split_at(piece.iov_len.min(rest.len()));
            // SAFETY: the piece has `iov_len` bytes, and no more than those are copied.
            unsafe {
                std::ptr::copy_nonoverlapping(now.as_ptr(), piece.iov_base.cast(), now.len())
            };
            rest = later;
        }
        bytes.len()
    }))
}

/// Writes pieces of memory, in order. One that waits writes all, as Linux does.
///
/// # Safety
/// Each piece is valid memory.
unsafe fn transmit(shim: &Shim, file: c_int, pieces: &[iovec], flags: c_int) -> ssize_t {
    let mut bytes = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        // SAFETY: the piece has `iov_len` bytes, and is not null for that.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len)
        });
    }
    let written = Flags::from_bits(flags).and_then(|flags| {
        let waits = !flags.dont_wait && !shim.call(|host| host.is_nonblocking(file));
        let mut sent = 0;
        let result = may_wait(shim, waits, |host| {
            loop {
                sent += host.write(file, &bytes[sent..])?;
                if sent == bytes.len() {
                    return Ok(());
                }
            }
        });
        match result {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    });
    give(written)
}

/// One piece.
fn piece(base: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: base.cast_mut(),
        iov_len: len,
    }]
}

/// The pieces of a vector.
///
/// # Safety
/// `pieces` has `count` entries.
unsafe fn vector<'a>(pieces: *const iovec, count: usize) -> Result<&'a [iovec]> {
    match (pieces.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Errno::EFAULT),
        // SAFETY: not null, and as the caller vouches.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pieces, count) }),
    }
}

fn count(count: c_int) -> usize {
    usize::try_from(count).unwrap_or(0)
}

pub unsafe extern "C" fn read(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: as in read(2).
    unsafe { receive(shim(userdata), file, &piece(bytes, len), 0) }
}

pub unsafe extern "C" fn recv(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as in recv(2).
    unsafe { receive(shim(userdata), file, &piece(bytes, len), flags) }
}

/// A stream's sender is its peer: no address is written (as Linux does, RFC 9293 streams).
pub unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    _: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as in recvfrom(2).
    unsafe {
        if !address_len.is_null() {
            *address_len = 0;
        }
        receive(shim(userdata), file, &piece(bytes, len), flags)
    }
}

pub unsafe extern "C" fn readv(
    userdata: *mut c_void,
    file: c_int,
    pieces: *const iovec,
    number: c_int,
) -> ssize_t {
    // SAFETY: as in readv(2).
    unsafe {
        match vector(pieces, count(number)) {
            Ok(pieces) => receive(shim(userdata), file, pieces, 0),
            Err(error) => give::<i8, _>(Err(error)),
        }
    }
}

pub unsafe extern "C" fn recvmsg(
    userdata: *mut c_void,
    file: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as in recvmsg(2): the message is valid. A stream has no name and no control data.
    unsafe {
        let pieces = match vector((*message).msg_iov, (*message).msg_iovlen) {
            Ok(pieces) => pieces,
            Err(error) => return give::<i8, _>(Err(error)),
        };
        ((*message).msg_namelen, (*message).msg_controllen) = (0, 0);
        (*message).msg_flags = 0;
        receive(shim(userdata), file, pieces, flags)
    }
}

pub unsafe extern "C" fn write(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: as in write(2).
    unsafe { transmit(shim(userdata), file, &piece(bytes, len), 0) }
}

pub unsafe extern "C" fn send(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as in send(2).
    unsafe { transmit(shim(userdata), file, &piece(bytes, len), flags) }
}

/// An address is ignored on a stream that has its peer, as Linux does.
pub unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    _: *const sockaddr,
    _: socklen_t,
) -> ssize_t {
    // SAFETY: as in sendto(2).
    unsafe { transmit(shim(userdata), file, &piece(bytes, len), flags) }
}

pub unsafe extern "C" fn writev(
    userdata: *mut c_void,
    file: c_int,
    pieces: *const iovec,
    number: c_int,
) -> ssize_t {
    // SAFETY: as in writev(2).
    unsafe {
        match vector(pieces, count(number)) {
            Ok(pieces) => transmit(shim(userdata), file, pieces, 0),
            Err(error) => give::<i8, _>(Err(error)),
        }
    }
}

pub unsafe extern "C" fn sendmsg(
    userdata: *mut c_void,
    file: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as in sendmsg(2): the message is valid.
    unsafe {
        if (*message).msg_controllen > 0 {
            return give::<i8, _>(Err(Errno::EOPNOTSUPP));
        }
        match vector((*message).msg_iov, (*message).msg_iovlen) {
            Ok(pieces) => transmit(shim(userdata), file, pieces, flags),
            Err(error) => give::<i8, _>(Err(error)),
        }
    }
}
