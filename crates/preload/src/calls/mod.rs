//! The C library's names that programs call. What is not the dataplane's goes to the kernel.

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

/// A call's result as C has it.
fn give(result: Result<c_int>) -> c_int {
    match result {
        Ok(value) => value,
        Err(error) => {
            error.set();
            -1
        }
    }
}

/// As [`give`], of a call that only succeeds.
fn done(result: Result<()>) -> c_int {
    give(result.map(|()| 0))
}

/// What of the Internet's a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inet {
    Tcp,
    Udp,
}

/// What socket of the kernel's it is, and whether of IPv6; none where it is neither.
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

/// Whether it is a TCP socket of the kernel's, and if so whether of IPv6.
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

/// Where the kernel has a socket bound.
fn kernel_name(fd: RawFd) -> Result<SocketAddr> {
    let mut storage = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let place = storage.as_mut_ptr().cast();
    Errno::result(crate::real::getsockname(fd, place, &raw mut len))?;
    cofferdam_bsd::read_address(place, len)
}
