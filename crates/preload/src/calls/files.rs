//! `close` and related calls, and `ioctl`. The program must not close the library's descriptors.

use super::{done, udp};
use crate::inside::Inside;
use crate::{internal, real, table};
use cofferdam_bsd::memory;
use libc::{c_int, c_uint, c_ulong, c_void};
use nix::errno::Errno;

/// `close(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    if let Some(_inside) = Inside::enter() {
        if internal::is_internal(fd) {
            return done(Err(Errno::EBADF));
        }
        table::closes(fd);
    }
    real::close(fd)
}

/// `close_range(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::close_range(first, last, flags);
    };
    if first > last {
        return done(Err(Errno::EINVAL));
    }
    for (first, last) in internal::ranges_without(first, last) {
        if real::close_range(first, last, flags) != 0 {
            return -1;
        }
    }
    0
}

/// `closefrom(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn closefrom(first: c_int) {
    close_range(c_uint::try_from(first).unwrap_or(0), c_uint::MAX, 0);
}

/// `dup2(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    if from == to {
        // This call only checks whether the descriptor is open.
        return match real::flags(from) {
            Ok(_) => to,
            Err(error) => done(Err(error)),
        };
    }
    dup3(from, to, 0)
}

/// `dup3(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if let Some(_inside) = Inside::enter() {
        if internal::is_internal(to) {
            return done(Err(Errno::EBADF));
        }
        table::closes(to);
    }
    real::dup3(from, to, flags)
}

/// `ioctl(2)`. The C library's function is variadic; its one argument is in a register.
///
/// # Safety
/// The contract of the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request == libc::FIONREAD
        && let Some((_inside, found)) = udp::enter(fd)
    {
        return done(memory::put(argument.cast(), udp::waiting(&found)));
    }
    real::ioctl(fd, request, argument)
}
