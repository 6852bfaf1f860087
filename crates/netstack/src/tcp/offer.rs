//! The window that the peer is offered (RFC 9293, 3.8.6.2.2).

use super::seq;
use super::terms::Terms;
use crate::api::TcpConfig;

/// The offered window, and what fills it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offer {
    /// Its right edge.
    edge: u32,
    /// The most that was offered so far, in bytes.
    most: u32,
    /// Handed up or ready to be, not yet done with.
    unread_bytes: u32,
    unread_buffers: u32,
    /// The reader is stopped, and data or the peer waits for it.
    is_held_up: bool,
}

/// The largest window that can be announced: without scaling, 64 KiB (RFC 7323, 2.2).
fn largest(terms: &Terms, config: &TcpConfig) -> u32 {
    config.receive_window_bytes.min(0xffff << terms.our_scale())
}

impl Offer {
    /// The peer's data begins at `next`. Until the window can be scaled, at most 64 KiB are
    /// promised.
    pub fn begin(&mut self, next: u32, config: &TcpConfig) {
        self.most = config.receive_window_bytes.min(0xffff);
        self.edge = next.wrapping_add(self.most);
    }

    /// Bytes from `at` on that it has room for.
    pub fn bytes(&self, at: u32) -> u32 {
        seq::distance(at, self.edge)
    }

    /// As [`Self::bytes`], as a segment announces it.
    pub fn scaled(&self, next: u32, terms: &Terms) -> u16 {
        (self.bytes(next) >> terms.our_scale()).min(0xffff) as u16
    }

    /// The peer's FIN was taken, which lies before `next`.
    pub fn pass(&mut self, next: u32) {
        self.edge = seq::max(self.edge, next);
    }

    /// The window to announce, where data is awaited at `next`: moves the right edge on when that
    /// is worth it (silly window avoidance, RFC 9293, 3.8.6.2.2) and never back.
    pub fn announce(&mut self, next: u32, terms: &Terms, config: &TcpConfig) -> u16 {
        let edge = self.possible_edge(next, terms, config);
        if self.is_worth_announcing(edge, terms, config) {
            self.edge = edge;
            self.most = self.most.max(self.bytes(next));
        }
        if self.is_held_up {
            return 0;
        }
        self.scaled(next, terms)
    }

    /// How far the window could reach.
    fn possible_edge(&self, next: u32, terms: &Terms, config: &TcpConfig) -> u32 {
        if !self.has_buffer(config) {
            return self.edge;
        }
        next.wrapping_add(largest(terms, config).saturating_sub(self.unread_bytes))
    }

    fn is_worth_announcing(&self, edge: u32, terms: &Terms, config: &TcpConfig) -> bool {
        let gain = seq::distance(self.edge, edge);
        gain > 0 && gain >= (largest(terms, config) / 2).min(u32::from(terms.mss()))
    }

    /// Whether a buffer more may be handed up.
    pub fn has_buffer(&self, config: &TcpConfig) -> bool {
        self.unread_buffers < u32::from(config.receive_buffers)
    }

    /// A buffer with so many bytes is to be handed up.
    pub fn fill(&mut self, bytes: u32) {
        self.unread_bytes += bytes;
        self.unread_buffers += 1;
    }

    /// Handed up or ready to be, not yet done with.
    pub const fn unread_bytes(&self) -> u32 {
        self.unread_bytes
    }

    /// The application is done with data. Says whether a peer that sends more might be waiting for
    /// the window, and is to be told of it.
    pub fn read(
        &mut self,
        bytes: u32,
        buffers: u32,
        next: u32,
        terms: &Terms,
        config: &TcpConfig,
    ) -> bool {
        self.unread_bytes = self.unread_bytes.saturating_sub(bytes);
        self.unread_buffers = self.unread_buffers.saturating_sub(buffers);
        let edge = self.possible_edge(next, terms, config);
        let has_freed = bytes > 0 || buffers > 0;
        has_freed
            && self.bytes(next) <= self.most / 4
            && self.is_worth_announcing(edge, terms, config)
    }

    /// The reader is stopped, and data or the peer waits for it: the window counts as closed.
    pub const fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    /// The reader is stopped, and data waits for it.
    pub fn hold_up(&mut self) {
        self.is_held_up = true;
    }

    /// The reader resumes.
    pub fn resume(&mut self) {
        self.is_held_up = false;
    }
}
