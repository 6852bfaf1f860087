//! Bytes in and out. All reading calls are one, and all writing calls.

use super::convert::{give, may_wait, read_address, shim, write_address};
use crate::control::{self, Control};
use crate::host::{Flags, Message, Result};
use crate::shim::Shim;
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use nix::errno::Errno;
use std::net::SocketAddr;

/// Reads into pieces of memory, in order; returns the ancillary data.
///
/// # Safety
/// Each piece is valid memory.
unsafe fn receive(shim: &Shim, file: c_int, pieces: &[iovec], flags: c_int) -> Result<Message> {
    let most = pieces.iter().map(|piece| piece.iov_len).sum();
    let flags = Flags::from_bits(flags)?;
    let waits = !flags.dont_wait && !shim.call(|host| host.is_nonblocking(file));
    let message = may_wait(shim, waits, |host| {
        host.receive_message(file, most, flags.peek)
    })?;
    let mut rest = message.bytes.as_slice();
    for piece in pieces {
        let (now, later) = rest.split_at(piece.iov_len.min(rest.len()));
        // SAFETY: the piece has `iov_len` bytes, and no more than those are copied.
        unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), piece.iov_base.cast(), now.len()) };
        rest = later;
    }
    Ok(message)
}

fn len_of(read: Result<Message>) -> ssize_t {
    give(read.map(|message| message.bytes.len()))
}

/// Writes pieces of memory, in order: a datagram, or to a stream. A write to a stream that waits
/// writes all, as Linux does.
///
/// # Safety
/// Each piece is valid memory.
unsafe fn transmit(
    shim: &Shim,
    file: c_int,
    pieces: &[iovec],
    flags: c_int,
    to: Option<SocketAddr>,
    control: &[Control],
) -> ssize_t {
    let mut bytes = Vec::new();
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        // SAFETY: the piece has `iov_len` bytes, and is not null for that.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len)
        });
    }
    let flags = match Flags::from_bits(flags) {
        Ok(flags) => flags,
        Err(error) => return give::<usize, _>(Err(error)),
    };
    if shim.call(|host| host.is_datagrams(file)) {
        return give(shim.call(|host| host.send_datagram(file, &bytes, to, control)));
    }
    if !control.is_empty() {
        return give::<usize, _>(Err(Errno::EOPNOTSUPP));
    }
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
    give(match result {
        Err(error) if sent == 0 => Err(error),
        _ => Ok(sent),
    })
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
        // SAFETY: not null, and as the caller guarantees.
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
    len_of(unsafe { receive(shim(userdata), file, &piece(bytes, len), 0) })
}

pub unsafe extern "C" fn recv(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as in recv(2).
    len_of(unsafe { receive(shim(userdata), file, &piece(bytes, len), flags) })
}

/// Writes a datagram's sender. A stream's is its peer: no address is written, as Linux does.
pub unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as in recvfrom(2).
    unsafe {
        let read = receive(shim(userdata), file, &piece(bytes, len), flags);
        match read.as_ref().map(|message| message.from) {
            Ok(Some(from)) => write_address(from, false, address, address_len),
            Ok(None) if !address_len.is_null() => *address_len = 0,
            _ => {}
        }
        len_of(read)
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
            Ok(pieces) => len_of(receive(shim(userdata), file, pieces, 0)),
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
    // SAFETY: as in recvmsg(2): the message is valid, and what it points at has the lengths it
    // says.
    unsafe {
        let message = &mut *message;
        let read = vector(message.msg_iov, message.msg_iovlen)
            .and_then(|pieces| receive(shim(userdata), file, pieces, flags));
        if let Ok(read) = &read {
            // A stream has no name.
            let name_len = std::mem::take(&mut message.msg_namelen);
            if let Some(from) = read.from.filter(|_| !message.msg_name.is_null()) {
                message.msg_namelen = name_len;
                write_address(
                    from,
                    false,
                    message.msg_name.cast(),
                    &raw mut message.msg_namelen,
                );
            }
            let room = match message.msg_control.is_null() {
                true => 0,
                false => message.msg_controllen,
            };
            let (control, is_cut) = control::lay_out(&read.control, room);
            if !control.is_empty() {
                let into = message.msg_control.cast::<u8>();
                std::ptr::copy_nonoverlapping(control.as_ptr(), into, control.len());
            }
            message.msg_controllen = control.len();
            let flag = |set: bool, flag: c_int| if set { flag } else { 0 };
            message.msg_flags = flag(read.is_cut, libc::MSG_TRUNC) | flag(is_cut, libc::MSG_CTRUNC);
        }
        len_of(read)
    }
}

pub unsafe extern "C" fn write(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: as in write(2).
    unsafe { transmit(shim(userdata), file, &piece(bytes, len), 0, None, &[]) }
}

pub unsafe extern "C" fn send(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as in send(2).
    unsafe { transmit(shim(userdata), file, &piece(bytes, len), flags, None, &[]) }
}

/// The address is a datagram's; on a stream, which has its peer, it is ignored, as Linux does.
pub unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    // SAFETY: as in sendto(2).
    unsafe {
        match named(shim(userdata), file, address, address_len) {
            Ok(to) => transmit(shim(userdata), file, &piece(bytes, len), flags, to, &[]),
            Err(error) => give::<usize, _>(Err(error)),
        }
    }
}

/// Whom a datagram is for: `None` when no address is given, and for a stream.
///
/// # Safety
/// `address` is null or has `len` bytes.
unsafe fn named(
    shim: &Shim,
    file: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> Result<Option<SocketAddr>> {
    if address.is_null() || !shim.call(|host| host.is_datagrams(file)) {
        return Ok(None);
    }
    // SAFETY: as the caller guarantees.
    unsafe { read_address(address, len) }.map(Some)
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
            Ok(pieces) => transmit(shim(userdata), file, pieces, 0, None, &[]),
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
    // SAFETY: as in sendmsg(2): the message is valid, and what it points at has the lengths it
    // says.
    unsafe {
        let (shim, message) = (shim(userdata), &*message);
        let control = match message.msg_control.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(message.msg_control.cast(), message.msg_controllen),
        };
        let (name, name_len) = (message.msg_name.cast_const().cast(), message.msg_namelen);
        let parts = vector(message.msg_iov, message.msg_iovlen).and_then(|pieces| {
            Ok((
                pieces,
                named(shim, file, name, name_len)?,
                control::parse(control)?,
            ))
        });
        match parts {
            Ok((pieces, to, control)) => transmit(shim, file, pieces, flags, to, &control),
            Err(error) => give::<usize, _>(Err(error)),
        }
    }
}
