//! When the library is loaded, and when the process ends.

use crate::inside::Inside;
use crate::{fork, process, real};
use libc::c_int;

extern "C" fn load() {
    process::owns();
    fork::install();
}

extern "C" fn unload() {
    finish();
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;

fn finish() {
    if let Some(_inside) = Inside::enter()
        && process::is_owner()
    {
        process::with_pump(|pump| pump.finish());
    }
}

/// `_exit(2)`: the peers get what was sent.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    finish();
    real::exit(status)
}

/// As [`_exit`].
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    finish();
    real::exit(status)
}
