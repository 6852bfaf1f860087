//! Received and sent UDP datagrams, and the application's calls.

use super::Stack;
use super::listeners::Listener;
use super::receive::Datagram;
use super::resolve::NextHop;
use super::udp::{Arrival, Send};
use crate::api::{BindError, Chunk, Payload, Time, Transmit, UdpId, UdpSendError};
use crate::flow::FlowKey;
use crate::tuning::READERS;
use crate::wire::address::Addr;
use crate::wire::{ip, udp};
use std::net::{IpAddr, SocketAddr};

impl Stack {
    /// Binds a UDP address.
    ///
    /// # Errors
    ///
    /// If the address is in use or not the stack's, or the table is full.
    pub fn udp_bind(&mut self, at: SocketAddr, cookie: u64) -> Result<UdpId, BindError> {
        let ip = self.check_bind(at)?;
        let bound = Listener::new(ip, at.port(), cookie, self.config.limits.udp_backlog);
        self.udp.bind(bound, self.config.limits.udp)
    }

    /// Sets the reader of a bound address, a number below [`READERS`]. Default 0.
    pub fn set_udp_reader(&mut self, udp: UdpId, reader: u8) {
        if let Some(bound) = self.udp.get_mut(udp) {
            bound.set_reader(reader % READERS);
        }
    }

    /// Closes a bound address. The stack drops its received datagrams and returns their buffers
    /// with [`crate::Event::Release`]. It gives up datagrams that wait to be sent with
    /// [`crate::Event::UdpSent`].
    pub fn udp_unbind(&mut self, udp: UdpId) -> bool {
        self.udp.unbind(udp)
    }

    /// Sends one datagram. [`crate::Event::UdpSent`] returns its ranges to the application. `local`
    /// is the source address if the bound address is unspecified.
    ///
    /// # Errors
    ///
    /// If the datagram does not fit, there is no route, or too many datagrams wait.
    pub fn udp_sendv(
        &mut self,
        now: Time,
        udp: UdpId,
        local: Option<IpAddr>,
        remote: SocketAddr,
        data: &[Chunk],
        token: u64,
    ) -> Result<(), UdpSendError> {
        let bound = *self.udp.get(udp).ok_or(UdpSendError::Gone)?;
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
        let mtu = self.paths.mtu(&to, self.routes.mtu_bytes(&from), now);
        let most = mtu - (ip::header_bytes(to.is_v4()) + udp::HEADER_BYTES) as u32;
        if payload.len() > most as usize {
            return Err(UdpSendError::TooLong {
                bytes: payload.len() as u32,
                most,
            });
        }
        if self.udp.is_full() {
            return Err(UdpSendError::Full);
        }
        let key = FlowKey {
            local: from,
            remote: to,
            local_port: bound.port(),
            remote_port: remote.port(),
        };
        self.udp.send(Send {
            udp,
            key,
            payload,
            token,
        });
        Ok(())
    }

    /// Records that the application has finished with `datagrams` of this address.
    pub fn udp_recv_done(&mut self, udp: UdpId, datagrams: u32) {
        if let Some(bound) = self.udp.get_mut(udp) {
            bound.take_pending(datagrams);
        }
    }

    /// Processes a UDP datagram. Returns whether the stack keeps its buffer.
    pub(super) fn udp_in(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        let Some(header) = udp::parse(datagram.payload()) else {
            self.counters.malformed += 1;
            return false;
        };
        let verified = self.config.received_checksums_verified && !datagram.reassembled;
        let v4 = datagram.packet.source.is_v4();
        // The checksum is optional only in IPv4 (RFC 8200, 8.1).
        let right = if header.has_checksum {
            verified || datagram.sum_is_right(header.len)
        } else {
            v4
        };
        if !right {
            self.counters.bad_checksum += 1;
            return false;
        }
        let packet = datagram.packet;
        let Some(udp) = self.udp.find(&packet.destination, header.destination_port) else {
            self.counters.no_listener += 1;
            return self.port_unreachable(now, datagram);
        };
        if !self.udp.has_room(udp) || self.ranges.free() == 0 {
            self.counters.udp_dropped += 1;
            return false;
        }
        self.counters.udp_received += 1;
        self.udp.arrive(Arrival {
            udp,
            chunk: datagram.chunk(udp::HEADER_BYTES, header.len),
            remote: SocketAddr::new(packet.source.ip(), header.source_port),
            local: packet.destination.ip(),
        });
        true
    }

    /// Next datagram to send.
    pub(super) fn poll_datagram(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        loop {
            let (send, reader) = self.udp.next_send()?;
            match self.resolve(&send.key, reader, now) {
                NextHop::Mac(mac) => {
                    self.udp.done(&send);
                    self.counters.udp_sent += 1;
                    return Some(self.write_datagram(out, mac, &send.key, send.payload));
                }
                NextHop::Wait => self.udp.wait(send),
                NextHop::Busy | NextHop::Nowhere => self.udp.done(&send),
            }
        }
    }
}
