//! Arguments of BSD socket calls: the caller's memory, addresses in it, and TCP's options, in
//! Linux's layout.
//!
//! For shared objects that answer such calls themselves. A bad pointer gives `EFAULT`, as from the
//! kernel, and does not end the process.

mod address;
pub mod memory;
mod tcp_info;
mod tcp_options;

pub use address::{parse_address, read_address, with_bytes, write_address};
pub use tcp_info::{CLOSED, Counts, INFO_BYTES, LISTEN, only_state, tcp_info};
pub use tcp_options::{Defaults, KEEPALIVE, TcpOptions};

/// Result of a system call.
pub type Result<T> = std::result::Result<T, nix::errno::Errno>;
