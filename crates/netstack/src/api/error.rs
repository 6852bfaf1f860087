//! Errors, one enum an operation.

use std::net::{IpAddr, SocketAddr};

/// The settings cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not an address of one station.
    #[error("interface MAC address {0} is not a unicast address")]
    Mac(super::MacAddress),
    /// IPv6 needs 1280 bytes, IPv4 68; frames of more than 65,535 bytes do not exist.
    #[error("MTU {mtu_bytes} is outside {least}..=65535")]
    Mtu {
        /// What was set.
        mtu_bytes: u32,
        /// The least that works with these addresses.
        least: u32,
    },
    /// The prefix is longer than the address.
    #[error("address {0}/{1}: no such prefix length")]
    Prefix(IpAddr, u8),
    /// Not an address one can send from.
    #[error("address {0} is not a unicast address")]
    Address(IpAddr),
    /// A gateway that no address of ours is on a link with.
    #[error("gateway {0} is in no network of this interface")]
    Gateway(IpAddr),
    /// None, or more than a frame's number of its interface can name.
    #[error("{0} interfaces: a stack has 1 to 8")]
    Interfaces(usize),
    /// Two interfaces have the address.
    #[error("two interfaces have the address {0}")]
    Twice(IpAddr),
    /// A limit that nothing works with.
    #[error("limit {name} = {value} is outside {least}..={most}")]
    Limit {
        /// The setting.
        name: &'static str,
        /// What was set.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
}

/// `listen` or `udp_bind` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// Somebody has it.
    #[error("{0} is in use")]
    InUse(SocketAddr),
    /// Not an address of this interface.
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
    /// Not an address one can connect to.
    #[error("{0} cannot be connected to")]
    Remote(SocketAddr),
    /// No address of ours, or no route, in the remote's family.
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    /// Not an address of this interface.
    #[error("{0} is not an address of this interface")]
    NotOurs(IpAddr),
    /// The connection exists, or all ports to this remote are in use.
    #[error("no free local port to {0}")]
    InUse(SocketAddr),
    /// The table is full.
    #[error("no room for another connection (limit {0})")]
    Full(u32),
}

/// The handle names nothing, or nothing in a state for this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection has ended, or is not in a state for this")]
pub struct GoneError;

/// `sendv` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The handle names nothing, or the connection is not open yet.
    #[error("the connection has ended, or is not open yet")]
    Gone,
    /// Our side was closed.
    #[error("our side of the connection is closed")]
    Closed,
}

/// `udp_sendv` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UdpSendError {
    /// The handle names nothing.
    #[error("this address is not bound")]
    Gone,
    /// No route in the remote's family, or another family than the bound address.
    #[error("no route to {0}")]
    NoRoute(IpAddr),
    /// The datagram does not fit into a frame; the stack sends no fragments.
    #[error("{bytes} bytes do not fit into one frame ({most})")]
    TooLong {
        /// What was to be sent.
        bytes: u32,
        /// What fits.
        most: u32,
    },
    /// Too many ranges ([`super::MAX_CHUNKS`]).
    #[error("{0} ranges are too many for one datagram")]
    TooManyChunks(usize),
    /// Too many datagrams wait to be sent: try again after the next `udp_sent`.
    #[error("too many datagrams wait to be sent")]
    Full,
}
