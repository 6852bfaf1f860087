//! Arguments and results as C has them, and calls that wait.

pub use cofferdam_bsd::{read_address, write_address};

use crate::host::{Host, Result};
use crate::shim::Shim;
use libc::{c_int, c_void};
use nix::errno::Errno;

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
