//! Assignment of frames to the stacks of several cores.

use super::Stack;
use crate::api::ConnectionId;
use crate::flow::{self, FlowKey};
use crate::wire::ip;
use crate::wire::packet::Packet;
use crate::wire::{arp, ethernet, icmp, ipv4, ipv6, ndp, tcp, udp};

/// Destination of a frame among the stacks that share interfaces and a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steering {
    /// The stack that owns this flow group.
    Group(u8),
    /// All stacks: a neighbour's answer, or an error about a packet that any of them may have sent.
    All,
    /// Always the same stack: a fragment, as only the first of a datagram has the ports.
    First,
    /// Any one stack.
    Any,
}

impl Stack {
    /// Destination of a frame. All stacks with the same secret return the same.
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

    /// Flow group of a connection; `None` if the handle is stale.
    pub fn group_of(&self, connection: ConnectionId) -> Option<u8> {
        let slot = self.connections.find(connection)?;
        Some(flow::group(self.connections.get(slot).hash()))
    }

    /// Sets the flow groups of this stack (bit n: group n). `connect` chooses ports whose answers
    /// belong to them, and reassembled segments are accepted only for them. Initially all.
    pub fn set_owned_groups(&mut self, groups: u128) {
        self.flows.own_groups(groups);
    }
}
