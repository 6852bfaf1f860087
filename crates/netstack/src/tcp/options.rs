//! What the handshake agrees on: segment size, window scale, timestamps, SACK.

use super::isn;
use super::state::{State, Tcb};
use crate::api::{TcpConfig, Time};
use crate::wire::tcp::{MAX_SCALE, Options};

/// Segment size when the peer names none (RFC 9293, 3.7.1).
const DEFAULT_MSS_V4: u16 = 536;
const DEFAULT_MSS_V6: u16 = 1220;
/// Smallest segment size we believe: smaller ones make a packet of each byte
/// (CVE-2019-11479; Linux's least is 48 too).
const LEAST_MSS: u16 = 48;

/// The shift with which the whole receive window can be told.
pub fn receive_scale(config: &TcpConfig) -> u8 {
    (0..MAX_SCALE)
        .find(|shift| config.receive_window_bytes >> shift <= 0xffff)
        .unwrap_or(MAX_SCALE)
}

/// The peer's segment size within ours.
pub fn agreed_mss(told: Option<u16>, ours: u16, v4: bool) -> u16 {
    let default = if v4 { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 };
    told.unwrap_or(default).max(LEAST_MSS).min(ours)
}

impl Tcb {
    /// Takes the options of the peer's SYN: what both sides offered holds.
    pub fn agree(&mut self, theirs: &Options, config: &TcpConfig, now: Time) {
        self.mss = agreed_mss(theirs.mss, self.mss, self.key.local.is_v4());
        self.scaling = config.window_scaling && theirs.scale.is_some();
        match theirs.scale {
            Some(scale) if config.window_scaling => {
                self.snd_scale = scale;
                self.rcv_scale = receive_scale(config);
            }
            // A window of 64 KiB for both (RFC 7323, 2.2).
            _ => (self.snd_scale, self.rcv_scale) = (0, 0),
        }
        self.sack_ok = config.sack && theirs.sack_permitted;
        self.timestamps_ok = config.timestamps && theirs.timestamps.is_some();
        if let (true, Some((value, _))) = (self.timestamps_ok, theirs.timestamps) {
            (self.ts_recent, self.ts_recent_at) = (value, now);
        }
        self.window = super::congestion::Window::new(config.congestion, self.payload_mss());
    }

    /// Options of our SYN; in SYN+ACK only what the peer offered.
    pub fn syn_options(&self, config: &TcpConfig, our_mss: u16, now: Time) -> Options {
        let answers = self.state == State::SynReceived;
        let scale = if answers {
            self.rcv_scale
        } else {
            receive_scale(config)
        };
        let scaling = config.window_scaling && (!answers || self.scaling);
        let stamps = if answers {
            self.timestamps_ok
        } else {
            config.timestamps
        };
        Options {
            mss: Some(our_mss),
            scale: scaling.then_some(scale),
            sack_permitted: if answers { self.sack_ok } else { config.sack },
            timestamps: stamps.then(|| (isn::timestamp(now, self.ts_offset), self.ts_recent)),
            ..Options::default()
        }
    }

    /// Timestamp and SACK options of a segment after the handshake.
    pub fn options(&self, now: Time, chunks: &crate::core::chunks::Chunks) -> Options {
        let mut options = Options {
            timestamps: self
                .timestamps_ok
                .then(|| (isn::timestamp(now, self.ts_offset), self.ts_recent)),
            ..Options::default()
        };
        if self.sack_ok {
            self.sack_blocks(&mut options, chunks);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_the_least_that_tells_the_whole_window() {
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
