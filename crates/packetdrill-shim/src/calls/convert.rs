//! Arguments and results as C has them, and calls that wait.

use crate::host::{Host, Result};
use crate::shim::Shim;
use libc::{c_int, c_void, sockaddr, socklen_t};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::net::{IpAddr, SocketAddr};

/// The shim behind the table's first argument.
///
/// # Safety
/// `userdata` is what [`super::fill`] was given, and `free` was not called.
pub unsafe fn shim<'a>(userdata: *mut c_void) -> &'a Shim {
    // SAFETY: as the caller guarantees; the shim is shared between threads, and only read.
    unsafe { &*userdata.cast_const().cast::<Shim>() }
}

/// A call's result as C has it.
pub fn give<T: TryInto<R>, R: From<i8>>(result: Result<T>) -> R {
    match result.and_then(|value| value.try_into().map_err(|_| Errno::EOVERFLOW)) {
        Ok(value) => value,
        Err(error) => {
            error.set();
            R::from(-1)
        }
    }
}

pub fn done(result: Result<()>) -> c_int {
    give(result.map(|()| 0))
}

/// Reads an address; IPv4 dressed as IPv6 is IPv4.
///
/// # Safety
/// `address` is null or has `len` bytes.
pub unsafe fn read_address(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr> {
    if address.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: not null; the length is the caller's word.
    let storage = unsafe { SockaddrStorage::from_raw(address, Some(len)) };
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

/// Writes an address, as much of it as there is room for, and its whole length.
///
/// # Safety
/// `to` is null or has `*len` bytes, `len` is valid where `to` is not null.
pub unsafe fn write_address(
    address: SocketAddr,
    as_mapped: bool,
    to: *mut sockaddr,
    len: *mut socklen_t,
) {
    let address = match address {
        SocketAddr::V4(v4) if as_mapped => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
        }
        other => other,
    };
    if to.is_null() || len.is_null() {
        return;
    }
    let storage = SockaddrStorage::from(address);
    // SAFETY: `to` has `*len` bytes, the storage has its own length; the smaller is copied.
    unsafe {
        let room = (*len).min(storage.len()) as usize;
        std::ptr::copy_nonoverlapping(storage.as_ptr().cast::<u8>(), to.cast::<u8>(), room);
        *len = storage.len();
    }
}

/// Makes a call, again until it is done where it may wait.
pub fn may_wait<T>(
    shim: &Shim,
    waits: bool,
    mut attempt: impl FnMut(&mut Host) -> Result<T>,
) -> Result<T> {
    if waits {
        shim.wait(None, attempt)
    } else {
        shim.call(|host| attempt(host))
    }
}
