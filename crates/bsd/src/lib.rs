//! Arguments of BSD socket calls: the caller's memory, addresses in it, and TCP's options, in
//! Linux's layout.
//!
//! For preloaded libraries that implement these calls without the kernel. A bad pointer gives
//! `EFAULT`, as from the kernel, and does not end the process.

mod address;
pub mod memory;
mod tcp_info;
mod tcp_options;

pub use address::{parse_address, read_address, with_bytes, write_address};
pub use tcp_info::{CLOSED, INFO_BYTES, LISTEN, SocketMeasurements, tcp_info, tcp_info_of_state};
pub use tcp_options::{Defaults, KEEPALIVE, TcpOptions};

/// Result of a system call.
pub type Result<T> = std::result::Result<T, nix::errno::Errno>;
