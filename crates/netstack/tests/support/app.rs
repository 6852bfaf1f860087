//! Test applications: one that sends a stream and closes, and one that receives it.

use super::node::Node;
use super::world::App;
use cofferdam_netstack::*;

/// Byte at a position of a test stream. Neighbouring bytes differ, and so do pages.
pub fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 11) as u8 ^ (at >> 8) as u8
}

/// Application that sends `total` bytes of the pattern in pieces, closes, and checks received data.
#[derive(Debug)]
pub struct Stream {
    pub connection: Option<ConnectionId>,
    pub total: u64,
    pub piece: usize,
    pub sent: u64,
    pub acknowledged: u64,
    pub received: u64,
    pub peer_closed: bool,
    pub closed: bool,
    pub dead: Option<(Time, DeadReason)>,
    /// Number of received bytes after which it closes its side.
    pub close_after: u64,
    /// Whether it accepts connections.
    pub server: bool,
    /// Whether it returns data only on request.
    pub lazy: bool,
    pub lazy_bytes: (u32, u32),
    outstanding: std::collections::VecDeque<(u64, BufferId)>,
}

impl Stream {
    pub fn new(total: u64, piece: usize, server: bool) -> Self {
        Self {
            connection: None,
            total,
            piece,
            sent: 0,
            acknowledged: 0,
            received: 0,
            peer_closed: false,
            closed: false,
            dead: None,
            close_after: 0,
            server,
            lazy: false,
            lazy_bytes: (0, 0),
            outstanding: Default::default(),
        }
    }

    pub fn send(&mut self, now: Time, node: &mut Node) {
        let Some(connection) = self.connection else {
            return;
        };
        while self.sent < self.total {
            let len = (self.total - self.sent).min(self.piece as u64);
            let bytes: Vec<u8> = (self.sent..self.sent + len).map(pattern).collect();
            let chunk = node.memory.data(&bytes);
            let taken = match node.call(|stack| stack.sendv(now, connection, &[chunk])) {
                Ok(taken) => taken,
                Err(_) => {
                    node.memory.free(chunk.buffer);
                    return;
                }
            };
            if taken == 0 {
                node.memory.free(chunk.buffer);
                return;
            }
            self.sent += u64::from(taken);
            self.outstanding.push_back((self.sent, chunk.buffer));
            if u64::from(taken) < len {
                return;
            }
        }
        if !self.closed && self.received >= self.close_after {
            self.closed = true;
            node.call(|stack| stack.shutdown(now, connection))
                .expect("open");
        }
    }

    fn finish(&mut self, now: Time, node: &mut Node) {
        if self.peer_closed
            && self.acknowledged == self.total
            && let Some(connection) = self.connection
        {
            let _ = node.call(|stack| stack.close(now, connection));
        }
    }
}

impl App for Stream {
    fn event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::Knock { connection, .. } if self.server => {
                node.call(|stack| stack.accept(now, connection, 2))
                    .expect("knocked");
                self.connection = Some(connection);
                self.send(now, node);
            }
            Event::Connected { connection, .. } => {
                assert_eq!(self.connection.replace(connection), Some(connection));
                self.send(now, node);
            }
            Event::Recv {
                connection, chunk, ..
            } => {
                for (index, byte) in node.memory.read(chunk).iter().enumerate() {
                    let at = self.received + index as u64;
                    assert_eq!(*byte, pattern(at), "byte {at}");
                }
                self.received += u64::from(chunk.len);
                node.memory.free(chunk.buffer);
                if self.lazy {
                    self.lazy_bytes.0 += chunk.len;
                    self.lazy_bytes.1 += 1;
                } else {
                    let _ = node.call(|stack| stack.recv_done(now, connection, chunk.len, 1));
                }
                if self.close_after > 0 {
                    self.send(now, node);
                }
            }
            Event::Sent { bytes, .. } => {
                self.acknowledged += u64::from(bytes);
                while self
                    .outstanding
                    .front()
                    .is_some_and(|(end, _)| *end <= self.acknowledged)
                {
                    let Some((_, buffer)) = self.outstanding.pop_front() else {
                        break;
                    };
                    node.memory.free(buffer);
                }
                self.send(now, node);
                self.finish(now, node);
            }
            Event::PeerClosed { .. } => {
                self.peer_closed = true;
                self.finish(now, node);
            }
            Event::Dead { reason, .. } => {
                assert!(self.dead.replace((now, reason)).is_none(), "dead twice");
                while let Some((_, buffer)) = self.outstanding.pop_front() {
                    node.memory.free(buffer);
                }
            }
            other => panic!("not expected: {other:?}"),
        }
    }
}
