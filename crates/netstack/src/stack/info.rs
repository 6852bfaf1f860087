//! What can be seen of a stack: connections and how full its tables are.

use super::Stack;
use super::connections::GroupUsage;
use crate::api::ConnectionId;
use crate::flow;
use std::net::SocketAddr;
use std::time::Duration;

/// A connection as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// State, in RFC 9293's words.
    pub state: &'static str,
    /// Flow group, `0..`[`FLOW_GROUPS`](crate::FLOW_GROUPS).
    pub flow_group: u8,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Variation of the round-trip time, once measured.
    pub rttvar: Option<Duration>,
    /// Retransmission timeout with back-off.
    pub rto: Duration,
    /// How often the timeout was doubled.
    pub backoff: u8,
    /// Timeouts, or window probes, in a row without an answer.
    pub retries: u8,
    /// Which loss is being repaired.
    pub repair: Repair,
    /// Segments sent again since the start.
    pub retransmits: u32,
    /// Congestion window in bytes.
    pub cwnd_bytes: u32,
    /// Slow start ends here; `None` before the first loss.
    pub ssthresh_bytes: Option<u32>,
    /// Sent and not acknowledged.
    pub flight_bytes: u32,
    /// Of those, what the peer says it has (RFC 2018).
    pub sacked_bytes: u32,
    /// Of those, what counts as lost (RFC 6675; after a timeout all that is not there).
    pub lost_bytes: u32,
    /// Of those, what was sent again.
    pub resent_bytes: u32,
    /// Our initial sequence number (ISS).
    pub initial_sequence: u32,
    /// Acknowledged since the start, modulo 2^32; SYN and FIN count as a byte each.
    pub acked_bytes: u32,
    /// Received in order since the start, modulo 2^32; SYN and FIN count as a byte each.
    pub received_bytes: u32,
    /// Most payload of a segment in bytes.
    pub mss_bytes: u32,
    /// The peer's window in bytes.
    pub peer_window_bytes: u32,
    /// The window that we offer, in bytes.
    pub offered_window_bytes: u32,
    /// By how many bits the peer's windows are shifted.
    pub peer_scale: u8,
    /// By how many bits ours are.
    pub our_scale: u8,
    /// The peer's window is closed, and is probed.
    pub probing: bool,
    /// Sent or waiting, and not acknowledged.
    pub send_queue_bytes: u32,
    /// Received, and not done with.
    pub unread_bytes: u32,
    /// SACK, timestamps and window scaling were agreed on.
    pub sack: bool,
    /// See `sack`.
    pub timestamps: bool,
    /// See `sack`.
    pub window_scaling: bool,
    /// Data in a SYN was taken (RFC 7413): ours by the peer, or the peer's.
    pub syn_data: bool,
}

/// Which loss a connection repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    /// None that is known.
    #[default]
    None,
    /// Duplicate acknowledgements came, or reports of holes: too few to count as a loss.
    Suspected,
    /// Fast recovery (RFC 6582, RFC 6675).
    Fast,
    /// All is sent again after a timeout (RFC 5681, 3.1).
    Timeout,
}

/// How full the tables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Connections.
    pub connections: u32,
    /// Entries in TIME_WAIT.
    pub time_wait: u32,
    /// Ranges of sent and received data.
    pub chunks: u32,
    /// Those of received data: not handed up yet, out of order, or to be released.
    pub kept: u32,
    /// Neighbours.
    pub neighbours: u32,
    /// Timers armed.
    pub timers: u32,
    /// The application's timers.
    pub app_timers: u32,
    /// Datagrams in reassembly.
    pub reassemblies: u32,
}

impl Stack {
    /// Every flow group, by number.
    pub const fn groups(&self) -> &[GroupUsage; flow::FLOW_GROUPS as usize] {
        self.connections.groups()
    }

    /// A connection as it is now; `None` when the handle names none.
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
            resent_bytes: tcb.recovery().under_repair(tcb.sender()),
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

    /// Most bytes of a connection by which something arrived too late since its start: what came behind
    /// it had been sent later. `None` when the handle names none.
    pub fn reordered_bytes(&self, connection: ConnectionId) -> Option<u32> {
        let slot = self.connections.find(connection)?;
        Some(self.connections.tcb(slot).recovery().reordered_bytes())
    }

    /// How full the tables are.
    pub fn usage(&self) -> Usage {
        Usage {
            connections: self.connections.used(),
            time_wait: self.time_wait.len(),
            chunks: self.ranges.used(),
            kept: self.ranges.kept(),
            neighbours: self.neighbours.len(),
            timers: self.timers.armed(),
            app_timers: self.app_timers.len(),
            reassemblies: self.fragments.len() as u32,
        }
    }
}
