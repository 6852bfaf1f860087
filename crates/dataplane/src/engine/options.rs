//! Settings of the loop.

use crate::policy::Shares;
use std::time::Duration;

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Packets taken in one turn at most (IX's B); 1 to 256, default 64.
    pub batch: u32,
    /// Longest time to poll for packets before sleeping; default 20 ms. How long it really polls
    /// follows the traffic.
    pub spin: Duration,
    /// Memory that each application sends from; default 16 MiB.
    pub area_bytes: u32,
    /// Frames of an application's own that received data is copied into, so that it cannot see
    /// others' data nor keep their frames; `None`: it reads the dataplane's frames in place.
    pub private_frames: Option<u32>,
    /// Give the CPU away after each batch of conditions: for applications on the same CPU.
    pub yields: bool,
    /// Cores that share the flow groups at the start, the first ones; `None`: all.
    pub first_cores: Option<u8>,
    /// What part of the tables each application is guaranteed. Default: one application.
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
