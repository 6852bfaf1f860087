//! Socket options. An accepted connection inherits those of its listener.

use cofferdam_bsd::TcpOptions;

/// Values from linux/tcp.h that libc lacks.
pub const TCP_INQ: i32 = 36;
pub const TCP_FASTOPEN_KEY: i32 = 33;
pub const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
pub const TCP_CC_INFO: i32 = 26;
/// Value from asm-generic/socket.h.
pub const SO_MEMINFO: i32 = 55;

/// Options of one socket.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// SO_REUSEADDR.
    pub reuse_address: bool,
    /// SO_REUSEPORT.
    pub reuse_port: bool,
    /// SO_LINGER with zero seconds: closing resets the connection.
    pub close_resets: bool,
    /// TCP_INQ: reading reports the remaining bytes.
    pub tells_queue: bool,
    /// Options of TCP, and SO_KEEPALIVE.
    pub tcp: TcpOptions,
    /// SO_SNDBUF as Linux stores it: twice the requested value.
    pub send_buffer_bytes: Option<u32>,
    /// SO_RCVBUF, likewise.
    pub receive_buffer_bytes: Option<u32>,
    /// TCP_NOTSENT_LOWAT.
    pub not_sent_low_bytes: Option<u32>,
    /// SO_ZEROCOPY.
    pub zero_copy: bool,
    /// SO_TIMESTAMPING's flags.
    pub timestamping: u32,
    /// SO_PRIORITY, SO_MARK, IP_TOS, IPV6_TCLASS, IP_MTU_DISCOVER.
    pub priority: i32,
    pub mark: i32,
    pub traffic_class: u8,
    pub path_mtu_discovery: i32,
    /// IP_RECVERR, IPV6_RECVERR.
    pub receives_errors: bool,
    /// TCP_FASTOPEN: how many connections with data in their SYN may wait.
    pub fast_open_backlog: u32,
    /// TCP_FASTOPEN_CONNECT.
    pub fast_open_connect: bool,
    /// TCP_FASTOPEN_NO_COOKIE.
    pub fast_open_without_cookie: bool,
    /// TCP_FASTOPEN_KEY: one or two keys of 16 bytes.
    pub fast_open_keys: Vec<u8>,
    /// Options that are only stored and read back.
    pub stored: std::collections::BTreeMap<(i32, i32), i32>,
}

/// Minimum buffers (net/core/sock.c: SOCK_MIN_SNDBUF, SOCK_MIN_RCVBUF).
pub const LEAST_SEND_BUFFER_BYTES: u32 = 4608;
pub const LEAST_RECEIVE_BUFFER_BYTES: u32 = 2304;
