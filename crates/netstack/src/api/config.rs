//! Settings of a stack, checked by [`crate::Stack::new`].

use super::{ConfigError, MacAddress};
use std::net::IpAddr;
use std::time::Duration;

/// Address of an interface, with its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of the network's prefix in bits.
    pub prefix_len: u8,
}

/// Largest number of interfaces of one stack.
pub const MOST_INTERFACES: usize = 8;

/// Index of an interface in [`Config::interfaces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct InterfaceId(pub u8);

/// Interface with its addresses and gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Ethernet address.
    pub mac: MacAddress,
    /// Largest IP packet in bytes. Default 1500.
    pub mtu_bytes: u32,
    /// Whether the caller can send packets of several segments: it cuts them itself
    /// ([`super::Transmit::cut`]) or has the device cut them. Default: no, and the stack makes no
    /// such packets.
    pub segmentation: bool,
    /// Addresses, each of this interface only. The caller supplies the IPv6 link-local address.
    pub addresses: Vec<InterfaceAddress>,
    /// Gateways to other networks. The stack uses the first of each family.
    pub gateways: Vec<IpAddr>,
}

impl Interface {
    /// An interface with defaults for everything but its addresses.
    pub fn new(mac: MacAddress, addresses: Vec<InterfaceAddress>) -> Self {
        Self {
            mac,
            mtu_bytes: 1500,
            segmentation: false,
            addresses,
            gateways: Vec::new(),
        }
    }

    /// Checks the settings that do not depend on other interfaces.
    fn check(&self) -> Result<(), ConfigError> {
        if !self.mac.is_unicast() {
            return Err(ConfigError::Mac(self.mac));
        }
        let v6 = self.addresses.iter().any(|address| address.ip.is_ipv6());
        let least = if v6 { 1280 } else { 576 };
        if !(least..=65_535).contains(&self.mtu_bytes) {
            return Err(ConfigError::Mtu {
                mtu_bytes: self.mtu_bytes,
                least,
            });
        }
        Ok(())
    }
}

/// All settings. [`Config::new`] fills in defaults.
#[derive(Debug, Clone)]
pub struct Config {
    /// Interfaces, 1 to 8. A packet leaves by the interface that has its source address, and is
    /// accepted only on the interface that has its destination address.
    pub interfaces: Vec<Interface>,
    /// Random secret that keys the connection table, flow groups, initial sequence numbers (RFC
    /// 6528), SYN cookies and timestamps. All stacks of the same interfaces share it: their flow
    /// groups and cookies must agree.
    pub secret: [u8; 16],
    /// Whether the device has already verified the IP, TCP, UDP and ICMP checksums of received
    /// frames.
    pub received_checksums_verified: bool,
    /// Settings of TCP.
    pub tcp: TcpConfig,
    /// Table sizes. The stack allocates all its memory at the start.
    pub limits: Limits,
}

impl Config {
    /// One interface with the given secret, and defaults for the rest.
    pub fn new(mac: MacAddress, addresses: Vec<InterfaceAddress>, secret: [u8; 16]) -> Self {
        Self {
            interfaces: vec![Interface::new(mac, addresses)],
            secret,
            received_checksums_verified: false,
            tcp: TcpConfig::default(),
            limits: Limits::default(),
        }
    }

    /// Addresses of all interfaces.
    pub fn addresses(&self) -> impl Iterator<Item = &InterfaceAddress> {
        self.interfaces.iter().flat_map(|one| &one.addresses)
    }

    /// Key of the Fast Open cookies if the settings contain none.
    pub(crate) fn fast_open_secret(&self) -> [u8; 16] {
        let key = crate::core::siphash::Key::new(&self.secret, 10);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key.hash(&[0]).to_le_bytes());
        bytes[8..].copy_from_slice(&key.hash(&[1]).to_le_bytes());
        bytes
    }

    /// Checks everything but the addresses.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=MOST_INTERFACES).contains(&self.interfaces.len()) {
            return Err(ConfigError::Interfaces(self.interfaces.len()));
        }
        self.interfaces.iter().try_for_each(Interface::check)?;
        let (tcp, limits) = (&self.tcp, &self.limits);
        let table = 1 << 24;
        for (name, value, least, most) in [
            (
                "receive_window_bytes",
                tcp.receive_window_bytes,
                2 << 10,
                16 << 20,
            ),
            ("receive_buffers", u32::from(tcp.receive_buffers), 2, 65_535),
            (
                "send_window_bytes",
                tcp.send_window_bytes,
                2 << 10,
                16 << 20,
            ),
            ("connections", limits.connections, 1, table),
            ("spare_connections", limits.spare_connections, 0, table),
            ("time_wait", limits.time_wait, 1, table),
            ("half_open", limits.half_open, 0, table),
            ("chunks", limits.chunks, 16, table),
            ("kept", limits.kept, 4, table),
            ("listeners", limits.listeners, 0, 65_536),
            ("udp", limits.udp, 0, 65_536),
            ("udp_backlog", limits.udp_backlog, 1, 65_536),
            ("udp_sends", limits.udp_sends, 1, 65_536),
            ("timers", limits.timers, 0, table),
            ("neighbours", limits.neighbours, 4, table),
            ("replies", limits.replies, 4, 65_536),
            ("reassemblies", limits.reassemblies, 0, 1024),
        ] {
            if !(least..=most).contains(&value) {
                let [value, least, most] = [value, least, most].map(u64::from);
                return Err(ConfigError::Limit {
                    name,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }
}

/// Congestion control algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Congestion {
    /// RFC 5681, RFC 6582.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
}

impl Congestion {
    /// Linux's name of the algorithm.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::NewReno => "reno",
            Congestion::Cubic => "cubic",
        }
    }
}

/// Algorithm that ends slow start before a loss, when round trips get longer. Needs CUBIC and SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HyStart {
    /// None: slow start continues until a loss (RFC 5681, 3.1).
    #[default]
    Off,
    /// HyStart++ (RFC 9406).
    PlusPlus,
    /// HyStart by delay, as in Linux's CUBIC.
    Linux,
}

/// Reaction to paths that silently drop large packets (black holes, RFC 4821).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathProbing {
    /// None: only ICMP messages of routers change the path MTU.
    Off,
    /// After repeated timeouts of full segments the stack sends shorter ones, and then probes for
    /// longer ones.
    #[default]
    AfterBlackHole,
}

/// Explicit congestion notification (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Never.
    Off,
    /// Used if the peer's SYN requests it, which is Linux's default.
    #[default]
    Accept,
    /// Used if the peer requests it, and requested in the stack's own SYNs.
    On,
}

/// Keepalive: the time after which the stack probes a silent peer (RFC 9293, 3.8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Number of unanswered probes that ends the connection.
    pub probes: u8,
}

/// Acceptance of data in a SYN by a listener (TCP Fast Open, RFC 7413). The application gets the
/// data a round trip earlier and may answer at once. If the network duplicates the SYN, the
/// application gets the data twice, so requests must be idempotent (RFC 7413, 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenServer {
    /// Largest number of half-open Fast Open connections of all listeners. Beyond it the stack
    /// handles a SYN without its data (RFC 7413, 5.1). Default 0: never accepted.
    pub most_pending: u32,
    /// Accepts data without a cookie. Only for networks in which no host can forge its address.
    pub without_cookie: bool,
    /// Keys of the cookies: the current one and the previous one, whose cookies remain valid.
    /// Servers that share an address share their keys. Default: derived from [`Config::secret`].
    pub keys: [Option<[u8; 16]>; 2],
}

/// Settings of one connection that replace those of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionOptions {
    /// Retransmissions of the SYN before `connect` fails.
    pub syn_retries: Option<u8>,
    /// Longest time for which data stays unacknowledged, or the peer's window closed, before the
    /// connection ends (RFC 5482). Replaces the number of retransmissions.
    pub user_timeout: Option<Duration>,
    /// Keepalive, if it is on for the connection.
    pub keepalive: Option<Keepalive>,
    /// Largest segment in bytes in both directions: the MSS option of the SYN announces at most
    /// this.
    pub segment_bytes: Option<u16>,
}

/// Settings of TCP.
#[derive(Debug, Clone)]
pub struct TcpConfig {
    /// Largest amount of received data of a connection for which `recv_done` was not yet called.
    /// Default 256 KiB, 2 KiB to 16 MiB.
    pub receive_window_bytes: u32,
    /// Largest number of received buffers of a connection, whatever their sizes. It prevents 1-byte
    /// segments from using up all buffers. Default 256.
    pub receive_buffers: u16,
    /// Largest amount of unacknowledged data of a connection. Default 256 KiB.
    pub send_window_bytes: u32,
    /// Congestion control. Default CUBIC.
    pub congestion: Congestion,
    /// Algorithm that ends slow start before a loss. Default off: HyStart++ lowers the throughput
    /// of the first seconds on a path with a short queue (measured by tests/throughput.rs).
    pub hystart: HyStart,
    /// Reaction to paths that silently drop large packets. Default: shorter segments, then probes.
    pub path_probing: PathProbing,
    /// Nagle's algorithm: delays small segments while data is unacknowledged (RFC 9293, 3.7.4).
    /// Default off: batched calls already gather data.
    pub nagle: bool,
    /// Offers and accepts selective acknowledgements (RFC 2018). Default on.
    pub sack: bool,
    /// Offers and accepts timestamps (RFC 7323). Default on.
    pub timestamps: bool,
    /// Accepts segments without a timestamp although timestamps were negotiated. Default off: RFC
    /// 7323, 3.2, requires to drop them; Linux accepts them.
    pub timestamps_may_be_missing: bool,
    /// Offers and accepts window scaling (RFC 7323). Default on.
    pub window_scaling: bool,
    /// Explicit congestion notification. Default: if the peer requests it.
    pub ecn: Ecn,
    /// Retransmission timeout before the first round-trip measurement. Default 1 s (RFC 6298, 2.1).
    pub initial_rto: Duration,
    /// Smallest retransmission timeout. Default 200 ms as in Linux; RFC 6298, 2.4, says 1 s.
    pub min_rto: Duration,
    /// Largest retransmission timeout. Default 60 s.
    pub max_rto: Duration,
    /// Longest delay of an acknowledgement. Default 40 ms, at most 500 ms (RFC 9293, 3.8.6.3).
    pub delayed_ack: Duration,
    /// Number of segments at the start of a connection that are acknowledged at once, which speeds
    /// up the peer's slow start. Default 0 (Linux: 16).
    pub quick_acks: u8,
    /// Number of full segments without PSH after which the stack acknowledges a peer that is in the
    /// middle of a burst; [`Self::burst_wait`] limits the delay. Default 2 (RFC 5681, 4.2). A
    /// larger number acknowledges as rarely as a receiver behind LRO or GRO.
    pub burst_segments: u8,
    /// Longest delay of an acknowledgement within a burst. Default 20 µs.
    pub burst_wait: Duration,
    /// Time for which an acknowledgement waits for an answer of the application that can carry it.
    /// Default 1 ms.
    pub answer_wait: Duration,
    /// Number of answers within that time after which the stack expects another. Default 3 (Linux:
    /// 1). With a smaller number, bulk senders that happen to write in time are acknowledged late;
    /// with a larger one, a new connection sends more bare acknowledgements.
    pub answers_expected: u8,
    /// Data in the SYNs of peers; a listener may have its own setting. Default off.
    pub fast_open: FastOpenServer,
    /// Sends data in the stack's own SYNs ([`Stack::connect_with`](crate::Stack::connect_with))
    /// without a cookie. Default off.
    pub fast_open_without_cookie: bool,
    /// Keepalive. Default off.
    pub keepalive: Option<Keepalive>,
    /// Duration of TIME_WAIT: twice the maximum segment lifetime. Default 60 s.
    pub time_wait: Duration,
    /// Time for which a closed connection waits for the peer's FIN (FIN_WAIT_2). Default 60 s.
    pub fin_wait_2: Duration,
    /// Retransmissions of a SYN before `connect` fails. Default 6.
    pub syn_retries: u8,
    /// Retransmissions of a SYN+ACK before the stack forgets a half-open connection. Default 5.
    pub syn_ack_retries: u8,
    /// Number of unanswered retransmissions, or zero-window probes, that ends the connection.
    /// Default 15.
    pub data_retries: u8,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            receive_window_bytes: 256 << 10,
            receive_buffers: 256,
            send_window_bytes: 256 << 10,
            congestion: Congestion::default(),
            hystart: HyStart::default(),
            path_probing: PathProbing::default(),
            nagle: false,
            sack: true,
            timestamps: true,
            timestamps_may_be_missing: false,
            window_scaling: true,
            ecn: Ecn::default(),
            initial_rto: Duration::from_secs(1),
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(60),
            delayed_ack: Duration::from_millis(40),
            quick_acks: 0,
            burst_segments: 2,
            burst_wait: Duration::from_micros(20),
            answer_wait: Duration::from_millis(1),
            answers_expected: 3,
            fast_open: FastOpenServer::default(),
            fast_open_without_cookie: false,
            keepalive: None,
            time_wait: Duration::from_secs(60),
            fin_wait_2: Duration::from_secs(60),
            syn_retries: 6,
            syn_ack_retries: 5,
            data_retries: 15,
        }
    }
}

/// Sizes of the stack's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// TCP connections, half-open ones included. Default 4,096.
    pub connections: u32,
    /// Further places of the same table. Half-open connections take half of these at most, so that
    /// they take none of `connections`. Without further places they take half of `connections` at
    /// most. Default 0.
    pub spare_connections: u32,
    /// Connections in TIME_WAIT. If the table is full, a new one replaces the oldest. Default
    /// 4,096.
    pub time_wait: u32,
    /// Half-open connections of a listener before it answers with SYN cookies. Default 256.
    pub half_open: u32,
    /// Ranges of sent and received data in the whole stack. Default 16,384.
    pub chunks: u32,
    /// Received TCP buffers in the whole stack. The stack drops further data, which the peer sends
    /// again. Data out of order may use a quarter, connections that the application has not
    /// accepted a half. Default 8,192.
    pub kept: u32,
    /// TCP listeners. Default 64.
    pub listeners: u32,
    /// Bound UDP addresses. Default 64.
    pub udp: u32,
    /// Datagrams of one bound address for which `udp_recv_done` was not yet called. Default 256.
    pub udp_backlog: u32,
    /// Datagrams that wait to be sent. Default 1,024.
    pub udp_sends: u32,
    /// Timers of applications. Default 1,024.
    pub timers: u32,
    /// Entries of the neighbour table (ARP, NDP). Default 1,024.
    pub neighbours: u32,
    /// Replies outside of connections (RST, ARP, ICMP) that wait to be sent. Default 256.
    pub replies: u32,
    /// Datagrams in reassembly, 64 KiB each. Default 4.
    pub reassemblies: u32,
}

impl Limits {
    /// Places of the table of connections.
    pub(crate) const fn connection_places(&self) -> u32 {
        self.connections + self.spare_connections
    }

    /// Half-open connections of all listeners together, at most.
    pub(crate) const fn most_half_open(&self) -> u32 {
        if self.spare_connections > 0 {
            self.spare_connections.div_ceil(2)
        } else {
            self.connections.div_ceil(2)
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            spare_connections: 0,
            time_wait: 4096,
            half_open: 256,
            chunks: 16384,
            kept: 8192,
            listeners: 64,
            udp: 64,
            udp_backlog: 256,
            udp_sends: 1024,
            timers: 1024,
            neighbours: 1024,
            replies: 256,
            reassemblies: 4,
        }
    }
}
