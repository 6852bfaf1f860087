//! UDP: calls on sockets that the dataplane serves, and conversion of kernel sockets.
//!
//! Every message in the pair under a descriptor begins with a heading. All calls that transfer data
//! of these sockets therefore go through this module, also in children.

mod bind;
mod connect;
mod options;
mod receive;
mod replacement;
mod send;
mod takeover;

pub use bind::bind;
pub use connect::connect;
pub use options::{getsockopt, setsockopt};
pub use receive::{recvmsg, waiting};
pub use send::{Message, send};

use crate::inside::Inside;
use crate::table;
use crate::udp::Udp;
use libc::{c_int, sockaddr, socklen_t};
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::sync::Arc;

/// UDP socket that the dataplane serves.
pub struct UdpSocket {
    pub fd: RawFd,
    pub shown: Arc<Udp>,
    pub inode: u64,
    pub is_v6: bool,
}

/// The socket under a descriptor. The caller is already inside.
pub fn served(fd: RawFd) -> Option<UdpSocket> {
    let (shown, inode, is_v6) = table::udp(fd)?;
    Some(UdpSocket {
        fd,
        shown,
        inode,
        is_v6,
    })
}

/// The socket under a descriptor for a call of the program. The guard keeps the thread inside.
pub fn enter(fd: RawFd) -> Option<(Inside, UdpSocket)> {
    if !table::has_udp() {
        return None;
    }
    let inside = Inside::enter()?;
    Some((inside, served(fd)?))
}

/// Implements `getsockname` and `getpeername`.
pub fn name(
    socket: &Udp,
    is_v6: bool,
    of_peer: bool,
    (address, len): (*mut sockaddr, *mut socklen_t),
) -> c_int {
    let state = socket.state();
    let name = match (of_peer, state.peer) {
        (false, _) => state.name(),
        (true, Some(peer)) => peer.remote,
        (true, None) => return super::done(Err(Errno::ENOTCONN)),
    };
    super::done(cofferdam_bsd::write_address(name, is_v6, address, len))
}

/// Implements `shutdown(2)`, which also shuts down a socket without a peer, and reports that.
pub fn shutdown(found: &UdpSocket, how: c_int) -> c_int {
    if !(libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how) {
        return super::done(Err(Errno::EINVAL));
    }
    found.shown.shut(how);
    if how != libc::SHUT_WR {
        crate::real::shutdown(found.fd, libc::SHUT_RD);
    }
    match found.shown.state().peer {
        Some(_) => 0,
        None => super::done(Err(Errno::ENOTCONN)),
    }
}
