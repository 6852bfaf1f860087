//! TCP Fast Open (RFC 7413) of one connection: the option and data of its SYN or SYN+ACK, and
//! whether the application got the connection before the handshake was complete.

use super::context::Context;
use super::segment::Incoming;
use super::state::{State, Tcb};
use crate::api::Chunk;
use crate::wire::tcp::FastOpenOption;

/// Fast Open state of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct FastOpen {
    /// Option of our first SYN or SYN+ACK. A retransmission does not have it.
    option: Option<FastOpenOption>,
    /// The SYN+ACK brings a cookie and a segment size to store.
    is_learning: bool,
    /// Our SYN had the option.
    has_asked: bool,
    /// A peer's SYN opened the connection with a cookie, and the handshake is not complete.
    is_early: bool,
    /// The SYN+ACK of such a connection is due.
    is_answer_due: bool,
    /// Data in a SYN was accepted: ours by the peer, or the peer's by us.
    has_data: bool,
}

impl FastOpen {
    /// Option of our first SYN or SYN+ACK. A retransmission has neither data nor option, as these
    /// may have caused the loss (RFC 7413, 4.1.3).
    pub const fn option(&self) -> Option<FastOpenOption> {
        self.option
    }

    /// Removes the option before a retransmission of our SYN or SYN+ACK.
    pub fn forget_option(&mut self) {
        self.option = None;
    }

    /// Whether the SYN+ACK brings a cookie and a segment size to store.
    pub const fn is_learning(&self) -> bool {
        self.is_learning
    }

    /// Whether our first SYN had the option.
    pub const fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// Whether the application has the connection although the handshake is not complete.
    pub const fn is_early(&self) -> bool {
        self.is_early
    }

    /// Returns [`Self::is_early`] and clears it.
    pub fn take_early(&mut self) -> bool {
        std::mem::take(&mut self.is_early)
    }

    /// Returns whether the SYN+ACK is due, and marks it as sent.
    pub fn take_answer(&mut self) -> bool {
        std::mem::take(&mut self.is_answer_due)
    }

    pub const fn is_answer_due(&self) -> bool {
        self.is_answer_due
    }

    /// Whether data in a SYN was accepted.
    pub const fn has_data(&self) -> bool {
        self.has_data
    }

    /// Records that the peer has accepted the data of our SYN.
    pub fn syn_data_accepted(&mut self) {
        self.has_data = true;
    }
}

impl Tcb {
    /// Sets the option of our SYN+ACK.
    pub fn offer_fast_open(&mut self, option: FastOpenOption) {
        self.fast_open.option = Some(option);
    }

    /// Sets the option of our SYN, which may carry data. The stack stores the server's answer.
    pub fn ask_fast_open(&mut self, option: Option<FastOpenOption>) {
        self.fast_open.option = option;
        (self.fast_open.is_learning, self.fast_open.has_asked) = (true, option.is_some());
    }

    /// Queues a prefix of `data`, at most `most` bytes, for our SYN. Returns its length in bytes.
    pub fn take_for_syn(&mut self, data: &[Chunk], most: u32, context: &mut Context<'_>) -> u32 {
        self.sender.queue.push(data, most, context.chunks)
    }

    /// Opens a connection with a peer's SYN that has a cookie: the application gets it and its data
    /// now (RFC 7413, 4.2). Returns whether the connection keeps the buffer.
    pub fn open_early(&mut self, syn: &Incoming, context: &mut Context<'_>) -> bool {
        self.fast_open.is_early = true;
        self.fast_open.is_answer_due = true;
        self.sender.open_early();
        self.recovery.restart_repair(self.sender.una());
        self.notices.opened();
        if syn.payload.len == 0 {
            return false;
        }
        let mut data = *syn;
        data.header.flags = crate::wire::tcp::ACK;
        data.header.seq = syn.header.seq.wrapping_add(1);
        // The application has not accepted the connection yet.
        let keeps_buffer = self
            .receiver
            .take(&data, false, &self.terms, &mut self.timers, context);
        self.fast_open.has_data = keeps_buffer;
        keeps_buffer
    }

    /// Sends the SYN+ACK again, because it was lost or the peer's SYN came again.
    pub fn resend_syn_ack(&mut self) {
        if self.fast_open.is_early {
            self.fast_open.is_answer_due = true;
        } else {
            self.sender.repeat_syn();
        }
    }

    /// Whether the application has the connection although the handshake is not complete.
    pub const fn is_early(&self) -> bool {
        matches!(self.state, State::SynReceived) && self.fast_open.is_early()
    }

    /// Fast Open state.
    pub const fn fast_open(&self) -> &FastOpen {
        &self.fast_open
    }

    /// Fast Open state.
    pub const fn fast_open_mut(&mut self) -> &mut FastOpen {
        &mut self.fast_open
    }
}
