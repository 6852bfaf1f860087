//! Resolution of neighbours: ARP and neighbour discovery messages, and packets that wait for an
//! answer.

use super::Stack;
use super::neighbour::{Claim, ClaimResult, Due, Lookup, Neighbours};
use super::receive::Datagram;
use super::replies::{Outline, Reply};
use super::route::{Hop, ReplyRoute};
use super::timers::Timer;
use crate::api::{DeadReason, InterfaceId, MacAddress, Time};
use crate::flow::FlowKey;
use crate::tcp::state::State;
use crate::wire::address::Addr;
use crate::wire::ndp::Neighbour;
use crate::wire::{arp, ethernet, ip, ipv6, ndp};

/// Hop limit of neighbour discovery messages, which proves that they come from the link (RFC 4861,
/// 7.1).
const NDP_HOP_LIMIT: u8 = 255;

/// Next hop of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    Mac(MacAddress),
    /// The address is being resolved.
    Wait,
    /// The reader has too many resolutions in progress.
    Busy,
    /// There is no route.
    Nowhere,
}

impl Stack {
    /// Ethernet address for packets of a reader on the flow `key`.
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
                .arm(Timer::Neighbour(slot), self.neighbours.retry_at(slot, now));
        }
        answer
    }

    /// Processes a neighbour's claim, and wakes the packets that wait for it.
    pub(super) fn process_claim(
        &mut self,
        now: Time,
        hop: &Hop,
        mac: Option<MacAddress>,
        claim: Claim,
    ) {
        let before = self.neighbours.epoch();
        let result = self.neighbours.record_claim(hop, mac, claim, now);
        self.apply_claim_result(result, now);
        if self.neighbours.epoch() != before {
            self.wake_waiting();
        }
    }

    /// Makes the neighbour of an unanswered flow doubtful, because it may have moved.
    pub(super) fn suspect_neighbour(&mut self, key: &FlowKey, now: Time) {
        if let Some(hop) = self.routes.next_hop(&key.local, &key.remote) {
            let result = self.neighbours.suspect(&hop, now);
            self.apply_claim_result(result, now);
        }
    }

    fn apply_claim_result(&mut self, result: ClaimResult, now: Time) {
        match result {
            ClaimResult::Nothing => {}
            ClaimResult::ProbeAt(slot, at) if at > now => {
                self.timers.arm(Timer::Neighbour(slot), at)
            }
            ClaimResult::ProbeAt(slot, _) => {
                self.timers.disarm(Timer::Neighbour(slot));
                self.neighbour_due(slot, now);
            }
            ClaimResult::Changed(slot) if self.neighbours.is_reachable(slot) => {
                let until = Neighbours::reachable_until(now);
                self.timers.arm(Timer::Neighbour(slot), until);
            }
            ClaimResult::Changed(slot) => self.timers.disarm(Timer::Neighbour(slot)),
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
                let at = self.neighbours.retry_at(slot, now);
                self.timers.arm(Timer::Neighbour(slot), at);
            }
            Due::Failed(hop) => self.neighbour_failed(&hop, now),
        }
    }

    /// Handles a neighbour that does not answer: ends connections in SYN-SENT, gives up datagrams,
    /// and lets other connections retry when their timers expire.
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
                self.update_tables(slot);
            }
            if there {
                // The connection does not wait in the list, or it would ask endlessly.
                self.try_later(slot, now);
            } else {
                self.connections.wait(slot);
            }
        }
        let routes = &self.routes;
        self.udp
            .give_up(|key| routes.next_hop(&key.local, &key.remote) == Some(*hop));
    }

    /// Lets a connection without a next hop retry when its timer expires.
    pub(super) fn try_later(&mut self, slot: u32, now: Time) {
        self.connections.unready(slot);
        let tcb = self.connections.tcb_mut(slot);
        if !tcb.notices.has_ended() {
            let at = tcb.try_later(&self.config.tcp, now);
            self.timers.arm_no_later(Timer::Connection(slot), at);
        }
        self.connections.free_if_done(slot);
    }

    /// Asks for the Ethernet address of a neighbour: all hosts, or the known station.
    fn ask(&mut self, hop: &Hop, mac: Option<MacAddress>) {
        let Some(source) = self.routes.source_at(hop) else {
            return;
        };
        let (interface, target) = (hop.interface, &hop.ip);
        let own = self.routes.mac(interface);
        let route = |to| self.routes.reply_route(interface, to);
        let reply = if target.is_v4() {
            let to = mac.unwrap_or(MacAddress::BROADCAST);
            let mut reply = Reply::ethernet(route(to), ethernet::ARP, arp::BYTES);
            let unknown = (MacAddress::default(), *target);
            arp::write(reply.link_body(), arp::REQUEST, (own, source), unknown);
            reply
        } else {
            let group = target.solicited_node();
            let destination = if mac.is_some() { target } else { &group };
            let to = mac.unwrap_or_else(|| ethernet::multicast6(&group));
            self.ndp(
                route(to),
                &source,
                destination,
                ndp::SOLICITATION,
                0,
                target,
            )
        };
        self.replies.push(reply, &mut self.counters);
    }

    fn ndp(
        &self,
        route: ReplyRoute,
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
        let mut reply = Reply::ip(route, &outline, ndp::BYTES, 0);
        let sum = ip::pseudo_sum(source, destination, ip::ICMPV6, ndp::BYTES);
        ndp::write(reply.body(false), kind, flags, sum, target, route.from);
        reply.with_checksum(false, 2)
    }

    pub(super) fn answer_arp(&mut self, request: &arp::Arp, route: ReplyRoute) {
        let mut reply = Reply::ethernet(route, ethernet::ARP, arp::BYTES);
        arp::write(
            reply.link_body(),
            arp::REPLY,
            (route.from, request.target),
            (route.to, request.sender),
        );
        self.replies.push(reply, &mut self.counters);
    }

    /// Processes neighbour solicitations and advertisements (RFC 4861, 7.1, 7.2). Ignores router
    /// messages and redirects, as gateways are configured.
    pub(super) fn neighbour_message(&mut self, now: Time, datagram: &Datagram<'_>, kind: u8) {
        let packet = datagram.packet;
        // The message must come from the link itself, and unfragmented (RFC 6980, 5).
        let is_whole = !datagram.reassembled && !ipv6::has_fragment_header(datagram.bytes);
        if packet.hop_limit != NDP_HOP_LIMIT || !is_whole {
            self.counters.spoofed += 1;
            return;
        }
        if kind != ndp::SOLICITATION && kind != ndp::ADVERTISEMENT {
            self.counters.frames_not_ours += 1;
            return;
        }
        let message = ndp::parse(datagram.payload());
        let Some(message) = message.filter(|message| message.is_valid(kind, packet)) else {
            self.counters.malformed += 1;
            return;
        };
        if kind == ndp::ADVERTISEMENT {
            self.neighbour_advertised(now, datagram.interface, &message);
        } else {
            self.neighbour_solicited(now, datagram, &message);
        }
    }

    fn neighbour_advertised(&mut self, now: Time, interface: InterfaceId, message: &Neighbour) {
        let is_known_form =
            message.target.is_unicast() && message.mac.is_none_or(|m| m.is_unicast());
        if !is_known_form || self.routes.is_ours(&message.target) {
            return;
        }
        self.counters.neighbour_messages += 1;
        let hop = Hop {
            interface,
            ip: message.target,
        };
        let claim = if message.solicited {
            Claim::Answer
        } else {
            Claim::Announcement
        };
        self.process_claim(now, &hop, message.mac, claim);
    }

    fn neighbour_solicited(&mut self, now: Time, datagram: &Datagram<'_>, message: &Neighbour) {
        let (interface, packet) = (datagram.interface, datagram.packet);
        if !self.routes.is_ours_at(interface, &message.target) {
            self.counters.frames_not_ours += 1;
            return;
        }
        self.counters.neighbour_messages += 1;
        // Flags "solicited" and "override"; without a source address the answer goes to all nodes
        // (RFC 4861, 7.2.4).
        let detection = packet.source.is_unspecified();
        let (to, destination, flags) = if detection {
            (
                ethernet::multicast6(&Addr::ALL_NODES),
                Addr::ALL_NODES,
                0x20,
            )
        } else {
            (datagram.mac, packet.source, 0x60)
        };
        if let (false, Some(mac)) = (detection, message.mac.filter(|mac| mac.is_unicast())) {
            let hop = Hop {
                interface,
                ip: packet.source,
            };
            self.process_claim(now, &hop, Some(mac), Claim::Question);
        }
        let reply = self.ndp(
            self.routes.reply_route(interface, to),
            &message.target,
            &destination,
            ndp::ADVERTISEMENT,
            flags,
            &message.target,
        );
        self.replies.push(reply, &mut self.counters);
    }
}
