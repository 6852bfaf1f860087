//! What the rules of TCP may use beside the connection: the clock, the settings, and the stack's
//! memory for ranges.

use crate::api::{Counters, Payload, TcpConfig, Time};
use crate::core::chunks::{Chunks, List};

/// What the rules may use beside the connection.
pub struct Context<'a> {
    pub now: Time,
    pub config: &'a TcpConfig,
    pub chunks: &'a mut Chunks,
    /// Received buffers that are the caller's again.
    pub released: &'a mut List,
    pub counters: &'a mut Counters,
    /// Where the payload of the segment lies that the connection has just put out.
    pub payload: &'a mut Payload,
    /// A packet may hold as many segments as make so many bytes of payload; one always.
    pub most_packet_bytes: u32,
    /// Whoever reads this connection's data has no room: the segment's data is not taken.
    pub reader_is_stopped: bool,
    /// [`crate::api::Limits::kept`].
    pub most_kept: u32,
}
