//! Socket addresses in C's layout.

use crate::{Result, memory};
use libc::{sockaddr, socklen_t};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::net::{IpAddr, SocketAddr};

/// Reads an address. An IPv4-mapped IPv6 address becomes an IPv4 address.
///
/// # Errors
/// `EFAULT`; `EINVAL` for an address that is too short; `EAFNOSUPPORT`.
pub fn read_address(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr> {
    if len as usize > MOST {
        return Err(Errno::EINVAL);
    }
    parse_address(&memory::read(address.cast(), len as usize)?)
}

/// Reads an address from its bytes; see [`read_address`].
///
/// # Errors
/// `EINVAL` for an address that is too short or too long; `EAFNOSUPPORT`.
pub fn parse_address(bytes: &[u8]) -> Result<SocketAddr> {
    let mut whole = [0_u64; MOST / 8];
    if bytes.len() > MOST {
        return Err(Errno::EINVAL);
    }
    // SAFETY: an address is no longer than the storage, and the storage is aligned for one.
    let storage = unsafe {
        let place = whole.as_mut_ptr();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len());
        SockaddrStorage::from_raw(place.cast(), Some(bytes.len() as socklen_t))
    };
    let storage = storage.ok_or(Errno::EINVAL)?;
    let (ip, port) = if let Some(v4) = storage.as_sockaddr_in() {
        (IpAddr::from(v4.ip()), v4.port())
    } else if let Some(v6) = storage.as_sockaddr_in6() {
        (IpAddr::from(v6.ip()).to_canonical(), v6.port())
    } else {
        return Err(Errno::EAFNOSUPPORT);
    };
    Ok(SocketAddr::new(ip, port))
}

const MOST: usize = size_of::<libc::sockaddr_storage>();

/// Writes the length of an address, and as many of its bytes as fit. Does nothing if `to` is null.
///
/// # Errors
/// `EFAULT`.
pub fn write_address(
    address: SocketAddr,
    as_mapped: bool,
    to: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<()> {
    if to.is_null() || len.is_null() {
        return Ok(());
    }
    with_bytes(address, as_mapped, |bytes| {
        let room = bytes.len().min(memory::get(len)? as usize);
        memory::write(to.cast(), &bytes[..room])?;
        memory::put(len, bytes.len() as socklen_t)
    })
}

/// Calls `body` with the bytes of an address in C's layout.
pub fn with_bytes<T>(address: SocketAddr, as_mapped: bool, body: impl FnOnce(&[u8]) -> T) -> T {
    let address = match address {
        SocketAddr::V4(v4) if as_mapped => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
        }
        other => other,
    };
    let storage = SockaddrStorage::from(address);
    // `SockaddrStorage::len` is the length of the storage, not of the address in it.
    let whole = match address {
        SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
    };
    // SAFETY: the storage has at least the address' length.
    body(unsafe { std::slice::from_raw_parts(storage.as_ptr().cast::<u8>(), whole) })
}
