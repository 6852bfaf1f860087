//! Socket calls, from `socket` to `close`. Calls on other descriptors go to the kernel.

use super::convert::{done, give, may_wait, read_address, shim, write_address};
use crate::memory;
use libc::{c_int, c_long, c_ulong, c_void, sockaddr, socklen_t};
use nix::errno::Errno;

pub unsafe extern "C" fn socket(
    userdata: *mut c_void,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    give(shim.call(|host| host.socket(domain, kind, protocol)))
}

pub unsafe extern "C" fn bind(
    userdata: *mut c_void,
    file: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let address = read_address(address, len);
    done(address.and_then(|address| shim.call(|host| host.bind(file, address))))
}

pub unsafe extern "C" fn listen(userdata: *mut c_void, file: c_int, backlog: c_int) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    done(shim.call(|host| host.listen(file, backlog)))
}

pub unsafe extern "C" fn accept(
    userdata: *mut c_void,
    file: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    let waits = !shim.call(|host| host.is_nonblocking(file));
    let accepted = may_wait(shim, waits, |host| {
        let (accepted, remote) = host.accept(file)?;
        Ok((accepted, remote, host.shows_mapped(file, remote)))
    });
    give(accepted.and_then(|(accepted, remote, as_mapped)| {
        let written = write_address(remote, as_mapped, address, len);
        if written.is_err() {
            let _ = shim.call(|host| host.close(accepted));
        }
        written.map(|()| accepted)
    }))
}

pub unsafe extern "C" fn connect(
    userdata: *mut c_void,
    file: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if is_unspecified(address, len) {
        return done(shim.call(|host| host.disconnect(file)));
    }
    let address = match read_address(address, len) {
        Ok(address) => address,
        Err(error) => return done(Err(error)),
    };
    let waits = !shim.call(|host| host.is_nonblocking(file));
    match shim.call(|host| host.connect(file, address)) {
        Err(Errno::EINPROGRESS | Errno::EALREADY) if waits => {
            done(shim.wait(None, |host| match host.connect(file, address) {
                Err(Errno::EALREADY) => Err(Errno::EAGAIN),
                other => other,
            }))
        }
        other => done(other),
    }
}

/// Whether the address family is AF_UNSPEC, whatever the length of the address.
fn is_unspecified(address: *const sockaddr, len: socklen_t) -> bool {
    const FAMILY_BYTES: usize = size_of::<libc::sa_family_t>();
    len as usize >= FAMILY_BYTES
        && memory::read(address.cast(), FAMILY_BYTES).is_ok_and(|family| {
            // The value of AF_UNSPEC is 0.
            family.iter().all(|byte| *byte == 0)
        })
}

/// # Safety
/// `argument` is valid for `command`, as in fcntl(2).
pub unsafe extern "C" fn fcntl(
    userdata: *mut c_void,
    file: c_int,
    command: c_int,
    argument: c_long,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !shim.call(|host| host.owns(file)) {
        // SAFETY: the descriptor is the kernel's.
        return unsafe { libc::fcntl(file, command, argument) };
    }
    match command {
        libc::F_GETFL => {
            let nonblocking = shim.call(|host| host.is_nonblocking(file));
            libc::O_RDWR | if nonblocking { libc::O_NONBLOCK } else { 0 }
        }
        libc::F_SETFL => {
            let on = argument as c_int & libc::O_NONBLOCK != 0;
            done(shim.call(|host| host.set_nonblocking(file, on)))
        }
        libc::F_GETFD => libc::FD_CLOEXEC,
        libc::F_SETFD => 0,
        _ => done(Err(Errno::EINVAL)),
    }
}

/// # Safety
/// `value` is valid for `request`, as in ioctl(2).
pub unsafe extern "C" fn ioctl(
    userdata: *mut c_void,
    file: c_int,
    request: c_ulong,
    value: *mut c_int,
) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !shim.call(|host| host.owns(file)) {
        // SAFETY: the descriptor is the kernel's.
        return unsafe { libc::ioctl(file, request, value) };
    }
    if request == libc::FIONBIO {
        let on = memory::get(value);
        return done(on.and_then(|on| shim.call(|host| host.set_nonblocking(file, on != 0))));
    }
    let queued = shim.call(|host| host.queued_bytes(file, request));
    done(queued.and_then(|bytes| memory::put(value, bytes)))
}

pub unsafe extern "C" fn close(userdata: *mut c_void, file: c_int) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    if !shim.call(|host| host.owns(file)) {
        // SAFETY: the descriptor is the kernel's, and the script closes its own.
        return unsafe { libc::close(file) };
    }
    done(shim.call(|host| host.close(file)))
}

pub unsafe extern "C" fn shutdown(userdata: *mut c_void, file: c_int, how: c_int) -> c_int {
    // SAFETY: packetdrill passes the table's own `userdata`.
    let shim = unsafe { shim(userdata) };
    done(shim.call(|host| host.shutdown(file, how)))
}
