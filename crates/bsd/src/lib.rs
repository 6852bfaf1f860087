//! Arguments of BSD socket calls: the caller's memory, addresses in it, and TCP's options, in
//! Linux's layout.
//!
//! For shared objects that answer such calls themselves: a bad pointer is `EFAULT`, as it is of the
//! kernel, and not the end of the process.

mod address;
pub mod memory;
mod tcp_info;
mod tcp_options;

pub use address::{parse_address, read_address, with_bytes, write_address};
pub use tcp_info::{CLOSED, Counts, INFO_BYTES, LISTEN, only_state, tcp_info};
pub use tcp_options::{Defaults, KEEPALIVE, TcpOptions};

/// What a system call gives.
pub type Result<T> = std::result::Result<T, nix::errno::Errno>;
