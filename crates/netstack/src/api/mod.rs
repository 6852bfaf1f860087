//! Public interface: settings, handles, buffers, events, frames to send, errors and counters.

mod buffer;
mod config;
mod counters;
mod error;
mod event;
mod ids;
mod port_search;
mod time;
mod train;
mod transmit;

pub use buffer::{BufferId, BufferPool, Chunk, Disposition};
pub use config::{
    Config, Congestion, ConnectionOptions, Ecn, FastOpenServer, HyStart, Interface,
    InterfaceAddress, InterfaceId, Keepalive, Limits, MOST_INTERFACES, PathProbing, TcpConfig,
};
pub use counters::Counters;
pub use error::{BindError, ConfigError, ConnectError, GoneError, SendError, UdpSendError};
pub use event::{DeadReason, Event};
pub use ids::{ConnectionId, ListenerId, MacAddress, TimerId, UdpId};
pub use port_search::PortSearch;
pub use time::Time;
pub(crate) use train::MOST_IP_BYTES;
pub use train::Train;
pub use transmit::{Checksum, MAX_CHUNKS, MAX_HEADER_BYTES, Payload, Transmit};
