//! Entry points at the load of the library and at the end of the process.

use crate::inside::Inside;
use crate::{fork, process, real};
use libc::c_int;

extern "C" fn load() {
    process::claim_memory();
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

/// `_exit(2)`, after the peers have got the sent data.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    finish();
    real::exit(status)
}

/// `_Exit(2)`, after the peers have got the sent data.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    finish();
    real::exit(status)
}
