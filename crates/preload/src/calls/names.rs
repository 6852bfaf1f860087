//! `getsockname` and `getpeername`.

use super::{done, udp};
use crate::inside::Inside;
use crate::real;
use crate::table::{self, Kind, Stage};
use cofferdam_bsd::write_address;
use libc::{c_int, sockaddr, socklen_t};
use nix::errno::Errno;

/// `getsockname(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::getsockname(fd, address, len);
    };
    let Some(sock) = table::find(fd) else {
        return real::getsockname(fd, address, len);
    };
    if address.is_null() || len.is_null() {
        return done(Err(Errno::EFAULT));
    }
    let local = match &sock.kind {
        Kind::Bound(local) => *local,
        Kind::Listener(listening) => listening.local,
        Kind::Connection(connected) => connected.local(),
        Kind::Udp(socket) => return udp::name(socket, sock.is_v6, false, (address, len)),
    };
    done(write_address(local, sock.is_v6, address, len))
}

/// `getpeername(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::getpeername(fd, address, len);
    };
    let Some(sock) = table::find(fd) else {
        return real::getpeername(fd, address, len);
    };
    if address.is_null() || len.is_null() {
        return done(Err(Errno::EFAULT));
    }
    match &sock.kind {
        Kind::Connection(connected) if connected.stage() == Stage::Open => {
            done(write_address(connected.remote, sock.is_v6, address, len))
        }
        Kind::Udp(socket) => udp::name(socket, sock.is_v6, true, (address, len)),
        _ => done(Err(Errno::ENOTCONN)),
    }
}
