//! TCP Fast Open (RFC 7413), as one connection knows it: what its SYN or SYN+ACK carries beside the
//! handshake, and whether the application has the connection before the handshake is done.

use super::context::Context;
use super::segment::Incoming;
use super::state::{State, Tcb};
use crate::api::Chunk;
use crate::wire::tcp::FastOpenOption;

/// What is beside the handshake.
#[derive(Debug, Clone, Copy, Default)]
pub struct FastOpen {
    /// Our first SYN or SYN+ACK has this option, which is forgotten once that is sent again.
    option: Option<FastOpenOption>,
    /// What a server says of Fast Open, and of its segment size, is to be remembered.
    is_learning: bool,
    /// Our SYN had the option.
    has_asked: bool,
    /// A peer's SYN opened the connection with a cookie, and its handshake is not done.
    is_early: bool,
    /// The SYN+ACK of such a connection is to be sent.
    is_answer_due: bool,
    /// Data in a SYN was taken: ours by the peer, or the peer's.
    has_data: bool,
}

impl FastOpen {
    /// The option of our SYN or SYN+ACK, which is sent once: a SYN that is sent again has neither
    /// data nor option, in case that they were what dropped it (RFC 7413, 4.1.3).
    pub const fn option(&self) -> Option<FastOpenOption> {
        self.option
    }

    /// Our SYN or SYN+ACK is sent again: without the option.
    pub fn forget_option(&mut self) {
        self.option = None;
    }

    /// What a server says is to be remembered.
    pub const fn is_learning(&self) -> bool {
        self.is_learning
    }

    /// Our SYN had the option, at least the first time.
    pub const fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// The application has the connection, and the handshake is not done.
    pub const fn is_early(&self) -> bool {
        self.is_early
    }

    /// As [`Self::is_early`]; it is not from now on.
    pub fn take_early(&mut self) -> bool {
        std::mem::take(&mut self.is_early)
    }

    /// Whether the SYN+ACK is to be sent; it counts as sent then.
    pub fn take_answer(&mut self) -> bool {
        std::mem::take(&mut self.is_answer_due)
    }

    pub const fn is_answer_due(&self) -> bool {
        self.is_answer_due
    }

    /// Data in a SYN was taken.
    pub const fn has_data(&self) -> bool {
        self.has_data
    }

    /// The peer has taken data of our SYN.
    pub fn was_taken(&mut self) {
        self.has_data = true;
    }
}

impl Tcb {
    /// Our SYN+ACK has this option.
    pub fn offer_fast_open(&mut self, option: FastOpenOption) {
        self.fast_open.option = Some(option);
    }

    /// Our SYN may have data, and has this option; what the server says is to be remembered.
    pub fn ask_fast_open(&mut self, option: Option<FastOpenOption>) {
        self.fast_open.option = option;
        (self.fast_open.is_learning, self.fast_open.has_asked) = (true, option.is_some());
    }

    /// Takes data for our SYN: a prefix of `data`, `most` bytes at most. Says how many bytes.
    pub fn take_for_syn(&mut self, data: &[Chunk], most: u32, context: &mut Context<'_>) -> u32 {
        self.sender.queue.push(data, most, context.chunks)
    }

    /// A peer's SYN with a cookie: the application has the connection from now on, and its data
    /// (RFC 7413, 4.2). Says whether the buffer is kept.
    pub fn open_early(&mut self, syn: &Incoming, context: &mut Context<'_>) -> bool {
        self.fast_open.is_early = true;
        self.fast_open.is_answer_due = true;
        self.sender.open_early();
        self.recovery.repair_from(self.sender.una());
        self.notices.opened();
        if syn.payload.len == 0 {
            return false;
        }
        let mut data = *syn;
        data.header.flags = crate::wire::tcp::ACK;
        data.header.seq = syn.header.seq.wrapping_add(1);
        // Nobody has accepted it.
        let held = self
            .receiver
            .take(&data, false, &self.terms, &mut self.timers, context);
        self.fast_open.has_data = held;
        held
    }

    /// The SYN that opened this connection comes again, or its answer was lost.
    pub fn answer_again(&mut self) {
        if self.fast_open.is_early {
            self.fast_open.is_answer_due = true;
        } else {
            self.sender.repeat_syn();
        }
    }

    /// The application has the connection before its handshake is done.
    pub const fn is_early(&self) -> bool {
        matches!(self.state, State::SynReceived) && self.fast_open.is_early()
    }

    /// See [`FastOpen`].
    pub const fn fast_open(&self) -> &FastOpen {
        &self.fast_open
    }

    /// See [`FastOpen`].
    pub const fn fast_open_mut(&mut self) -> &mut FastOpen {
        &mut self.fast_open
    }
}
