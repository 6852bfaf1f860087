//! Arguments and results as C has them, and calls that wait.

use crate::host::{Host, Result};
use crate::memory;
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
/// # Errors
/// `EFAULT`, `EINVAL` for one that is too short, `EAFNOSUPPORT`.
pub fn read_address(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr> {
    const MOST: usize = size_of::<libc::sockaddr_storage>();
    if len as usize > MOST {
        return Err(Errno::EINVAL);
    }
    let bytes = memory::read(address.cast(), len as usize)?;
    let mut whole = [0_u64; MOST / 8];
    // SAFETY: an address is no longer than the storage, and the storage is aligned for one.
    let storage = unsafe {
        let place = whole.as_mut_ptr();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len());
        SockaddrStorage::from_raw(place.cast(), Some(len))
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

/// Writes an address, as much of it as there is room for, and its whole length. Nothing where the
/// caller wants none.
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
    let address = match address {
        SocketAddr::V4(v4) if as_mapped => {
            SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
        }
        other => other,
    };
    let storage = SockaddrStorage::from(address);
    // `SockaddrStorage::len` is that of the storage, not of the address in it.
    let whole = match address {
        SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
    };
    let room = whole.min(memory::get(len)? as usize);
    // SAFETY: the storage has at least the address' length.
    let bytes = unsafe { std::slice::from_raw_parts(storage.as_ptr().cast::<u8>(), room) };
    memory::write(to.cast(), bytes)?;
    memory::put(len, whole as socklen_t)
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
