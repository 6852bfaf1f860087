//! TCP options of the segments that a connection sends.

use super::state::{State, Tcb};
use super::terms::receive_scale;
use crate::api::{TcpConfig, Time};
use crate::core::chunks::Chunks;
use crate::wire::tcp::Options;

impl Tcb {
    /// Applies the options of the peer's SYN. Options that both sides offered are in use from now
    /// on.
    pub fn agree(&mut self, theirs: &Options, config: &TcpConfig, now: Time) {
        self.terms.agree(theirs, self.key.local.is_v4(), config);
        if let (true, Some((value, _))) = (self.terms.timestamps(), theirs.timestamps) {
            self.timestamps.remember(value, now);
        }
        self.sender.set_mss(self.terms.payload_mss(), config);
    }

    /// Options of our SYN; those of a SYN+ACK include only what the peer offered.
    pub fn syn_options(&self, config: &TcpConfig, our_mss: u16, now: Time) -> Options {
        let answers = self.state == State::SynReceived;
        let terms = &self.terms;
        let (scaling, scale, sack, timestamps) = if answers {
            let scaling = config.window_scaling && terms.scaling();
            (scaling, terms.our_scale(), terms.sack(), terms.timestamps())
        } else {
            let scale = receive_scale(config);
            (config.window_scaling, scale, config.sack, config.timestamps)
        };
        Options {
            mss: Some(our_mss),
            scale: scaling.then_some(scale),
            sack_permitted: sack,
            timestamps: timestamps.then(|| self.timestamps.option(now)),
            ..Options::default()
        }
    }

    /// Timestamp option of a segment after the handshake.
    pub fn stamp(&self, now: Time) -> Options {
        Options {
            timestamps: (self.terms.timestamps()).then(|| self.timestamps.option(now)),
            ..Options::default()
        }
    }

    /// Timestamp and SACK options of a segment after the handshake.
    pub fn options(&self, now: Time, chunks: &Chunks) -> Options {
        let mut options = self.stamp(now);
        if self.terms.sack() {
            self.receiver.sack_blocks(&mut options, chunks);
        }
        options
    }
}
