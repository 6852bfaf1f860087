//! UDP (RFC 768): bound addresses and queued datagrams.

use super::listeners::{Listener, Listeners};
use crate::api::{BindError, Chunk, Event, Limits, Payload, UdpId};
use crate::flow::FlowKey;
use crate::wire::address::Addr;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Datagram to send.
#[derive(Debug, Clone, Copy)]
pub struct Send {
    pub udp: UdpId,
    pub key: FlowKey,
    pub payload: Payload,
    pub token: u64,
}

/// Received datagram for the application.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub udp: UdpId,
    pub chunk: Chunk,
    pub remote: SocketAddr,
    pub local: IpAddr,
}

/// Bound addresses and queues.
#[derive(Debug)]
pub struct Udp {
    bound: Listeners,
    sends: VecDeque<Send>,
    waiting: VecDeque<Send>,
    /// Datagrams that were sent or given up: bound address, which may be closed, cookie and token.
    /// Every datagram is reported.
    sent: VecDeque<(UdpId, u64, u64)>,
    arrivals: VecDeque<Arrival>,
    most_sends: usize,
    most_arrivals: usize,
}

impl Udp {
    pub fn new(limits: &Limits, secret: &[u8; 16]) -> Self {
        let sends = limits.udp_sends as usize;
        let arrivals = limits.udp_backlog as usize * 4;
        Self {
            bound: Listeners::new(limits.udp, secret),
            sends: VecDeque::with_capacity(sends),
            waiting: VecDeque::with_capacity(sends),
            sent: VecDeque::with_capacity(sends),
            arrivals: VecDeque::with_capacity(arrivals),
            most_sends: sends,
            most_arrivals: arrivals,
        }
    }

    /// Next event.
    pub fn poll(&mut self) -> Option<Event> {
        if let Some(Arrival {
            udp,
            chunk,
            remote,
            local,
        }) = self.arrivals.pop_front()
        {
            if self.bound.check(udp.slot, udp.generation).is_none() {
                // The bound address was closed.
                let buffer = chunk.buffer;
                return Some(Event::Release { buffer });
            }
            let cookie = self.bound.get(udp.slot).cookie();
            return Some(Event::UdpRecv {
                udp,
                cookie,
                chunk,
                remote,
                local,
            });
        }
        let (udp, cookie, token) = self.sent.pop_front()?;
        Some(Event::UdpSent { udp, cookie, token })
    }

    /// Records that a datagram was sent or given up while its address is bound.
    pub fn done(&mut self, send: &Send) {
        let cookie = self.bound.get(send.udp.slot).cookie();
        self.sent.push_back((send.udp, cookie, send.token));
    }

    pub fn has_sends(&self) -> bool {
        !self.sends.is_empty()
    }

    /// Whether further datagrams must wait until the application has polled its events.
    pub fn is_full(&self) -> bool {
        self.sends.len() + self.waiting.len() + self.sent.len() >= self.most_sends
    }

    /// Queues a datagram; the caller has checked the space.
    pub fn send(&mut self, send: Send) {
        self.sends.push_back(send);
    }

    /// Next datagram to send, and the reader of its address.
    pub fn next_send(&mut self) -> Option<(Send, u8)> {
        let send = self.sends.pop_front()?;
        Some((send, self.bound.get(send.udp.slot).reader()))
    }

    /// Queues a datagram until its next hop is resolved.
    pub fn wait(&mut self, send: Send) {
        self.waiting.push_back(send);
    }

    /// Queues a received datagram; the caller has checked the space.
    pub fn arrive(&mut self, arrival: Arrival) {
        self.bound.get_mut(arrival.udp.slot).add_pending();
        self.arrivals.push_back(arrival);
    }

    /// Sends the waiting datagrams again because a neighbour was resolved.
    pub fn wake(&mut self) {
        while let Some(send) = self.waiting.pop_front() {
            self.sends.push_back(send);
        }
    }

    /// Gives up the waiting datagrams to a neighbour that does not answer.
    pub fn give_up(&mut self, there: impl Fn(&FlowKey) -> bool) {
        for _ in 0..self.waiting.len() {
            if let Some(send) = self.waiting.pop_front() {
                if there(&send.key) {
                    self.done(&send);
                } else {
                    self.waiting.push_back(send);
                }
            }
        }
    }

    /// Gives up all queued datagrams of a bound address.
    fn drop_queued(&mut self, udp: UdpId) {
        let cookie = self.bound.get(udp.slot).cookie();
        for queue in [&mut self.sends, &mut self.waiting] {
            queue.retain(|send| {
                let stays = send.udp != udp;
                if !stays {
                    self.sent.push_back((udp, cookie, send.token));
                }
                stays
            });
        }
    }
}

/// Bound addresses.
impl Udp {
    fn id(&self, slot: u32) -> UdpId {
        UdpId {
            slot,
            generation: self.bound.generation(slot),
        }
    }

    /// Binds an address in the table of `full` entries.
    pub fn bind(&mut self, address: Listener, full: u32) -> Result<UdpId, BindError> {
        let slot = self.bound.bind(address, full)?;
        Ok(self.id(slot))
    }

    /// Bound address of a handle, unless the handle is stale.
    pub fn get(&self, udp: UdpId) -> Option<&Listener> {
        let slot = self.bound.check(udp.slot, udp.generation)?;
        Some(self.bound.get(slot))
    }

    /// Bound address of a handle, unless the handle is stale.
    pub fn get_mut(&mut self, udp: UdpId) -> Option<&mut Listener> {
        let slot = self.bound.check(udp.slot, udp.generation)?;
        Some(self.bound.get_mut(slot))
    }

    /// Bound address for a received datagram.
    pub fn find(&self, at: &Addr, port: u16) -> Option<UdpId> {
        self.bound.find(at, port).map(|slot| self.id(slot))
    }

    /// Whether a received datagram for this address can be queued.
    pub fn has_room(&self, udp: UdpId) -> bool {
        !self.bound.get(udp.slot).is_full() && self.arrivals.len() < self.most_arrivals
    }

    /// Closes a bound address and gives up its queued datagrams. Returns `false` if the handle is
    /// stale.
    pub fn unbind(&mut self, udp: UdpId) -> bool {
        let is_there = self.get(udp).is_some();
        if is_there {
            self.drop_queued(udp);
            self.bound.unbind(udp.slot);
        }
        is_there
    }
}
