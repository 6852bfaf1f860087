//! Steering: which of several cores' stacks a frame is for.

use super::Stack;
use crate::api::ConnectionId;
use crate::flow::{self, FlowKey};
use crate::wire::ip;
use crate::wire::packet::Packet;
use crate::wire::{arp, ethernet, icmp, ipv4, ipv6, ndp, tcp, udp};

/// Which stack a frame is for, among several of one interface with one secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// The one that has this flow group.
    Group(u8),
    /// All: an answer of a neighbour, or an error about a packet that any of them may have sent.
    All,
    /// Always the same one: a fragment, of whose datagram only the first has the ports.
    First,
    /// Any one of them, and only one.
    Any,
}

impl Stack {
    /// Which stack a frame is for. The same for all stacks with one secret.
    pub fn steering(&self, frame: &[u8]) -> Steering {
        let Some(header) = ethernet::parse(frame) else {
            return Steering::Any;
        };
        let bytes = &frame[ethernet::HEADER_BYTES..];
        let packet = match header.kind {
            ethernet::IPV4 => ipv4::parse(bytes, true).ok(),
            ethernet::IPV6 => ipv6::parse(bytes).ok(),
            ethernet::ARP => {
                let is_for_all = arp::parse(bytes)
                    .is_some_and(|arp| arp.operation == arp::REPLY || arp.is_gratuitous());
                return if is_for_all {
                    Steering::All
                } else {
                    Steering::Any
                };
            }
            _ => None,
        };
        let Some(packet) = packet else {
            return Steering::Any;
        };
        if packet.fragment.is_some() {
            return Steering::First;
        }
        let Some(payload) = bytes.get(packet.payload_at..packet.end) else {
            return Steering::Any;
        };
        self.steering_of(&packet, payload)
    }

    fn steering_of(&self, packet: &Packet, payload: &[u8]) -> Steering {
        let ports = match packet.protocol {
            ip::TCP => tcp::parse(payload).map(|tcp| (tcp.source_port, tcp.destination_port)),
            ip::UDP => udp::parse(payload).map(|udp| (udp.source_port, udp.destination_port)),
            ip::ICMP | ip::ICMPV6 => {
                let v4 = packet.protocol == ip::ICMP;
                return match icmp::parse(payload, v4) {
                    Some(icmp::Message::Neighbour(ndp::ADVERTISEMENT)) => Steering::All,
                    Some(message) if message.is_error() => Steering::All,
                    _ => Steering::Any,
                };
            }
            _ => None,
        };
        let Some((remote_port, local_port)) = ports else {
            return Steering::Any;
        };
        let key = FlowKey {
            local: packet.destination,
            remote: packet.source,
            local_port,
            remote_port,
        };
        Steering::Group(flow::group(self.flows.hash(&key)))
    }

    /// The flow group of a connection; `None` when the handle names none.
    pub fn group_of(&self, connection: ConnectionId) -> Option<u8> {
        let slot = self.connections.find(connection)?;
        Some(flow::group(self.connections.get(slot).hash()))
    }

    /// Which flow groups this stack has (bit n: group n): `connect` chooses ports whose answers
    /// come here, and a segment that was put together from fragments is taken only here. All, at
    /// first.
    pub fn set_owned_groups(&mut self, groups: u128) {
        self.flows.own_groups(groups);
    }
}
