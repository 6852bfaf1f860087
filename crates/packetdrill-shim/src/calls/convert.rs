//! Conversion of arguments and results to C, and calls that may block.

pub use cofferdam_bsd::{read_address, write_address};

use crate::host::{Host, Result};
use crate::shim::Shim;
use libc::{c_int, c_void};
use nix::errno::Errno;

/// The shim behind the first argument of each table function.
///
/// # Safety
/// `userdata` is the pointer that [`super::fill`] stored, and `free` has not been called.
pub unsafe fn shim<'a>(userdata: *mut c_void) -> &'a Shim {
    // SAFETY: as the caller guarantees; threads share the shim and only read it.
    unsafe { &*userdata.cast_const().cast::<Shim>() }
}

/// Converts a result to C's convention: the value, or −1 with `errno` set.
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

/// Makes a call once, or repeats it until it succeeds if it may block.
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
