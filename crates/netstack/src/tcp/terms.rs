//! What the handshake agrees on: segment size, window scales, SACK, timestamps.

use crate::api::TcpConfig;
use crate::tuning::belief::LEAST_MSS_BYTES;
use crate::wire::tcp::{MAX_SCALE, Options};

/// Segment size when the peer names none (RFC 9293, 3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// Bytes of a timestamp option with its padding (RFC 7323, appendix A).
const TIMESTAMP_BYTES: u32 = 12;

/// The shift with which the whole receive window can be announced.
pub fn receive_scale(config: &TcpConfig) -> u8 {
    (0..MAX_SCALE)
        .find(|shift| config.receive_window_bytes >> shift <= 0xffff)
        .unwrap_or(MAX_SCALE)
}

/// The peer's segment size within ours.
pub fn agreed_mss(theirs: Option<u16>, ours: u16, v4: bool) -> u16 {
    let default = if v4 { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 };
    theirs.unwrap_or(default).max(LEAST_MSS_BYTES).min(ours)
}

/// What holds on a connection; until the handshake, nothing but our own segment size.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// Most payload of a segment without options, in bytes.
    mss: u16,
    /// By how many bits the peer's windows and ours are shifted (RFC 7323, 2).
    peer_scale: u8,
    our_scale: u8,
    scaling: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
}

impl Terms {
    /// Before the handshake: our segment size is `mss` bytes.
    pub fn new(mss: u16) -> Self {
        Self {
            mss,
            ..Self::default()
        }
    }

    /// Takes the options of the peer's SYN: what both sides offered holds.
    pub fn agree(&mut self, theirs: &Options, v4: bool, config: &TcpConfig) {
        let scale = theirs.scale.filter(|_| config.window_scaling);
        *self = Self {
            mss: agreed_mss(theirs.mss, self.mss, v4),
            // A window of 64 KiB for both unless both scale (RFC 7323, 2.2).
            peer_scale: scale.unwrap_or(0),
            our_scale: scale.map_or(0, |_| receive_scale(config)),
            scaling: scale.is_some(),
            sack: config.sack && theirs.sack_permitted,
            timestamps: config.timestamps && theirs.timestamps.is_some(),
            ecn: false,
        };
    }

    /// Whether ECN was agreed on (RFC 3168).
    pub const fn ecn(&self) -> bool {
        self.ecn
    }

    pub fn set_ecn(&mut self, is_agreed: bool) {
        self.ecn = is_agreed;
    }

    /// The path carries segments of `most` bytes of payload and options only. Says whether that is
    /// less than before.
    pub fn limit_mss(&mut self, most: u16) -> bool {
        let is_less = most < self.mss;
        self.mss = self.mss.min(most);
        is_less
    }

    /// The path carries segments of `size` bytes of payload and options.
    pub fn raise_mss(&mut self, size: u16) {
        self.mss = self.mss.max(size);
    }

    /// Most payload of a segment with `option_bytes` of options; a byte at least.
    pub fn room(&self, option_bytes: u32) -> u32 {
        u32::from(self.mss).saturating_sub(option_bytes).max(1)
    }

    /// Most payload of a segment with the usual options.
    pub fn payload_mss(&self) -> u32 {
        self.room(if self.timestamps { TIMESTAMP_BYTES } else { 0 })
    }

    /// Most payload of a segment without options, in bytes.
    pub const fn mss(&self) -> u16 {
        self.mss
    }

    /// By how many bits the peer's windows are shifted.
    pub const fn peer_scale(&self) -> u8 {
        self.peer_scale
    }

    /// By how many bits ours are.
    pub const fn our_scale(&self) -> u8 {
        self.our_scale
    }

    /// Window scaling was agreed on.
    pub const fn scaling(&self) -> bool {
        self.scaling
    }

    /// SACK was agreed on (RFC 2018).
    pub const fn sack(&self) -> bool {
        self.sack
    }

    /// Timestamps were agreed on (RFC 7323, 3).
    pub const fn timestamps(&self) -> bool {
        self.timestamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_the_least_that_announces_the_whole_window() {
        let scale = |bytes| {
            receive_scale(&TcpConfig {
                receive_window_bytes: bytes,
                ..TcpConfig::default()
            })
        };
        assert_eq!(
            (
                scale(65_535),
                scale(65_536),
                scale(256 << 10),
                scale(16 << 20)
            ),
            (0, 1, 3, 9)
        );
    }

    #[test]
    fn a_tiny_segment_size_is_not_believed() {
        assert_eq!(agreed_mss(Some(1), 1460, true), 48);
        assert_eq!(agreed_mss(None, 1460, true), 536);
        assert_eq!(agreed_mss(None, 1440, false), 1220);
        assert_eq!(agreed_mss(Some(9000), 1460, true), 1460);
    }
}
