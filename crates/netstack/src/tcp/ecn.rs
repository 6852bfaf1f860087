//! Explicit congestion notification (RFC 3168): routers mark packets instead of dropping them; the
//! receiver echoes the mark, and the sender slows down.

use super::seq;
use super::state::{State, Tcb};
use crate::api::{Ecn as Setting, Time};
use crate::wire::tcp::{ACK, CWR, ECE, SYN};

/// One connection's ECN, once both sides have agreed on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ecn {
    /// A mark has come: our acknowledgements say so until the peer has slowed down.
    echoes: bool,
    /// The window was reduced: the next new data says so (CWR).
    is_reduced: bool,
    /// Marks of what was sent before this one are one event (RFC 3168, 6.1.2); `None` before the first.
    reduced_at: Option<u32>,
}

impl Ecn {
    /// What `ack` acknowledges was sent before the window was last reduced.
    pub fn is_known(&self, ack: u32) -> bool {
        self.reduced_at.is_some_and(|at| seq::le(ack, at))
    }

    /// Flags that a segment has beside its own; `is_new`: it is new data.
    pub fn flags(&mut self, is_new: bool) -> u8 {
        let echo = if self.echoes { ECE } else { 0 };
        let reduced = is_new && std::mem::take(&mut self.is_reduced);
        echo | if reduced { CWR } else { 0 }
    }
}

/// Whether a SYN asks for ECN (RFC 3168, 6.1.1), and a SYN+ACK agrees.
pub const fn asks(flags: u8) -> bool {
    flags & (SYN | ACK | ECE | CWR) == SYN | ECE | CWR
}

const fn agrees(flags: u8) -> bool {
    flags & (ECE | CWR) == ECE
}

impl Tcb {
    /// Flags of our SYN or SYN+ACK. A SYN that is sent again does not ask: perhaps that is what dropped
    /// it (RFC 3168, 6.1.1.1).
    pub fn syn_ecn_flags(&self, setting: Setting, is_first: bool) -> u8 {
        match self.state {
            State::SynReceived if self.terms.ecn() => ECE,
            State::SynSent if setting == Setting::On && is_first => ECE | CWR,
            _ => 0,
        }
    }

    /// The peer's SYN+ACK, which answers our SYN.
    pub fn agree_ecn(&mut self, flags: u8, setting: Setting) {
        let asked = setting == Setting::On && self.timers.retries() == 0;
        self.terms.set_ecn(asked && agrees(flags));
    }

    /// A segment with data or control came; `is_marked`: a router has marked its packet.
    pub fn take_mark(&mut self, flags: u8, is_marked: bool) {
        if flags & CWR != 0 {
            self.ecn.echoes = false;
        }
        if is_marked {
            self.ecn.echoes = true;
            // The sender is to know at once, as Linux does.
            self.receiver.acks_mut().demand();
        }
    }

    /// An acknowledgement echoes a mark: the window is reduced, once for what was under way.
    pub fn take_echo(&mut self, ack: u32, now: Time) {
        if self.ecn.is_known(ack) || self.recovery.is_on() {
            return;
        }
        let (flight, mss) = (self.sender.flight(), self.payload_mss());
        self.sender.window.begin_recovery(flight, 0, mss, now);
        self.slowed_down();
    }

    /// The window was reduced, for a mark or for a loss (RFC 3168, 6.1.2).
    pub fn slowed_down(&mut self) {
        if self.terms.ecn() {
            self.ecn.is_reduced = true;
            self.ecn.reduced_at = Some(self.sender.max());
        }
    }
}
