//! Receive window that is offered to the peer (RFC 9293, 3.8.6.2.2).

use super::seq;
use super::terms::Terms;
use crate::api::TcpConfig;

/// Offered window and the data that fills it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offer {
    /// Right edge of the window.
    edge: u32,
    /// Largest window offered so far, in bytes.
    most: u32,
    /// Bytes that are ready for the application or in use by it.
    unread_bytes: u32,
    unread_buffers: u32,
    /// The reader is stopped while data or the peer waits for it.
    is_held_up: bool,
}

/// Largest window that can be announced: 64 KiB without scaling (RFC 7323, 2.2).
fn largest(terms: &Terms, config: &TcpConfig) -> u32 {
    config.receive_window_bytes.min(0xffff << terms.our_scale())
}

impl Offer {
    /// Starts with the peer's first data byte at `next`. Before the window can be scaled, at most
    /// 64 KiB are offered.
    pub fn begin(&mut self, next: u32, config: &TcpConfig) {
        self.most = config.receive_window_bytes.min(0xffff);
        self.edge = next.wrapping_add(self.most);
    }

    /// Bytes from `at` to the right edge.
    pub fn bytes(&self, at: u32) -> u32 {
        seq::distance(at, self.edge)
    }

    /// Window as a segment announces it, scaled.
    pub fn scaled(&self, next: u32, terms: &Terms) -> u16 {
        (self.bytes(next) >> terms.our_scale()).min(0xffff) as u16
    }

    /// Moves the right edge behind the peer's FIN, which was accepted and lies before `next`.
    pub fn pass(&mut self, next: u32) {
        self.edge = seq::max(self.edge, next);
    }

    /// Window to announce if the next expected byte is `next`. Moves the right edge forward if the
    /// gain is large enough (silly window avoidance, RFC 9293, 3.8.6.2.2), and never back.
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

    /// Right edge of the largest possible window.
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

    /// Whether the application may get another buffer.
    pub fn has_buffer(&self, config: &TcpConfig) -> bool {
        self.unread_buffers < u32::from(config.receive_buffers)
    }

    /// Records a buffer of `bytes` that is ready for the application.
    pub fn fill(&mut self, bytes: u32) {
        self.unread_bytes += bytes;
        self.unread_buffers += 1;
    }

    /// Bytes that are ready for the application or in use by it.
    pub const fn unread_bytes(&self) -> u32 {
        self.unread_bytes
    }

    /// Records that the application has finished with data. Returns whether the peer may wait for
    /// the window and needs an announcement.
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

    /// Whether the window counts as closed because the reader is stopped.
    pub const fn is_suspended(&self) -> bool {
        self.is_held_up
    }

    /// Records that the reader is stopped while data waits for it.
    pub fn suspend(&mut self) {
        self.is_held_up = true;
    }

    /// Records that the reader resumes.
    pub fn resume(&mut self) {
        self.is_held_up = false;
    }
}
