//! Arguments of BSD socket calls: the caller's memory, and addresses in it.
//!
//! For shared objects that answer such calls themselves: a bad pointer is `EFAULT`, as it is of the
//! kernel, and not the end of the process.

mod address;
pub mod memory;

pub use address::{read_address, write_address};

/// What a system call gives.
pub type Result<T> = std::result::Result<T, nix::errno::Errno>;
