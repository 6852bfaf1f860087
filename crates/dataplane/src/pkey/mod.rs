//! One application in the dataplane's own process and thread, behind memory protection keys.
//!
//! The loop, its memory and its other threads are the host of a [`cofferdam_pkey`] region; the
//! application is the guest. They share the same rings as with a process of its own, and each call
//! is checked in the same way. This saves the switch between processes, or the second CPU.

pub mod attack;
mod guest;
mod program;
mod serve;

pub use cofferdam_pkey::{Allocator, bind_now, is_bound_now, ordinary, supported};
pub use program::{Program, ProgramError};
pub(crate) use serve::serve;

use crate::config::Config;
use cofferdam_pkey::{User, relinquish};
use std::io;

/// Ends the process at once, without the C library's exit handlers.
pub fn end_process(code: u8) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Takes, for the calling thread, the user of `config`'s application behind protection keys, if
/// there is one. It is for threads of the program whose stacks that application could write.
///
/// # Errors
/// An error of the kernel.
pub fn relinquish_thread(config: &Config) -> io::Result<()> {
    match config.guest() {
        None => Ok(()),
        Some((_, client, _)) => relinquish(User {
            uid: client.uid,
            gid: client.gid,
        }),
    }
}
