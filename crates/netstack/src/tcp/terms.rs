//! Parameters negotiated in the handshake: segment size, window scales, SACK, timestamps, ECN.

use crate::api::TcpConfig;
use crate::tuning::belief::LEAST_MSS_BYTES;
use crate::wire::tcp::{MAX_SCALE, Options};

/// Segment size of a peer that announces none (RFC 9293, 3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// Length of a timestamp option with its padding (RFC 7323, appendix A).
const TIMESTAMP_BYTES: u32 = 12;

/// Smallest window scale that can announce the whole receive window.
pub fn receive_scale(config: &TcpConfig) -> u8 {
    (0..MAX_SCALE)
        .find(|shift| config.receive_window_bytes >> shift <= 0xffff)
        .unwrap_or(MAX_SCALE)
}

/// Segment size that satisfies the peer's announcement and our limit.
pub fn agreed_mss(theirs: Option<u16>, ours: u16, v4: bool) -> u16 {
    let default = if v4 { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 };
    theirs.unwrap_or(default).max(LEAST_MSS_BYTES).min(ours)
}

/// Negotiated parameters of a connection. Before the handshake only our own segment size is valid.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// Largest payload of a segment without options, in bytes.
    mss: u16,
    /// Window scales of the peer's windows and of ours, in bits (RFC 7323, 2).
    peer_scale: u8,
    our_scale: u8,
    scaling: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
}

impl Terms {
    /// The parameters before the handshake, with a segment size of `mss` bytes.
    pub fn new(mss: u16) -> Self {
        Self {
            mss,
            ..Self::default()
        }
    }

    /// Applies the options of the peer's SYN. Options that both sides offered are in use.
    pub fn agree(&mut self, theirs: &Options, v4: bool, config: &TcpConfig) {
        let scale = theirs.scale.filter(|_| config.window_scaling);
        *self = Self {
            mss: agreed_mss(theirs.mss, self.mss, v4),
            // Windows are at most 64 KiB unless both sides scale (RFC 7323, 2.2).
            peer_scale: scale.unwrap_or(0),
            our_scale: scale.map_or(0, |_| receive_scale(config)),
            scaling: scale.is_some(),
            sack: config.sack && theirs.sack_permitted,
            timestamps: config.timestamps && theirs.timestamps.is_some(),
            ecn: false,
        };
    }

    /// Whether ECN was negotiated (RFC 3168).
    pub const fn ecn(&self) -> bool {
        self.ecn
    }

    pub fn set_ecn(&mut self, is_agreed: bool) {
        self.ecn = is_agreed;
    }

    /// Limits segments to `most` bytes of payload and options. Returns whether they become shorter.
    pub fn limit_mss(&mut self, most: u16) -> bool {
        let is_less = most < self.mss;
        self.mss = self.mss.min(most);
        is_less
    }

    /// Raises the segment size to `size` bytes of payload and options, which the path carries.
    pub fn raise_mss(&mut self, size: u16) {
        self.mss = self.mss.max(size);
    }

    /// Largest payload of a segment with `option_bytes` of options, at least one byte.
    pub fn room(&self, option_bytes: u32) -> u32 {
        u32::from(self.mss).saturating_sub(option_bytes).max(1)
    }

    /// Largest payload of a segment with the usual options.
    pub fn payload_mss(&self) -> u32 {
        self.room(if self.timestamps { TIMESTAMP_BYTES } else { 0 })
    }

    /// Largest payload of a segment without options, in bytes.
    pub const fn mss(&self) -> u16 {
        self.mss
    }

    /// Window scale of the peer in bits.
    pub const fn peer_scale(&self) -> u8 {
        self.peer_scale
    }

    /// Window scale of our windows in bits.
    pub const fn our_scale(&self) -> u8 {
        self.our_scale
    }

    /// Whether window scaling was negotiated.
    pub const fn scaling(&self) -> bool {
        self.scaling
    }

    /// Whether SACK was negotiated (RFC 2018).
    pub const fn sack(&self) -> bool {
        self.sack
    }

    /// Whether timestamps were negotiated (RFC 7323, 3).
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
    fn a_missing_or_extreme_mss_gets_a_sane_value() {
        assert_eq!(agreed_mss(Some(1), 1460, true), 48);
        assert_eq!(agreed_mss(None, 1460, true), 536);
        assert_eq!(agreed_mss(None, 1440, false), 1220);
        assert_eq!(agreed_mss(Some(9000), 1460, true), 1460);
    }
}
