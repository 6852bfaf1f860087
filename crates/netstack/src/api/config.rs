//! Settings of a stack. Checked by [`crate::Stack::new`].

use super::{ConfigError, MacAddress};
use std::net::IpAddr;
use std::time::Duration;

/// An address of the interface, with its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Length of the network's prefix in bits.
    pub prefix_len: u8,
}

/// Most interfaces of a stack.
pub const MOST_INTERFACES: usize = 8;

/// Number of an interface: its place in [`Config::interfaces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct InterfaceId(pub u8);

/// An interface with its networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Largest IP packet in bytes. Default 1500.
    pub mtu_bytes: u32,
    /// Whether the caller cuts packets that hold several segments ([`super::Transmit::cut`]), or
    /// has the device cut them. Default: no, and there are none.
    pub segmentation: bool,
    /// Its addresses, which no other interface has. An IPv6 link-local address is the caller's to give.
    pub addresses: Vec<InterfaceAddress>,
    /// Where packets to other networks go; at most one per family is used, the first.
    pub gateways: Vec<IpAddr>,
}

impl Interface {
    /// Defaults, but for what has none.
    pub fn new(mac: MacAddress, addresses: Vec<InterfaceAddress>) -> Self {
        Self {
            mac,
            mtu_bytes: 1500,
            segmentation: false,
            addresses,
            gateways: Vec::new(),
        }
    }

    /// What can be checked without the addresses.
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
    /// The interfaces, 1 to 8. What is sent from an address leaves by the interface that has it, and what
    /// comes in for it is taken there alone.
    pub interfaces: Vec<Interface>,
    /// Random and secret: keys the connection table, flow groups, sequence
    /// numbers (RFC 6528), SYN cookies and timestamps. All stacks of the same interfaces share it, so
    /// that flow groups and cookies agree.
    pub secret: [u8; 16],
    /// The device has already verified the IP, TCP, UDP and ICMP checksums of received frames.
    pub received_checksums_verified: bool,
    /// TCP's settings.
    pub tcp: TcpConfig,
    /// Table sizes: all memory is taken at the start.
    pub limits: Limits,
}

impl Config {
    /// One interface and defaults, but for what has none.
    pub fn new(mac: MacAddress, addresses: Vec<InterfaceAddress>, secret: [u8; 16]) -> Self {
        Self {
            interfaces: vec![Interface::new(mac, addresses)],
            secret,
            received_checksums_verified: false,
            tcp: TcpConfig::default(),
            limits: Limits::default(),
        }
    }

    /// The addresses of all interfaces.
    pub fn addresses(&self) -> impl Iterator<Item = &InterfaceAddress> {
        self.interfaces.iter().flat_map(|one| &one.addresses)
    }

    /// The key of Fast Open's cookies where none is set.
    pub(crate) fn fast_open_secret(&self) -> [u8; 16] {
        let key = crate::core::siphash::Key::new(&self.secret, 10);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key.hash(&[0]).to_le_bytes());
        bytes[8..].copy_from_slice(&key.hash(&[1]).to_le_bytes());
        bytes
    }

    /// What can be checked without the addresses.
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

/// Who sets the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Congestion {
    /// RFC 5681, RFC 6582.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
}

impl Congestion {
    /// The name that Linux has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::NewReno => "reno",
            Congestion::Cubic => "cubic",
        }
    }
}

/// The end of slow start before there is loss, where round trips grow: with CUBIC and SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HyStart {
    /// Slow start goes on until there is loss (RFC 5681, 3.1).
    #[default]
    Off,
    /// HyStart++ (RFC 9406).
    PlusPlus,
    /// As Linux's CUBIC has it, by delay.
    Linux,
}

/// Paths that drop large packets without a word (RFC 4821).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathProbing {
    /// Routers alone say what a path carries.
    Off,
    /// Segments get shorter where full ones are not answered time after time; probes for longer
    /// ones follow.
    #[default]
    AfterBlackHole,
}

/// Explicit congestion notification (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Never.
    Off,
    /// Where the peer asks for it, as Linux's default has it.
    #[default]
    Accept,
    /// Our SYNs ask for it, too.
    On,
}

/// When a silent peer is asked whether it is still there (RFC 9293, 3.8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Probes without an answer that end the connection.
    pub probes: u8,
}

/// How a listener takes data in a SYN (TCP Fast Open, RFC 7413): the application gets it, and may
/// answer, a round trip earlier. It may get it twice when the network repeats the SYN: for
/// requests that may be repeated only (RFC 7413, 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FastOpenServer {
    /// Connections whose handshake is not done, of all listeners, up to which such data is taken;
    /// beyond it SYNs are handled as others (RFC 7413, 5.1). Default 0: never.
    pub most_pending: u32,
    /// Takes it without a cookie, where no host can send with a foreign address.
    pub without_cookie: bool,
    /// Keys of the cookies: the one in use, and the one before it, with which cookies are still
    /// taken. Servers that share an address share their keys. Default: derived from
    /// [`Config::secret`].
    pub keys: [Option<[u8; 16]>; 2],
}

/// Settings of one connection, in place of those of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionOptions {
    /// SYNs sent again before `connect` gives up.
    pub syn_retries: Option<u8>,
    /// How long data may stay unacknowledged, or the peer's window closed, before the connection
    /// ends (RFC 5482), instead of a number of retransmissions.
    pub user_timeout: Option<Duration>,
    /// Keepalive, where it is on for the connection.
    pub keepalive: Option<Keepalive>,
    /// Largest segment in bytes, both ways: our SYN offers no more.
    pub segment_bytes: Option<u16>,
}

/// TCP's settings.
#[derive(Debug, Clone)]
pub struct TcpConfig {
    /// Received data that the application has not finished with, at most, a connection.
    /// Default 256 KiB, 2 KiB to 16 MiB.
    pub receive_window_bytes: u32,
    /// Received buffers that a connection holds at most, whatever their sizes: 1-byte segments
    /// must not take all buffers. Default 256.
    pub receive_buffers: u16,
    /// Data not yet acknowledged that a connection takes at most. Default 256 KiB.
    pub send_window_bytes: u32,
    /// Congestion control. Default CUBIC.
    pub congestion: Congestion,
    /// The end of slow start before there is loss. Default off: over 100 Mbit/s, 10 ms and a queue of
    /// 64 KiB (tests/throughput.rs) HyStart++ takes a fifth of the first four seconds' throughput.
    pub hystart: HyStart,
    /// Paths that drop large packets without a word. Default: shorter segments, then probes.
    pub path_probing: PathProbing,
    /// Holds small segments back while data is unacknowledged (RFC 9293, 3.7.4). Default off:
    /// batched calls gather already.
    pub nagle: bool,
    /// Offers and takes selective acknowledgements (RFC 2018). Default on.
    pub sack: bool,
    /// Offers and takes timestamps (RFC 7323). Default on.
    pub timestamps: bool,
    /// Takes segments that lack the timestamps that were agreed on. Default off: RFC 7323, 3.2, has
    /// them dropped; Linux takes them.
    pub timestamps_may_be_missing: bool,
    /// Offers and takes window scaling (RFC 7323). Default on.
    pub window_scaling: bool,
    /// Explicit congestion notification. Default: where the peer asks for it.
    pub ecn: Ecn,
    /// Retransmission timeout before the first measurement (RFC 6298: 1 s).
    pub initial_rto: Duration,
    /// Least retransmission timeout. Default 200 ms (RFC 6298 says 1 s; Linux 200 ms).
    pub min_rto: Duration,
    /// Most. Default 60 s.
    pub max_rto: Duration,
    /// An acknowledgement waits no longer than this. Default 40 ms, at most 500 ms (RFC 9293).
    pub delayed_ack: Duration,
    /// So many segments of a connection are acknowledged at once at its start, so that a peer in slow
    /// start need not wait. Default 0 (Linux: 16).
    pub quick_acks: u8,
    /// A peer in the middle of a burst (full segments without PSH) is acknowledged after so many of
    /// them, and after [`Self::burst_wait`] at the latest. Default 2 (RFC 5681, 4.2); a receiver that gets
    /// segments merged (LRO, GRO) acknowledges as rarely.
    pub burst_segments: u8,
    /// Default 20 µs.
    pub burst_wait: Duration,
    /// An answer that is expected from the application may carry the acknowledgement if it comes
    /// within this time. Default 1 ms.
    pub answer_wait: Duration,
    /// It is expected after so many answers within that time. Default 3 (Linux: 1): fewer, and bulk
    /// senders that happen to write in time are acknowledged late; more, and a new connection
    /// sends more bare acknowledgements.
    pub answers_expected: u8,
    /// Data in the SYNs of peers; each listener may have its own. Default off.
    pub fast_open: FastOpenServer,
    /// Data in our SYNs ([`Stack::connect_with`](crate::Stack::connect_with)) is sent without a
    /// cookie. Default off.
    pub fast_open_without_cookie: bool,
    /// Keepalive. Default off.
    pub keepalive: Option<Keepalive>,
    /// How long TIME_WAIT lasts: twice the maximum segment lifetime. Default 60 s.
    pub time_wait: Duration,
    /// How long a closed connection waits for the peer's FIN (FIN_WAIT_2). Default 60 s.
    pub fin_wait_2: Duration,
    /// SYNs sent again before `connect` gives up. Default 6.
    pub syn_retries: u8,
    /// SYN+ACKs sent again before a half-open connection is forgotten. Default 5.
    pub syn_ack_retries: u8,
    /// Data sent again, or zero windows probed, so often without an answer ends the
    /// connection. Default 15.
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

/// Table sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// TCP connections, half-open ones included. Default 4,096.
    pub connections: u32,
    /// Connections in TIME_WAIT; when full the oldest is forgotten. Default 4,096.
    pub time_wait: u32,
    /// Half-open connections a listener keeps before it answers with SYN cookies. Default 256.
    pub half_open: u32,
    /// Ranges of sent and received data that the stack holds together. Default 16,384.
    pub chunks: u32,
    /// Received TCP buffers that the stack keeps at most; data beyond is not taken, and sent again.
    /// Of data out of order a quarter, for connections that the application has not accepted a
    /// half. Default 8,192.
    pub kept: u32,
    /// TCP listeners. Default 64.
    pub listeners: u32,
    /// Bound UDP addresses. Default 64.
    pub udp: u32,
    /// Datagrams of one bound address that the application has not finished with. Default 256.
    pub udp_backlog: u32,
    /// Datagrams that wait to be sent. Default 1,024.
    pub udp_sends: u32,
    /// Timers of the application's. Default 1,024.
    pub timers: u32,
    /// Neighbours known (ARP, NDP). Default 1,024.
    pub neighbours: u32,
    /// Replies without a connection (RST, ARP, ICMP) that wait to be sent. Default 256.
    pub replies: u32,
    /// Datagrams in reassembly at a time, 64 KiB each. Default 4.
    pub reassemblies: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
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
