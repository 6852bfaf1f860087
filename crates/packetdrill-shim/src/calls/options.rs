//! `getsockopt` and `setsockopt`.

use super::convert::{done, shim};
use crate::memory;
use libc::{c_int, c_void, socklen_t};
use nix::errno::Errno;

/// Maximum length of an option value.
const MOST_BYTES: socklen_t = 4096;

pub unsafe extern "C" fn getsockopt(
    userdata: *mut c_void,
    file: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !shim.call(|host| host.owns(file)) {
        // SAFETY: the descriptor is the kernel's, and the kernel checks the pointers.
        return unsafe { libc::getsockopt(file, level, name, value, len) };
    }
    done(memory::get(len).and_then(|room| {
        let mut bytes = shim.call(|host| host.option(file, level, name))?;
        bytes.truncate(room as usize);
        memory::write(value, &bytes)?;
        memory::put(len, bytes.len() as socklen_t)
    }))
}

pub unsafe extern "C" fn setsockopt(
    userdata: *mut c_void,
    file: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !shim.call(|host| host.owns(file)) {
        // SAFETY: the descriptor is the kernel's, and the kernel checks the pointers.
        return unsafe { libc::setsockopt(file, level, name, value, len) };
    }
    if len > MOST_BYTES {
        return done(Err(Errno::EINVAL));
    }
    let value = memory::read(value, len as usize);
    done(value.and_then(|value| shim.call(|host| host.set_option(file, level, name, &value))))
}
