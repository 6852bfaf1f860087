//! Packets to and from a device without the kernel's network stack: AF_XDP sockets over a packet
//! memory. Tap devices and in-process pipes implement the same [`Port`].
//!
//! The crate is a thin layer over the kernel's interface (`linux/if_xdp.h`). Existing crates
//! allocate the packet memory themselves, while ours must be a sealed memory file that an
//! application maps read-only. xsk-rs also needs libxdp, a C library. The rest of the interface is
//! four rings.

mod device;
mod error;
mod mapping;
mod memory;
mod packet;
mod pipe;
mod port;
mod ring;
mod segmenter;
mod socket;
mod spans;
mod tap;
mod tuning;

pub use device::{Device, Mode};
pub use error::PortError;
pub use mapping::{Access, Mapping};
pub use memory::{FrameFacts, Memory};
pub use packet::{Frame, Packet};
pub use pipe::{Pipe, pipe};
pub use port::{Facts, LinkState, Port, PortCounters, link_state};
pub use segmenter::Large;
pub use socket::{Socket, SocketOptions};
pub use spans::Spans;
pub use tap::Tap;
