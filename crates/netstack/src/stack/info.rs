//! Snapshots of connections and of the use of the stack's tables.

use super::Stack;
use super::connections::GroupUsage;
use crate::api::ConnectionId;
use crate::flow;
use std::net::SocketAddr;
use std::time::Duration;

/// Snapshot of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
    /// State in the terms of RFC 9293.
    pub state: &'static str,
    /// Flow group, `0..`[`FLOW_GROUPS`](crate::FLOW_GROUPS).
    pub flow_group: u8,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Duration>,
    /// Round-trip time variation, if measured.
    pub rttvar: Option<Duration>,
    /// Retransmission timeout with back-off.
    pub rto: Duration,
    /// Number of times that the timeout was doubled.
    pub backoff: u8,
    /// Consecutive unanswered timeouts or window probes.
    pub retries: u8,
    /// Active loss recovery.
    pub repair: Repair,
    /// Segments retransmitted since the start.
    pub retransmits: u32,
    /// Congestion window in bytes.
    pub cwnd_bytes: u32,
    /// Slow start threshold in bytes; `None` before the first loss.
    pub ssthresh_bytes: Option<u32>,
    /// Bytes sent and not acknowledged.
    pub flight_bytes: u32,
    /// Part of the flight that the peer has reported with SACK (RFC 2018).
    pub sacked_bytes: u32,
    /// Part of the flight that counts as lost (RFC 6675; after a timeout everything that was not
    /// reported).
    pub lost_bytes: u32,
    /// Part of the flight that was retransmitted.
    pub resent_bytes: u32,
    /// Initial sequence number (ISS).
    pub initial_sequence: u32,
    /// Bytes acknowledged since the start, modulo 2^32; SYN and FIN count as a byte each.
    pub acked_bytes: u32,
    /// Bytes received in order since the start, modulo 2^32; SYN and FIN count as a byte each.
    pub received_bytes: u32,
    /// Largest payload of a segment in bytes.
    pub mss_bytes: u32,
    /// The peer's window in bytes.
    pub peer_window_bytes: u32,
    /// Offered receive window in bytes.
    pub offered_window_bytes: u32,
    /// Window scale of the peer in bits.
    pub peer_scale: u8,
    /// Window scale of this stack in bits.
    pub our_scale: u8,
    /// Whether the peer's window is closed and being probed.
    pub probing: bool,
    /// Bytes queued or in flight.
    pub send_queue_bytes: u32,
    /// Bytes received for which `recv_done` was not yet called.
    pub unread_bytes: u32,
    /// Whether SACK was negotiated.
    pub sack: bool,
    /// Whether timestamps were negotiated.
    pub timestamps: bool,
    /// Whether window scaling was negotiated.
    pub window_scaling: bool,
    /// Whether data in a SYN was accepted (RFC 7413): ours by the peer, or the peer's by this
    /// stack.
    pub syn_data: bool,
}

/// Loss recovery of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// No known loss.
    #[default]
    None,
    /// Duplicate acknowledgements or SACK ranges, too few for a loss.
    Suspected,
    /// Fast recovery (RFC 6582, RFC 6675).
    Fast,
    /// Retransmission of all data after a timeout (RFC 5681, 3.1).
    Timeout,
}

/// Numbers of used entries of the stack's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Connections.
    pub connections: u32,
    /// Entries in TIME_WAIT.
    pub time_wait: u32,
    /// Ranges of sent and received data.
    pub chunks: u32,
    /// Ranges of received data: undelivered, out of order, or to be released.
    pub kept: u32,
    /// Neighbours.
    pub neighbours: u32,
    /// Armed timers.
    pub timers: u32,
    /// Timers of applications.
    pub app_timers: u32,
    /// Datagrams in reassembly.
    pub reassemblies: u32,
}

impl Stack {
    /// Load of each flow group, by number.
    pub const fn groups(&self) -> &[GroupUsage; flow::FLOW_GROUPS as usize] {
        self.connections.groups()
    }

    /// Snapshot of a connection; `None` if the handle is stale.
    pub fn connection(&self, connection: ConnectionId) -> Option<ConnectionInfo> {
        use crate::tcp::recovery::Phase;
        use crate::tcp::state::State;
        let entry = self.connections.get(self.slot_of(connection)?);
        let tcb = &entry.tcb;
        Some(ConnectionInfo {
            local: SocketAddr::new(tcb.key.local.ip(), tcb.key.local_port),
            remote: SocketAddr::new(tcb.key.remote.ip(), tcb.key.remote_port),
            state: match tcb.state() {
                State::Closed => "CLOSED",
                State::SynSent => "SYN-SENT",
                State::SynReceived => "SYN-RECEIVED",
                State::Established => "ESTABLISHED",
                State::FinWait1 => "FIN-WAIT-1",
                State::FinWait2 => "FIN-WAIT-2",
                State::CloseWait => "CLOSE-WAIT",
                State::Closing => "CLOSING",
                State::LastAck => "LAST-ACK",
            },
            flow_group: flow::group(entry.hash()),
            srtt: tcb.sender().rto().srtt(),
            rttvar: tcb.sender().rto().rttvar(),
            rto: tcb.sender().rto().timeout(&self.config.tcp),
            backoff: tcb.sender().rto().backoff(),
            retries: tcb.timers().retries(),
            repair: match tcb.recovery().phase() {
                Phase::Fast { .. } => Repair::Fast,
                Phase::Loss { .. } => Repair::Timeout,
                Phase::None if tcb.recovery().is_suspicious() => Repair::Suspected,
                Phase::None => Repair::None,
            },
            retransmits: tcb.recovery().retransmits(),
            cwnd_bytes: tcb.sender().window().cwnd(),
            ssthresh_bytes: tcb.sender().window().ssthresh(),
            flight_bytes: tcb.sender().flight(),
            sacked_bytes: tcb
                .recovery()
                .board()
                .bytes_between(tcb.sender().una(), tcb.sender().max()),
            lost_bytes: tcb.recovery().lost(tcb.sender(), tcb.terms()),
            resent_bytes: tcb.recovery().retransmitted_bytes(tcb.sender()),
            initial_sequence: tcb.sender().iss(),
            acked_bytes: tcb.sender().una().wrapping_sub(tcb.sender().iss()),
            received_bytes: tcb.receiver().next().wrapping_sub(tcb.receiver().irs()),
            mss_bytes: tcb.payload_mss(),
            peer_window_bytes: tcb.sender().peer_window(),
            offered_window_bytes: tcb.receiver().offered(),
            peer_scale: tcb.terms().peer_scale(),
            our_scale: tcb.terms().our_scale(),
            probing: tcb.timers().is_probing(),
            send_queue_bytes: tcb.sender().queued_bytes(),
            unread_bytes: tcb.receiver().unread_bytes(),
            sack: tcb.terms().sack(),
            timestamps: tcb.terms().timestamps(),
            window_scaling: tcb.terms().scaling(),
            syn_data: tcb.fast_open().has_data(),
        })
    }

    /// Largest distance in bytes of a reordered segment of a connection since its start. `None` if
    /// the handle is stale.
    pub fn reordered_bytes(&self, connection: ConnectionId) -> Option<u32> {
        let slot = self.connections.find(connection)?;
        Some(self.connections.tcb(slot).recovery().reordered_bytes())
    }

    /// Numbers of used entries of the stack's tables.
    pub fn usage(&self) -> Usage {
        Usage {
            connections: self.connections.used(),
            time_wait: self.time_wait.len(),
            chunks: self.ranges.used(),
            kept: self.ranges.stored(),
            neighbours: self.neighbours.len(),
            timers: self.timers.armed(),
            app_timers: self.app_timers.len(),
            reassemblies: self.fragments.len() as u32,
        }
    }
}
