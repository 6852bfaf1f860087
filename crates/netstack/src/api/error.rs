//! Errors, one enum for each operation.

use std::net::{IpAddr, SocketAddr};

/// The settings are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The MAC address is not unicast.
    #[error("interface MAC address {0} is not a unicast address")]
    Mac(super::MacAddress),
    /// The MTU is too small for the address families (IPv6 1280 bytes, IPv4 576) or exceeds 65,535.
    #[error("MTU {mtu_bytes} is outside {least}..=65535")]
    Mtu {
        /// Configured MTU.
        mtu_bytes: u32,
        /// Smallest MTU that these addresses allow.
        least: u32,
    },
    /// The prefix is longer than the address.
    #[error("address {0}/{1}: no such prefix length")]
    Prefix(IpAddr, u8),
    /// The address is not unicast.
    #[error("address {0} is not a unicast address")]
    Address(IpAddr),
    /// The gateway is in no network of the interface.
    #[error("gateway {0} is in no network of this interface")]
    Gateway(IpAddr),
    /// The number of interfaces is not 1 to 8.
    #[error("{0} interfaces: a stack has 1 to 8")]
    Interfaces(usize),
    /// Two interfaces have the address.
    #[error("two interfaces have the address {0}")]
    Twice(IpAddr),
    /// A limit is out of range.
    #[error("limit {name} = {value} is outside {least}..={most}")]
    Limit {
        /// Name of the setting.
        name: &'static str,
        /// Configured value.
        value: u64,
        /// Smallest allowed value.
        least: u64,
        /// Largest allowed value.
        most: u64,
    },
}

/// `listen` or `udp_bind` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The address and port are already bound.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// The stack does not have the address.
    #[error("{0} is not an address of this interface")]
    NotOurs(IpAddr),
    /// Port 0 cannot be bound.
    #[error("port 0 cannot be bound")]
    NoPort,
    /// The table is full.
    #[error("no room for another bound address (limit {0})")]
    Full(u32),
}

/// `connect` failed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The remote address is not unicast, or its port is 0.
    #[error("{0} cannot be connected to")]
    Remote(SocketAddr),
    /// The stack has no address or no route in the remote's family.
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    /// The stack does not have the local address.
    #[error("{0} is not an address of this interface")]
    NotOurs(IpAddr),
    /// The connection exists, or every port to this remote is in use.
    #[error("no free local port to {0}")]
    InUse(SocketAddr),
    /// The table is full.
    #[error("no room for another connection (limit {0})")]
    Full(u32),
}

/// The handle is stale, or the operation is not possible in the connection's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection has ended, or is not in a state for this")]
pub struct GoneError;

/// `sendv` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The handle is stale, or the connection is not open yet.
    #[error("the connection has ended, or is not open yet")]
    Gone,
    /// The application has closed its side.
    #[error("our side of the connection is closed")]
    Closed,
}

/// `udp_sendv` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UdpSendError {
    /// The handle is stale.
    #[error("this address is not bound")]
    Gone,
    /// There is no route, or the remote's family differs from the bound address's.
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    /// The datagram does not fit into a frame; the stack does not fragment it.
    #[error("{bytes} bytes do not fit into one frame ({most})")]
    TooLong {
        /// Size of the datagram.
        bytes: u32,
        /// Largest size that fits.
        most: u32,
    },
    /// The datagram has more than [`super::MAX_CHUNKS`] ranges.
    #[error("{0} ranges are too many for one datagram")]
    TooManyChunks(usize),
    /// Too many datagrams wait to be sent; retry after the next `UdpSent` event.
    #[error("too many datagrams wait to be sent")]
    Full,
}
