//! The stack of this crate, with explicit time.

use super::Host;
use super::support::app::pattern;
use super::support::node::Node;
use super::support::script::{MACS, neighbour_answer, number};
use super::support::segment::Segment;
use super::support::{config, ip};
use cofferdam_netstack::*;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub struct StackHost {
    node: Node,
    now: Time,
    us: IpAddr,
    peer: IpAddr,
    connection: Option<ConnectionId>,
    /// Received and unread bytes and buffers.
    unread: (u32, u32),
}

impl StackHost {
    pub fn new(v6: bool) -> StackHost {
        let now = Time::from_nanos(1_000_000_000);
        StackHost {
            node: Node::new(config(0), now),
            now,
            us: ip(0, v6),
            peer: ip(1, v6),
            connection: None,
            unread: (0, 0),
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.node.event() {
            match event {
                Event::Knock { connection, .. } => self.connection = Some(connection),
                Event::Recv { chunk, .. } => {
                    self.unread = (self.unread.0 + chunk.len, self.unread.1 + 1);
                    self.node.memory.free(chunk.buffer);
                }
                _ => {}
            }
        }
    }

    fn sent(&mut self) -> Vec<Segment> {
        let mut segments = Vec::new();
        self.events();
        while let Some(frame) = self.node.transmit(self.now) {
            if let Some(segment) = Segment::read(&frame) {
                segments.push(segment);
            } else if let Some(answer) = neighbour_answer(&frame, self.us, self.peer) {
                self.node.receive(self.now, &answer);
            }
            self.events();
        }
        segments
    }
}

impl Host for StackHost {
    fn command(&mut self, words: &[&str], ports: (u16, u16)) {
        let (stack, now) = (&mut self.node.stack, self.now);
        let local = SocketAddr::new(self.us, ports.0);
        if let ["listen"] = words {
            stack.listen(local, 8, 1).expect("free");
            return;
        }
        if let ["connect"] = words {
            let to = SocketAddr::new(self.peer, ports.1);
            self.connection = Some(stack.connect(now, Some(local), to, 1).expect("room"));
            return;
        }
        let id = self.connection.expect("a connection");
        match words {
            ["accept"] => drop(stack.accept(now, id, 1).expect("it knocked")),
            ["send", bytes, from] => {
                let from: u64 = from.parse().expect("a number");
                let data = (from..from + u64::from(number(bytes))).map(pattern);
                let chunk = self.node.memory.data(&data.collect::<Vec<_>>());
                let taken = self.node.stack.sendv(now, id, &[chunk]);
                assert_eq!(taken, Ok(number(bytes)));
            }
            ["read", bytes] => {
                let (unread, buffers) = std::mem::take(&mut self.unread);
                assert_eq!(unread, number(bytes), "all that has come");
                stack.recv_done(now, id, unread, buffers).expect("open");
            }
            ["shutdown"] => stack.shutdown(now, id).expect("open"),
            // A close with unread data resets the connection, as that of a socket does.
            ["close"] if self.unread.0 > 0 => stack.abort(now, id).expect("open"),
            ["close"] => stack.close(now, id).expect("open"),
            other => panic!("no command {other:?}"),
        }
    }

    fn arrive(&mut self, segment: &Segment) {
        let frame = segment.write(MACS, self.peer, self.us);
        self.node.receive(self.now, &frame);
    }

    fn answers(&mut self, peer: u16, wait: bool) -> Vec<Segment> {
        self.now = self.now + Duration::from_millis(2);
        self.node.stack.handle_timers(self.now);
        let mut sent = self.sent();
        // This loop exceeds TcpConfig::delayed_ack, which is 40 ms.
        for _ in 0..50 {
            if !sent.is_empty() || !wait {
                break;
            }
            self.now = self.now + Duration::from_millis(1);
            self.node.stack.handle_timers(self.now);
            sent = self.sent();
        }
        sent.retain(|segment| segment.to == peer);
        sent
    }
}
