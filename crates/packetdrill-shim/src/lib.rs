//! The network stack as a shared object that packetdrill can drive:
//! `packetdrill --so_filename=libcofferdam_packetdrill_shim.so`.
//!
//! packetdrill calls [`packetdrill_interface_init`] once per script. It gets a host with the stack
//! on one interface, sockets that behave as in Linux, and a clock that only the script advances.
//! See the book, "The network stack", for how to run it.

pub mod abi;
mod buffers;
mod burst;
mod calls;
mod command_line;
pub mod control;
mod descriptors;
mod flags;
pub mod host;
mod interpose;
mod link;
mod shim;
mod sysctls;

pub use command_line::CommandLine;
pub use flags::{Setup, parse as parse_flags};
pub use sysctls::Sysctls;

use cofferdam_bsd::memory;
use libc::c_char;
use std::ffi::CStr;

/// Creates a host with the settings in `flags` (see [`parse_flags`]).
///
/// # Errors
/// A message that names the invalid setting.
pub fn interface(flags: &str, line: CommandLine) -> Result<abi::Interface, String> {
    let setup = flags::parse(flags, line)?;
    let host = host::Host::new(setup).map_err(|error| error.to_string())?;
    Ok(calls::fill(Box::new(shim::Shim::new(host))))
}

/// The entry point that packetdrill looks up. Invalid settings end the process, as a bad command
/// line does in packetdrill itself: this function cannot return an error.
///
/// # Safety
/// `flags` is null or ends with a zero byte; `filled` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    filled: *mut abi::Interface,
) {
    let flags = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: as the caller guarantees.
        unsafe { CStr::from_ptr(flags) }
            .to_string_lossy()
            .into_owned()
    };
    match interface(&flags, command_line::own()) {
        Ok(interface) => {
            interpose::install();
            interpose::serve(interface.userdata.cast());
            // SAFETY: as the caller guarantees.
            unsafe { filled.write(interface) };
        }
        Err(error) => {
            eprintln!("--so_flags={flags}: {error}");
            std::process::exit(1);
        }
    }
}
