//! Asking for neighbours and answering them: ARP and neighbour discovery messages, and what waits
//! for them.

use super::Stack;
use super::neighbour::{Due, Lookup, Neighbours};
use super::replies::{Outline, Reply};
use super::route::{Hop, Way};
use super::timers::Timer;
use crate::api::{DeadReason, MacAddress, Time};
use crate::flow::FlowKey;
use crate::tcp::state::State;
use crate::wire::address::Addr;
use crate::wire::{arp, ethernet, ip, ndp};

/// Neighbour discovery messages come from the link itself (RFC 4861, 7.1).
const NDP_HOP_LIMIT: u8 = 255;

/// Where to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    Mac(MacAddress),
    /// Being asked for.
    Wait,
    /// Too many are being asked for already.
    Busy,
    /// No route.
    Nowhere,
}

impl Stack {
    /// The Ethernet address for packets of a reader on the flow `key`.
    pub(super) fn resolve(&mut self, key: &FlowKey, asker: u8, now: Time) -> NextHop {
        let Some(hop) = self.routes.next_hop(&key.local, &key.remote) else {
            return NextHop::Nowhere;
        };
        let (answer, ask) = match self.neighbours.look_up(&hop, asker) {
            Lookup::Known { mac, ask } => (NextHop::Mac(mac), ask),
            Lookup::Unknown { ask } => (NextHop::Wait, ask),
            Lookup::Busy => {
                self.counters.neighbours_refused += 1;
                return NextHop::Busy;
            }
        };
        if let Some(slot) = ask {
            let (hop, mac) = self.neighbours.question(slot);
            self.ask(&hop, mac);
            self.timers
                .arm(Timer::Neighbour(slot), Neighbours::retry_at(now));
        }
        answer
    }

    /// A neighbour announced its address: what waits for it is sent.
    pub(super) fn neighbour_says(
        &mut self,
        now: Time,
        hop: &Hop,
        mac: MacAddress,
        asked_us: bool,
        confirms: bool,
        replace: bool,
    ) {
        let before = self.neighbours.epoch();
        let Some(slot) = self.neighbours.heard(hop, mac, asked_us, confirms, replace) else {
            return;
        };
        if self.neighbours.is_reachable(slot) {
            let until = Neighbours::reachable_until(now);
            self.timers.arm(Timer::Neighbour(slot), until);
        } else {
            self.timers.disarm(Timer::Neighbour(slot));
        }
        if self.neighbours.epoch() != before {
            self.wake_waiting();
        }
    }

    fn wake_waiting(&mut self) {
        let mut waiting = self.connections.take_waiting();
        while let Some(slot) = waiting {
            waiting = self.connections.next_waiting(slot);
            self.connections.append_ready(slot);
        }
        self.udp.wake();
    }

    pub(super) fn neighbour_due(&mut self, slot: u32, now: Time) {
        match self.neighbours.due(slot) {
            Due::Nothing => {}
            Due::Ask { hop, mac } => {
                self.ask(&hop, mac);
                self.timers
                    .arm(Timer::Neighbour(slot), Neighbours::retry_at(now));
            }
            Due::Failed(hop) => self.neighbour_failed(&hop, now),
        }
    }

    /// Nothing answers for `hop`: connections that are being opened there end, datagrams are given
    /// up, other connections try again when their timers are due.
    fn neighbour_failed(&mut self, hop: &Hop, now: Time) {
        self.counters.neighbours_failed += 1;
        let mut waiting = self.connections.take_waiting();
        while let Some(slot) = waiting {
            waiting = self.connections.next_waiting(slot);
            let tcb = self.connections.tcb_mut(slot);
            let there = self.routes.next_hop(&tcb.key.local, &tcb.key.remote) == Some(*hop);
            if there && tcb.state() == State::SynSent {
                tcb.end(
                    DeadReason::Unreachable,
                    &mut self.ranges.context(&self.config, &mut self.counters, now),
                );
                self.settle(slot);
            }
            if there {
                // Not waiting, or it would ask without end.
                self.try_later(slot, now);
            } else {
                self.connections.wait(slot);
            }
        }
        let routes = &self.routes;
        self.udp
            .give_up(|key| routes.next_hop(&key.local, &key.remote) == Some(*hop));
    }

    /// A connection has no way to its peer now: its timer brings it back.
    pub(super) fn try_later(&mut self, slot: u32, now: Time) {
        self.connections.unready(slot);
        let tcb = self.connections.tcb_mut(slot);
        if !tcb.notices.has_ended() {
            let at = tcb.try_later(&self.config.tcp, now);
            self.timers.arm_no_later(Timer::Connection(slot), at);
        }
        self.connections.free_if_done(slot);
    }

    /// Asks for the Ethernet address of a neighbour: all hosts, or the one that had it.
    fn ask(&mut self, hop: &Hop, mac: Option<MacAddress>) {
        let Some(source) = self.routes.source_at(hop) else {
            return;
        };
        let (interface, target) = (hop.interface, &hop.ip);
        let own = self.routes.mac(interface);
        let way = |to| self.routes.way(interface, to);
        let reply = if target.is_v4() {
            let to = mac.unwrap_or(MacAddress::BROADCAST);
            let mut reply = Reply::ethernet(way(to), ethernet::ARP, arp::BYTES);
            let unknown = (MacAddress::default(), *target);
            arp::write(reply.link_body(), arp::REQUEST, (own, source), unknown);
            reply
        } else {
            let group = target.solicited_node();
            let destination = if mac.is_some() { target } else { &group };
            let to = mac.unwrap_or_else(|| ethernet::multicast6(&group));
            self.ndp(way(to), &source, destination, ndp::SOLICITATION, 0, target)
        };
        self.replies.push(reply, &mut self.counters);
    }

    fn ndp(
        &self,
        way: Way,
        source: &Addr,
        destination: &Addr,
        kind: u8,
        flags: u8,
        target: &Addr,
    ) -> Reply {
        let outline = Outline {
            source,
            destination,
            protocol: ip::ICMPV6,
            hop_limit: NDP_HOP_LIMIT,
        };
        let mut reply = Reply::ip(way, &outline, ndp::BYTES, 0);
        let sum = ip::pseudo_sum(source, destination, ip::ICMPV6, ndp::BYTES);
        ndp::write(reply.body(false), kind, flags, sum, target, way.from);
        reply.with_checksum(false, 2)
    }

    pub(super) fn answer_arp(&mut self, request: &arp::Arp, way: Way) {
        let mut reply = Reply::ethernet(way, ethernet::ARP, arp::BYTES);
        arp::write(
            reply.link_body(),
            arp::REPLY,
            (way.from, request.target),
            (way.to, request.sender),
        );
        self.replies.push(reply, &mut self.counters);
    }

    /// Neighbour solicitations and advertisements (RFC 4861, 7.1, 7.2). Router messages and
    /// redirects are not taken: gateways are settings.
    pub(super) fn neighbour_message(
        &mut self,
        now: Time,
        datagram: &super::receive::Datagram<'_>,
        kind: u8,
    ) {
        let (interface, packet) = (datagram.interface, datagram.packet);
        if packet.hop_limit != NDP_HOP_LIMIT || datagram.reassembled {
            self.counters.spoofed += 1;
            return;
        }
        if kind != ndp::SOLICITATION && kind != ndp::ADVERTISEMENT {
            self.counters.frames_not_ours += 1;
            return;
        }
        let Some(message) = ndp::parse(datagram.payload()) else {
            self.counters.malformed += 1;
            return;
        };
        if kind == ndp::ADVERTISEMENT {
            let Some(mac) = message.mac.filter(|mac| mac.is_unicast()) else {
                return;
            };
            if message.target.is_unicast() && !self.routes.is_ours(&message.target) {
                self.counters.neighbour_messages += 1;
                let hop = Hop {
                    interface,
                    ip: message.target,
                };
                self.neighbour_says(now, &hop, mac, false, message.solicited, message.replace);
            }
            return;
        }
        if !self.routes.is_ours_at(interface, &message.target) {
            self.counters.frames_not_ours += 1;
            return;
        }
        self.counters.neighbour_messages += 1;
        // Solicited and override; to all nodes when the asker has no address yet (7.2.4).
        let detection = packet.source.is_unspecified();
        let all_nodes = Addr([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let (to, destination, flags) = if detection {
            (ethernet::multicast6(&all_nodes), all_nodes, 0x20)
        } else {
            (datagram.mac, packet.source, 0x60)
        };
        if let (false, Some(mac)) = (detection, message.mac.filter(|mac| mac.is_unicast())) {
            let hop = Hop {
                interface,
                ip: packet.source,
            };
            self.neighbour_says(now, &hop, mac, true, false, true);
        }
        let reply = self.ndp(
            self.routes.way(interface, to),
            &message.target,
            &destination,
            ndp::ADVERTISEMENT,
            flags,
            &message.target,
        );
        self.replies.push(reply, &mut self.counters);
    }
}
