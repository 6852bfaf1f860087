//! Settings of the loop.

use crate::policy::Shares;
use std::time::Duration;

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Packets taken in one turn, at most (IX's B); 1 to 256, default 64.
    pub batch: u32,
    /// Longest time to poll for packets before sleeping; default 20 ms. The actual time depends on
    /// the traffic.
    pub spin: Duration,
    /// Bytes of the memory that each application sends from; default 16 MiB.
    pub area_bytes: u32,
    /// Own frames of each application, into which received data is copied, so that it can neither
    /// see nor keep others' frames. `None`: it reads the dataplane's frames in place.
    pub private_frames: Option<u32>,
    /// Whether to yield the CPU after each batch of conditions, for applications on the same CPU.
    pub yields: bool,
    /// Number of cores, from the first on, that have flow groups at the start; `None`: all.
    pub first_cores: Option<u8>,
    /// Part of each table that each application is guaranteed; default for one application.
    pub shares: Shares,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            batch: 64,
            spin: Duration::from_millis(20),
            area_bytes: 16 << 20,
            private_frames: None,
            yields: false,
            first_cores: None,
            shares: Shares::equal(1),
        }
    }
}
