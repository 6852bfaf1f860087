//! Reading and writing data. All reading calls share one path, and so do all writing calls.

use super::convert::{give, may_wait, read_address, shim, write_address};
use crate::control::{self, Control};
use crate::host::{Flags, Message, Result};
use crate::memory;
use crate::shim::Shim;
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use nix::errno::Errno;
use std::net::SocketAddr;

/// Maximum length of a vector (IOV_MAX of limits.h).
const MOST_PIECES: usize = 1024;

/// Reads into pieces of memory in order and returns the message without its data.
fn receive(shim: &Shim, file: c_int, pieces: &[iovec], flags: c_int) -> Result<Message> {
    let most = pieces.iter().map(|piece| piece.iov_len).sum();
    let flags = Flags::from_bits(flags)?;
    // Linux never waits for the urgent byte (tcp_recv_urg).
    let waits = flags.waits() && !flags.urgent && !shim.call(|host| host.is_nonblocking(file));
    // Peeks first, so that data that could not be copied out stays in the queue.
    let look = Flags {
        peek: true,
        ..flags
    };
    let scatter = |message: &Message| {
        let mut rest = message.bytes.as_slice();
        for piece in pieces {
            let (now, later) = rest.split_at(piece.iov_len.min(rest.len()));
            memory::write(piece.iov_base, now)?;
            rest = later;
        }
        Ok(())
    };
    if flags.errors {
        let message = may_wait(shim, waits, |host| host.receive_message(file, most, flags))?;
        scatter(&message)?;
        return Ok(message);
    }
    let waits_for_all = waits && flags.all;
    let mut message = may_wait(shim, waits, |host| {
        if waits_for_all && host.is_short_of(file, most) {
            return Err(Errno::EAGAIN);
        }
        let message = host.receive_message(file, most, look)?;
        scatter(&message)?;
        if flags.peek {
            return Ok(message);
        }
        host.receive_message(file, most, flags)
    })?;
    if flags.truncate && !message.is_stream() {
        message.reported = message.whole_bytes;
    }
    Ok(message)
}

fn len_of(read: Result<Message>) -> ssize_t {
    give(read.map(|message| message.reported))
}

/// Concatenates pieces of memory.
fn gather(pieces: &[iovec]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend(memory::read(piece.iov_base, piece.iov_len)?);
    }
    Ok(bytes)
}

/// Writes pieces of memory in order, as one datagram or to a stream.
fn transmit(
    shim: &Shim,
    file: c_int,
    pieces: &[iovec],
    flags: c_int,
    to: Option<SocketAddr>,
    control: &[Control],
) -> Result<usize> {
    let flags = Flags::from_bits(flags)?;
    if shim.call(|host| host.is_datagrams(file)) {
        let bytes = gather(pieces)?;
        return shim.call(|host| host.send_datagram(file, &bytes, to, control));
    }
    if !control.is_empty() {
        return Err(Errno::EOPNOTSUPP);
    }
    let deferred = shim.call(|host| host.deferred(file));
    let fresh = flags.fast_open && shim.call(|host| host.is_fresh(file));
    match (deferred, to) {
        (Some(to), _) => fast_open(shim, file, pieces, flags, to),
        (None, Some(to)) if fresh => fast_open(shim, file, pieces, flags, to),
        (None, None) if fresh => Err(Errno::EINVAL),
        _ if flags.fast_open && shim.call(|host| host.is_connecting(file)) => {
            shim.call(|host| host.open_already(file)).and_then(Err)
        }
        // Linux ignores the address once the connection is open.
        _ => send_bytes(shim, file, &gather(pieces)?, flags),
    }
}

/// Writes to a stream. A blocking write writes everything, as in Linux.
pub fn send_bytes(shim: &Shim, file: c_int, bytes: &[u8], flags: Flags) -> Result<usize> {
    let waits = flags.waits() && !shim.call(|host| host.is_nonblocking(file));
    let mut sent = 0;
    let result = may_wait(shim, waits, |host| {
        loop {
            sent += host.write(file, &bytes[sent..], flags)?;
            if sent == bytes.len() {
                return Ok(());
            }
        }
    });
    match result {
        Err(error) if sent == 0 => Err(error),
        _ => Ok(sent),
    }
}

/// Combines `connect` and `send` (RFC 7413).
fn fast_open(
    shim: &Shim,
    file: c_int,
    pieces: &[iovec],
    flags: Flags,
    to: SocketAddr,
) -> Result<usize> {
    let bytes = gather(pieces)?;
    let waits = flags.waits() && !shim.call(|host| host.is_nonblocking(file));
    let taken = match shim.call(|host| host.fast_open(file, to, &bytes, flags)) {
        Err(Errno::EINPROGRESS) if waits => 0,
        Ok(taken) if waits => taken,
        other => return other,
    };
    let taken = taken + shim.call(|host| host.write_when_open(file, &bytes[taken..]));
    shim.wait(None, |host| match host.connect(file, to) {
        Err(Errno::EALREADY) => Err(Errno::EAGAIN),
        Err(Errno::EISCONN) => Ok(()),
        other => other,
    })?;
    if taken == bytes.len() {
        return Ok(taken);
    }
    send_bytes(shim, file, &bytes[taken..], flags).map(|sent| taken + sent)
}

/// A vector of one piece.
fn piece(base: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: base.cast_mut(),
        iov_len: len,
    }]
}

/// Copies the pieces out of a C vector.
fn vector(pieces: *const iovec, count: usize) -> Result<Vec<iovec>> {
    match count {
        0 => Ok(Vec::new()),
        1..=MOST_PIECES => memory::get_all(pieces, count),
        _ => Err(Errno::EMSGSIZE),
    }
}

fn owns(shim: &Shim, file: c_int) -> bool {
    shim.call(|host| host.owns(file))
}

pub unsafe extern "C" fn read(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !owns(shim, file) {
        // SAFETY: the descriptor is the kernel's, and the kernel checks the pointer.
        return unsafe { libc::read(file, bytes, len) };
    }
    len_of(receive(shim, file, &piece(bytes, len), 0))
}

pub unsafe extern "C" fn recv(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    len_of(receive(shim, file, &piece(bytes, len), flags))
}

/// Stores the sender's address for a datagram. For a stream no address is stored, as in Linux.
pub unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    file: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let read = receive(shim, file, &piece(bytes, len), flags).and_then(|message| {
        match message.from {
            Some(from) => write_address(from, false, address, address_len)?,
            None if !address_len.is_null() => memory::put(address_len, 0)?,
            None => {}
        }
        Ok(message)
    });
    len_of(read)
}

pub unsafe extern "C" fn readv(
    userdata: *mut c_void,
    file: c_int,
    pieces: *const iovec,
    number: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !owns(shim, file) {
        // SAFETY: the descriptor is the kernel's, and the kernel checks the pointer.
        return unsafe { libc::readv(file, pieces, number) };
    }
    len_of(counted(pieces, number).and_then(|pieces| receive(shim, file, &pieces, 0)))
}

/// Copies the pieces out of a C vector whose length is signed.
fn counted(pieces: *const iovec, number: c_int) -> Result<Vec<iovec>> {
    match usize::try_from(number) {
        Ok(count @ ..=MOST_PIECES) => vector(pieces, count),
        _ => Err(Errno::EINVAL),
    }
}

pub unsafe extern "C" fn recvmsg(
    userdata: *mut c_void,
    file: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let read = memory::get(message).and_then(|mut header| {
        let pieces = vector(header.msg_iov, header.msg_iovlen)?;
        let read = receive(shim, file, &pieces, flags)?;
        // A stream has no source address.
        let name_len = std::mem::take(&mut header.msg_namelen);
        if let Some(from) = read.from.filter(|_| !header.msg_name.is_null()) {
            let mut len = name_len;
            write_address(from, false, header.msg_name.cast(), &raw mut len)?;
            header.msg_namelen = len;
        }
        let room = match header.msg_control.is_null() {
            true => 0,
            false => header.msg_controllen,
        };
        let (control, is_cut) = control::lay_out(&read.control, room);
        memory::write(header.msg_control, &control)?;
        header.msg_controllen = control.len();
        let flag = |set: bool, flag: c_int| if set { flag } else { 0 };
        header.msg_flags = flag(read.is_cut, libc::MSG_TRUNC)
            | flag(is_cut, libc::MSG_CTRUNC)
            | flag(read.is_error, libc::MSG_ERRQUEUE);
        memory::put(message, header)?;
        Ok(read)
    });
    len_of(read)
}

pub unsafe extern "C" fn write(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !owns(shim, file) {
        // SAFETY: the descriptor is the kernel's, and the kernel checks the pointer.
        return unsafe { libc::write(file, bytes, len) };
    }
    give(transmit(shim, file, &piece(bytes, len), 0, None, &[]))
}

pub unsafe extern "C" fn send(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    give(transmit(shim, file, &piece(bytes, len), flags, None, &[]))
}

/// Uses the address for a datagram. A stream ignores it, as in Linux.
pub unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    file: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let to = named(shim, file, flags, address, address_len);
    give(to.and_then(|to| transmit(shim, file, &piece(bytes, len), flags, to, &[])))
}

/// Destination of a write: `None` if no address is given, and for a connected stream.
fn named(
    shim: &Shim,
    file: c_int,
    flags: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> Result<Option<SocketAddr>> {
    let counts = flags & libc::MSG_FASTOPEN != 0 || shim.call(|host| host.is_datagrams(file));
    if address.is_null() || !counts {
        return Ok(None);
    }
    match read_address(address, len) {
        // MSG_FASTOPEN needs a peer to connect to.
        Err(Errno::EAFNOSUPPORT) if flags & libc::MSG_FASTOPEN != 0 => Err(Errno::EOPNOTSUPP),
        other => other.map(Some),
    }
}

pub unsafe extern "C" fn writev(
    userdata: *mut c_void,
    file: c_int,
    pieces: *const iovec,
    number: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !owns(shim, file) {
        // SAFETY: the descriptor is the kernel's, and the kernel checks the pointer.
        return unsafe { libc::writev(file, pieces, number) };
    }
    let pieces = counted(pieces, number);
    give(pieces.and_then(|pieces| transmit(shim, file, &pieces, 0, None, &[])))
}

pub unsafe extern "C" fn sendmsg(
    userdata: *mut c_void,
    file: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    give(memory::get(message).and_then(|message| {
        let control = match message.msg_control.is_null() {
            true => Vec::new(),
            false => memory::read(message.msg_control, message.msg_controllen)?,
        };
        let (name, name_len) = (message.msg_name.cast_const().cast(), message.msg_namelen);
        let pieces = vector(message.msg_iov, message.msg_iovlen)?;
        let to = named(shim, file, flags, name, name_len)?;
        transmit(shim, file, &pieces, flags, to, &control::parse(&control)?)
    }))
}
