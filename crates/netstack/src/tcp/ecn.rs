//! Explicit congestion notification (RFC 3168): routers mark packets instead of dropping them, the
//! receiver echoes the mark, and the sender slows down.

use super::seq;
use super::state::{State, Tcb};
use crate::api::{Ecn as Setting, Time};
use crate::wire::tcp::{ACK, CWR, ECE, SYN};

/// ECN state of a connection that has negotiated it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ecn {
    /// A marked packet arrived; acknowledgements echo it (ECE) until the peer has reduced its
    /// window.
    echoes: bool,
    /// The window was reduced; the next new data announces it (CWR).
    is_reduced: bool,
    /// End of the data that was sent before the last reduction. Marks on that data are one event
    /// (RFC 3168, 6.1.2). `None` before the first reduction.
    reduced_at: Option<u32>,
}

impl Ecn {
    /// Whether `ack` covers only data that was sent before the last reduction.
    pub fn is_known(&self, ack: u32) -> bool {
        self.reduced_at.is_some_and(|at| seq::le(ack, at))
    }

    /// ECN flags of a segment; `is_new` if it contains new data.
    pub fn flags(&mut self, is_new: bool) -> u8 {
        let echo = if self.echoes { ECE } else { 0 };
        let reduced = is_new && std::mem::take(&mut self.is_reduced);
        echo | if reduced { CWR } else { 0 }
    }
}

/// Whether a SYN requests ECN (RFC 3168, 6.1.1).
pub const fn asks(flags: u8) -> bool {
    flags & (SYN | ACK | ECE | CWR) == SYN | ECE | CWR
}

const fn agrees(flags: u8) -> bool {
    flags & (ECE | CWR) == ECE
}

impl Tcb {
    /// ECN flags of our SYN or SYN+ACK. A retransmitted SYN does not request ECN: the request may
    /// have caused the loss (RFC 3168, 6.1.1.1).
    pub fn syn_ecn_flags(&self, setting: Setting, is_first: bool) -> u8 {
        match self.state {
            State::SynReceived if self.terms.ecn() => ECE,
            State::SynSent if setting == Setting::On && is_first => ECE | CWR,
            _ => 0,
        }
    }

    /// Processes the ECN flags of the peer's SYN+ACK, which answers our SYN.
    pub fn agree_ecn(&mut self, flags: u8, setting: Setting) {
        let requests_ecn = setting == Setting::On && self.timers.retries() == 0;
        self.terms.set_ecn(requests_ecn && agrees(flags));
    }

    /// Processes the ECN flags of a segment with data or control flags; `is_marked`: a router has
    /// marked its packet.
    pub fn take_mark(&mut self, flags: u8, is_marked: bool) {
        if flags & CWR != 0 {
            self.ecn.echoes = false;
        }
        if is_marked {
            self.ecn.echoes = true;
            // The acknowledgement goes out at once, as in Linux.
            self.receiver.acks_mut().demand();
        }
    }

    /// Reduces the window for an echoed mark, once for the data in flight.
    pub fn take_echo(&mut self, ack: u32, now: Time) {
        if self.ecn.is_known(ack) || self.recovery.is_on() {
            return;
        }
        let (flight, mss) = (self.sender.flight(), self.payload_mss());
        self.sender.window.begin_recovery(flight, 0, mss, now);
        self.window_reduced();
    }

    /// Records that the window was reduced, for a mark or for a loss (RFC 3168, 6.1.2).
    pub fn window_reduced(&mut self) {
        if self.terms.ecn() {
            self.ecn.is_reduced = true;
            self.ecn.reduced_at = Some(self.sender.max());
        }
    }
}
