//! Functions of the C library that programs call. The kernel handles sockets that are not the
//! dataplane's.

mod accept;
mod blocking;
mod connect;
mod files;
mod listen;
mod many;
mod names;
mod options;
mod receive;
mod select;
mod send;
mod slices;
mod udp;
mod wait;

use cofferdam_bsd::Result;
use libc::c_int;
use nix::errno::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// Result of a call in C's form.
fn give(result: Result<c_int>) -> c_int {
    match result {
        Ok(value) => value,
        Err(error) => {
            error.set();
            -1
        }
    }
}

/// Result in C's form of a call that returns no value.
fn done(result: Result<()>) -> c_int {
    give(result.map(|()| 0))
}

/// Protocol of an Internet socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inet {
    Tcp,
    Udp,
}

/// Protocol of a kernel socket, and whether it is an IPv6 socket. `None` if it is neither TCP nor
/// UDP.
fn inet(fd: RawFd) -> Option<(Inet, bool)> {
    let option = |name| crate::real::int_option(fd, libc::SOL_SOCKET, name).ok();
    let is_v6 = match option(libc::SO_DOMAIN)? {
        libc::AF_INET => false,
        libc::AF_INET6 => true,
        _ => return None,
    };
    let inet = match option(libc::SO_PROTOCOL)? {
        libc::IPPROTO_TCP => Inet::Tcp,
        libc::IPPROTO_UDP => Inet::Udp,
        _ => return None,
    };
    Some((inet, is_v6))
}

/// Whether a kernel socket of TCP is an IPv6 socket; `None` if it is no TCP socket.
fn is_tcp(fd: RawFd) -> Option<bool> {
    let (inet, is_v6) = inet(fd)?;
    (inet == Inet::Tcp).then_some(is_v6)
}

/// The unspecified address of a family.
pub fn any(is_v6: bool) -> IpAddr {
    match is_v6 {
        true => IpAddr::from([0_u16; 8]),
        false => IpAddr::from([0_u8; 4]),
    }
}

/// Address that a kernel socket is bound to.
fn kernel_name(fd: RawFd) -> Result<SocketAddr> {
    let mut storage = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let pointer = storage.as_mut_ptr().cast();
    Errno::result(crate::real::getsockname(fd, pointer, &raw mut len))?;
    cofferdam_bsd::read_address(pointer, len)
}
