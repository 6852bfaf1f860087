//! Finds the 5-tuples that send to a container, on demand.
//!
//! The ledger counts a container's packets but not by flow: that would need a table look-up per
//! packet on the hot path. Instead a packet socket in the container's network namespace takes a
//! random sample while a user looks. A classic BPF filter keeps one packet in N and cuts it to its
//! headers. N follows the load, so that a small share of one CPU is enough
//! ([`MOST_SAMPLES_PER_S`]). Counts are estimates with a known sampling error. Dropping the
//! [`Capture`] closes the socket, and nothing remains.

mod capture;
mod owner;
mod parse;
mod rate;
mod shared;
mod socket;
mod table;

pub use capture::{Capture, CaptureError, PacketOwner, Reading};
pub use parse::{Flow, Packet, packet};
pub use rate::MOST_SAMPLES_PER_S;
pub use table::{Count, MOST_FLOWS};

/// Longest part of a packet that is read, bytes: the socket's own header, Ethernet with two VLAN
/// tags, IP with options or extension headers, ports.
pub const SNAP_BYTES: usize = 192;
