//! `connect`.

use super::{Inet, any, done, inet, udp};
use crate::inside::Inside;
use crate::table::{self, ConnectionState, Kind, Sock, Stage};
use crate::{process, real, unix};
use cofferdam_bsd::{Result, read_address};
use libc::{c_int, sockaddr, socklen_t};
use nix::errno::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// `connect(2)`.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::connect(fd, address, len);
    };
    let (is_v6, bound) = match table::find(fd) {
        Some(Sock { kind, is_v6 }) => match kind {
            Kind::Bound(local) => (is_v6, Some(local)),
            Kind::Connection(connected) => match connected.stage() {
                Stage::Connecting => return done(Err(Errno::EALREADY)),
                Stage::Open => return done(Err(Errno::EISCONN)),
                Stage::Failed => match connected.take_error() {
                    0 => (is_v6, None),
                    // The program has not read this error yet.
                    error => return done(Err(Errno::from_raw(error))),
                },
            },
            Kind::Listener(_) => return done(Err(Errno::EISCONN)),
            Kind::Udp(_) => return udp::connect(fd, udp::served(fd), address, len),
        },
        None => match inet(fd) {
            Some((Inet::Tcp, is_v6)) => (is_v6, None),
            Some((Inet::Udp, _)) => return udp::connect(fd, None, address, len),
            None => return real::connect(fd, address, len),
        },
    };
    let Ok(remote) = read_address(address, len) else {
        return real::connect(fd, address, len);
    };
    if remote.ip().is_loopback() || remote.ip().is_unspecified() {
        return real::connect(fd, address, len);
    }
    if remote.is_ipv6() && !is_v6 {
        return done(Err(Errno::EAFNOSUPPORT));
    }
    let found = process::attached(|pump| {
        let served = pump.last_served();
        let is_served = served.connect && served.reaches(remote.ip());
        (
            is_served,
            served.local_for(remote.ip()),
            served.is_own(remote.ip()),
        )
    });
    let (is_served, local, is_own) = match found {
        Ok(found) => found,
        Err(error) => return done(Err(error)),
    };
    match (is_served, bound) {
        // The dataplane does not route to its own addresses.
        (true, _) if is_own => done(Err(Errno::EHOSTUNREACH)),
        (true, _) => {
            let ip = bound.map(|bound| bound.ip()).or(local);
            done(open(fd, ip.unwrap_or(any(is_v6)), remote, is_v6))
        }
        // The socket is bound to an address of the dataplane, from which this application may not
        // connect.
        (false, Some(_)) => done(Err(Errno::ENETUNREACH)),
        (false, None) => real::connect(fd, address, len),
    }
}

fn open(fd: RawFd, local: IpAddr, remote: SocketAddr, is_v6: bool) -> Result<()> {
    let before = real::inode(fd).ok_or(Errno::ENOTSOCK)?;
    let (theirs, ours, inode) = unix::pair(libc::SOCK_STREAM)?;
    let resets = super::options::resets_at_close(fd);
    let options = super::options::of_kernel(fd);
    let [_, receive_bytes] = unix::adopt(fd, &theirs);
    unix::limit_send(&ours, receive_bytes);
    let filler_bytes = unix::fill(theirs.as_fd());
    let local = SocketAddr::new(local, 0);
    let shown = ConnectionState::new(local, remote, Stage::Connecting, true).with_options(options);
    let shown = Arc::new(shown);
    shown.set_descriptor(fd);
    shown.resets_at_close.store(resets, Ordering::Relaxed);
    unix::replace(fd, theirs)?;
    table::remove(before);
    let kind = Kind::Connection(shown.clone());
    table::put(inode, Sock { kind, is_v6 });
    process::attached(|pump| pump.connect((ours, inode), shown.clone(), filler_bytes))??;
    if real::flags(fd)?.0 & libc::O_NONBLOCK != 0 {
        return Err(Errno::EINPROGRESS);
    }
    wait(fd, &shown)
}

/// Waits until the connection is open or has failed.
fn wait(fd: RawFd, shown: &ConnectionState) -> Result<()> {
    let limit = super::options::timeout(fd, libc::SO_SNDTIMEO);
    match super::wait::for_one(fd, libc::POLLOUT, limit)? {
        0 => Err(Errno::EINPROGRESS),
        _ => match shown.take_error() {
            0 => Ok(()),
            error => Err(Errno::from_raw(error)),
        },
    }
}
