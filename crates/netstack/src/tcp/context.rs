//! Resources that TCP's rules use in addition to the connection: clock, settings and memory for
//! ranges.

use crate::api::{Counters, Payload, TcpConfig, Time};
use crate::core::chunks::{Chunks, List};

/// Resources that TCP's rules use in addition to the connection.
pub struct Context<'a> {
    pub now: Time,
    pub config: &'a TcpConfig,
    pub chunks: &'a mut Chunks,
    /// Received buffers to return to the caller.
    pub released: &'a mut List,
    pub counters: &'a mut Counters,
    /// Receives the ranges of the outgoing segment's payload.
    pub payload: &'a mut Payload,
    /// Largest payload of a packet that holds several segments. One segment is always allowed.
    pub most_packet_bytes: u32,
    /// Whether the connection's reader is stopped: the stack drops the segment's data.
    pub reader_is_stopped: bool,
    /// Value of [`crate::api::Limits::kept`].
    pub kept_limit: u32,
}
