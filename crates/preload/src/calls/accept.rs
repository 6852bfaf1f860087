//! `accept` and `accept4`: they take the next connection of the listener's queue, in any process.

use super::{done, give};
use crate::accept_message::AcceptMessage;
use crate::inside::Inside;
use crate::real;
use crate::table::{self, ConnectionState, Kind, Sock, Stage};
use cofferdam_bsd::{Result, write_address};
use libc::{c_int, sockaddr, socklen_t};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// `accept(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe { accept4(fd, address, len, 0) }
}

/// `accept4(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::accept4(fd, address, len, flags);
    };
    let Some(mut sock) = table::find(fd) else {
        return real::accept4(fd, address, len, flags);
    };
    if let Kind::Listener(listening) = &sock.kind
        && !listening.is_here()
        && real::flags(fd).is_ok_and(|(status, _)| status & libc::O_NONBLOCK == 0)
    {
        // The thread blocks on this listener alone, so it serves the listener itself.
        super::listen::serve_inherited_listener(fd);
        sock = table::find(fd).unwrap_or(sock);
    }
    let Sock { kind, is_v6 } = sock;
    if matches!(kind, Kind::Udp(_)) {
        return done(Err(Errno::EOPNOTSUPP));
    }
    if !matches!(kind, Kind::Listener(_))
        || flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0
    {
        return done(Err(Errno::EINVAL));
    }
    give(next(fd, flags).and_then(|(got, shown)| {
        match shown {
            Some(shown) => {
                write_address(shown.remote, is_v6, address, len)?;
                register(got.as_raw_fd(), shown, is_v6);
            }
            // The connection is the kernel's, which knows the peer's address.
            None if !address.is_null() => {
                Errno::result(real::getpeername(got.as_raw_fd(), address, len))?;
            }
            None => {}
        }
        Ok(got.into_raw_fd())
    }))
}

/// Registers an accepted connection for later calls of this process.
fn register(fd: RawFd, shown: Peer, is_v6: bool) {
    if let Some(Sock {
        kind: Kind::Connection(connected),
        ..
    }) = table::find(fd)
    {
        connected.set_descriptor(fd);
    } else if let Some(inode) = real::inode(fd) {
        // The connection was accepted in a child; the library's end is in the listening process.
        let connected = ConnectionState::new(shown.local, shown.remote, Stage::Open, false);
        let kind = Kind::Connection(Arc::new(connected));
        table::put(inode, Sock { kind, is_v6 });
    }
}

#[derive(Clone, Copy)]
struct Peer {
    local: std::net::SocketAddr,
    remote: std::net::SocketAddr,
}

/// Takes the next connection of the queue. Blocks if the listener's descriptor does.
fn next(fd: RawFd, flags: c_int) -> Result<(OwnedFd, Option<Peer>)> {
    super::blocking::until_readable(fd)?;
    let cloexec = match flags & libc::SOCK_CLOEXEC {
        0 => 0,
        _ => libc::MSG_CMSG_CLOEXEC,
    };
    let (message, got) = AcceptMessage::receive(fd, cloexec)?;
    if let Some(AcceptMessage::Failure(error)) = message {
        return Err(Errno::from_raw(error));
    }
    let shown = match message {
        Some(AcceptMessage::Connection { local, remote }) => Some(Peer { local, remote }),
        Some(AcceptMessage::Kernel) => None,
        _ => {
            // The process that listened has ended.
            super::listen::take_over(fd)?;
            return next(fd, flags);
        }
    };
    // The kernel drops the descriptor if the process may open no more.
    let got = got.ok_or(Errno::EMFILE)?;
    real::set_nonblocking(got.as_raw_fd(), flags & libc::SOCK_NONBLOCK != 0)?;
    Ok((got, shown))
}
