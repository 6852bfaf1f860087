//! UDP (RFC 768): bound addresses, datagrams in and out.

use super::Stack;
use super::listeners::{Listener, Listeners};
use super::readers::READERS;
use super::receive::Datagram;
use super::resolve::NextHop;
use crate::api::*;
use crate::flow::FlowKey;
use crate::wire::address::Addr;
use crate::wire::{ip, udp};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// A datagram that waits to be sent.
#[derive(Debug, Clone, Copy)]
struct Send {
    udp: UdpId,
    key: FlowKey,
    payload: Payload,
    token: u64,
}

/// A datagram that waits to be handed up.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    udp: UdpId,
    chunk: Chunk,
    remote: SocketAddr,
    local: IpAddr,
}

/// Bound addresses and queues.
#[derive(Debug)]
pub struct Udp {
    bound: Listeners,
    sends: VecDeque<Send>,
    waiting: VecDeque<Send>,
    /// Of each the bound address, which may be gone, its cookie, and the token: who sent it is
    /// told of each, whatever came of it.
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

    /// The next event.
    pub fn poll(&mut self) -> Option<Event> {
        if let Some(Arrival {
            udp,
            chunk,
            remote,
            local,
        }) = self.arrivals.pop_front()
        {
            if self.bound.check(udp.slot, udp.generation).is_none() {
                // Its address was given back.
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

    /// A send is done with, or given up; its address is still bound.
    fn done(&mut self, send: &Send) {
        let cookie = self.bound.get(send.udp.slot).cookie();
        self.sent.push_back((send.udp, cookie, send.token));
    }

    pub fn has_sends(&self) -> bool {
        !self.sends.is_empty()
    }

    fn outstanding(&self) -> usize {
        self.sends.len() + self.waiting.len() + self.sent.len()
    }

    /// A neighbour was found: who waited tries again.
    pub fn wake(&mut self) {
        while let Some(send) = self.waiting.pop_front() {
            self.sends.push_back(send);
        }
    }

    /// Nobody answers: datagrams for there are given back.
    pub fn give_up(&mut self, there: impl Fn(&Addr) -> bool) {
        for _ in 0..self.waiting.len() {
            if let Some(send) = self.waiting.pop_front() {
                if there(&send.key.remote) {
                    self.done(&send);
                } else {
                    self.waiting.push_back(send);
                }
            }
        }
    }

    /// Gives up what waits to be sent from an address.
    fn give_up_from(&mut self, udp: UdpId) {
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

impl Stack {
    /// Takes datagrams for an address.
    ///
    /// # Errors
    /// When it is in use, not ours, or the table is full.
    pub fn udp_bind(&mut self, at: SocketAddr, cookie: u64) -> Result<UdpId, BindError> {
        let ip = self.check_bind(at)?;
        let bound = Listener::new(ip, at.port(), cookie, self.config.limits.udp_backlog);
        let slot = self.udp.bound.bind(bound, self.config.limits.udp)?;
        Ok(UdpId {
            slot,
            generation: self.udp.bound.generation(slot),
        })
    }

    /// Says who sends from an address and reads there, below [`READERS`]; number 0 unless told.
    pub fn set_udp_reader(&mut self, udp: UdpId, reader: u8) {
        let bound = &mut self.udp.bound;
        if let Some(slot) = bound.check(udp.slot, udp.generation) {
            bound.get_mut(slot).set_reader(reader % READERS);
        }
    }

    /// Gives an address back. Datagrams that wait are dropped: their buffers come back in
    /// [`Event::Release`], what waits to be sent is given up, with [`Event::UdpSent`].
    pub fn udp_unbind(&mut self, udp: UdpId) -> bool {
        if self.udp.bound.check(udp.slot, udp.generation).is_none() {
            return false;
        }
        self.udp.give_up_from(udp);
        self.udp.bound.unbind(udp.slot);
        true
    }

    /// Sends one datagram. Its ranges are the application's again with [`Event::UdpSent`].
    /// `local`: the address to send from, when the bound one is the unspecified one.
    ///
    /// # Errors
    /// When it does not fit, nothing leads there, or too much waits.
    pub fn udp_sendv(
        &mut self,
        now: Time,
        udp: UdpId,
        local: Option<IpAddr>,
        remote: SocketAddr,
        data: &[Chunk],
        token: u64,
    ) -> Result<(), UdpSendError> {
        self.udp
            .bound
            .check(udp.slot, udp.generation)
            .ok_or(UdpSendError::Gone)?;
        let bound = *self.udp.bound.get(udp.slot);
        let to = Addr::from(remote.ip());
        let no_route = UdpSendError::NoRoute(remote.ip());
        let source = self.routes.source_for(&to).ok_or(no_route)?;
        let from = if !bound.at().is_unspecified() {
            *bound.at()
        } else {
            local.map_or(source, Addr::from)
        };
        let odd = !to.is_unicast() || self.routes.is_broadcast(&to) || self.routes.is_ours(&to);
        if from.is_v4() != to.is_v4()
            || bound.at().is_v4() != to.is_v4()
            || !self.routes.is_ours(&from)
            || odd
        {
            return Err(no_route);
        }
        let mut payload = Payload::default();
        for chunk in data.iter().filter(|chunk| chunk.len > 0) {
            if !payload.push(*chunk) {
                return Err(UdpSendError::TooManyChunks(data.len()));
            }
        }
        let most =
            self.path_mtu(&to, now) - (ip::header_bytes(to.is_v4()) + udp::HEADER_BYTES) as u32;
        if payload.len() > most as usize {
            return Err(UdpSendError::TooLong {
                bytes: payload.len() as u32,
                most,
            });
        }
        if self.udp.outstanding() >= self.udp.most_sends {
            return Err(UdpSendError::Full);
        }
        let key = FlowKey {
            local: from,
            remote: to,
            local_port: bound.port(),
            remote_port: remote.port(),
        };
        self.udp.sends.push_back(Send {
            udp,
            key,
            payload,
            token,
        });
        Ok(())
    }

    /// The application is done with so many datagrams of this address.
    pub fn udp_recv_done(&mut self, udp: UdpId, datagrams: u32) {
        if self.udp.bound.check(udp.slot, udp.generation).is_some() {
            let bound = self.udp.bound.get_mut(udp.slot);
            bound.take_pending(datagrams);
        }
    }

    /// Takes a UDP datagram. Says whether its buffer is kept.
    pub(super) fn udp_in(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        let Some(header) = udp::parse(datagram.payload()) else {
            self.counters.malformed += 1;
            return false;
        };
        let verified = self.config.received_checksums_verified && !datagram.reassembled;
        let v4 = datagram.packet.source.is_v4();
        // Only IPv4 may leave the sum out (RFC 8200, 8.1).
        let right = if header.has_checksum {
            verified || datagram.sum_is_right(header.len)
        } else {
            v4
        };
        if !right {
            self.counters.bad_checksum += 1;
            return false;
        }
        let Some(slot) = self
            .udp
            .bound
            .find(&datagram.packet.destination, header.destination_port)
        else {
            self.counters.no_listener += 1;
            return self.port_unreachable(now, datagram);
        };
        let bound = self.udp.bound.get_mut(slot);
        let full = bound.is_full() || self.udp.arrivals.len() >= self.udp.most_arrivals;
        if full || self.chunks.free() == 0 {
            self.counters.udp_dropped += 1;
            return false;
        }
        bound.add_pending();
        self.counters.udp_received += 1;
        self.udp.arrivals.push_back(Arrival {
            udp: UdpId {
                slot,
                generation: self.udp.bound.generation(slot),
            },
            chunk: datagram.chunk(udp::HEADER_BYTES, header.len),
            remote: SocketAddr::new(datagram.packet.source.ip(), header.source_port),
            local: datagram.packet.destination.ip(),
        });
        true
    }

    /// The next datagram to send.
    pub(super) fn poll_datagram(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        loop {
            let send = self.udp.sends.pop_front()?;
            let asker = self.udp.bound.get(send.udp.slot).reader();
            match self.resolve(&send.key.remote, asker, now) {
                NextHop::Mac(mac) => {
                    self.udp.done(&send);
                    self.counters.udp_sent += 1;
                    return Some(self.write_datagram(out, mac, &send.key, send.payload));
                }
                NextHop::Wait => self.udp.waiting.push_back(send),
                NextHop::Busy | NextHop::Nowhere => self.udp.done(&send),
            }
        }
    }
}
