//! Errors of a packet limit, and the time of the next try.

use crate::tuning::network::TRY_AGAIN;
use cofferdam_bpf::{LoadError, MapError};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Packet limit that could not be applied.
#[derive(Debug, thiserror::Error)]
pub(in crate::network) enum LimitError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("too many containers are in debt at the same time")]
    Full,
    #[error("it has no process")]
    NoProcess,
    #[error("its network namespace cannot be entered: {0}")]
    Namespace(#[source] io::Error),
    #[error("its addresses cannot be read: {0}")]
    Addresses(#[source] io::Error),
    #[error("its address {address} cannot be passed to the BPF programs: {source}")]
    Address { address: IpAddr, source: MapError },
    #[error("its device cannot be passed to the BPF programs: {0}")]
    Device(#[source] MapError),
    #[error("the host's tunnels cannot be passed to the BPF programs: {0}")]
    Tunnel(#[source] MapError),
    #[error("its limit cannot be set: {0}")]
    Bucket(#[source] MapError),
    #[error("the host's devices cannot be read: {0}")]
    Devices(#[source] io::Error),
    #[error("nothing can be attached to {device}: {source}")]
    Attach { device: String, source: io::Error },
    #[error("what it sends cannot be dropped (requires Linux 6.6): {0}")]
    AttachSent(#[source] io::Error),
    #[error("what its sockets receive cannot be dropped: {0}")]
    Sockets(#[source] io::Error),
    #[error("no device of the host leads to it")]
    NoEntry,
}

/// Failure, and the time of the next try.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    until: Instant,
    pub why: Arc<LimitError>,
}

impl Refusal {
    pub fn new(why: Arc<LimitError>) -> Refusal {
        Refusal {
            until: Instant::now() + TRY_AGAIN,
            why,
        }
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}
