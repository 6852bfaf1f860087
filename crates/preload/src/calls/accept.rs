//! `accept` and `accept4`: the next of the listener's queue, in whatever process.

use super::{done, give};
use crate::inside::Inside;
use crate::said::{self, Said};
use crate::table::{self, Connected, Kind, Sock, Stage};
use crate::{errors, real};
use cofferdam_bsd::{Result, write_address};
use libc::{c_int, c_void, sockaddr, socklen_t};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// `accept(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe { accept4(fd, address, len, 0) }
}

/// `accept4(2)`.
///
/// # Safety
/// As the system call.
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
    let Some(Sock { kind, is_v6 }) = table::find(fd) else {
        return real::accept4(fd, address, len, flags);
    };
    if !matches!(kind, Kind::Listener(_))
        || flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0
    {
        return done(Err(Errno::EINVAL));
    }
    give(next(fd, flags).and_then(|(got, shown)| {
        match shown {
            Some(shown) => {
                write_address(shown.remote, is_v6, address, len)?;
                known(got.as_raw_fd(), shown, is_v6);
            }
            // The kernel's own connection says who its peer is.
            None if !address.is_null() => {
                Errno::result(real::getpeername(got.as_raw_fd(), address, len))?;
            }
            None => {}
        }
        Ok(got.into_raw_fd())
    }))
}

/// What calls of this process are answered from.
fn known(fd: RawFd, shown: Peer, is_v6: bool) {
    if let Some(Sock {
        kind: Kind::Connection(connected),
        ..
    }) = table::find(fd)
    {
        connected.is_at(fd);
    } else if let Some(inode) = real::inode(fd) {
        // Accepted in a child: the other end is in the process that listens.
        let connected = Connected::new(shown.local, shown.remote, Stage::Open, false);
        let kind = Kind::Connection(Arc::new(connected));
        table::put(inode, Sock { kind, is_v6 });
    }
}

#[derive(Clone, Copy)]
struct Peer {
    local: std::net::SocketAddr,
    remote: std::net::SocketAddr,
}

/// Waits as the listener's descriptor says.
fn next(fd: RawFd, flags: c_int) -> Result<(OwnedFd, Option<Peer>)> {
    let (said, got) = receive(fd, flags & libc::SOCK_CLOEXEC != 0)?;
    if let Some(Said::Failure(error)) = said {
        return Err(Errno::from_raw(error));
    }
    let shown = match said {
        Some(Said::Connection { local, remote }) => Some(Peer { local, remote }),
        Some(Said::Kernel) => None,
        _ => {
            errors::say_once(
                "the process that listens has ended, and with it the listener that this one has \
                 from it: let the program stay in the foreground (nginx: `daemon off;`)",
            );
            return Err(Errno::EINVAL);
        }
    };
    // The descriptor is lost where the process may open no more.
    let got = got.ok_or(Errno::EMFILE)?;
    real::set_nonblocking(got.as_raw_fd(), flags & libc::SOCK_NONBLOCK != 0)?;
    Ok((got, shown))
}

/// One message of the queue, with the descriptor that comes along.
fn receive(fd: RawFd, cloexec: bool) -> Result<(Option<Said>, Option<OwnedFd>)> {
    let mut bytes = [0_u8; said::BYTES];
    // Aligned as control messages are.
    let mut control = [0_u64; 8];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast::<c_void>(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zeros are a value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = if cloexec { libc::MSG_CMSG_CLOEXEC } else { 0 };
    // SAFETY: the message names memory of ours.
    let got = Errno::result(unsafe { libc::recvmsg(fd, &raw mut message, flags) })?;
    let mut descriptor = None;
    // SAFETY: the kernel has filled the message; descriptors in it are new, and ours.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let number = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
            descriptor = Some(OwnedFd::from_raw_fd(number));
        }
    }
    Ok((Said::decode(&bytes[..got as usize]), descriptor))
}
