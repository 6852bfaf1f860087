//! Bound addresses of TCP listeners and of UDP.

use crate::api::{BindError, ConnectionOptions, FastOpenServer};
use crate::core::siphash::Key;
use crate::core::slots::Slots;
use crate::core::table::Table;
use crate::wire::address::Addr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bound address.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listener {
    at: Addr,
    port: u16,
    cookie: u64,
    options: ConnectionOptions,
    /// Reader that sends datagrams from the address: see [`super::readers`].
    reader: u8,
    /// Largest number of pending connections or datagrams.
    backlog: u32,
    /// Number of half-open connections.
    half_open: u32,
    /// Number of open connections that were not accepted, or of datagrams in use.
    pending: u32,
    fast_open: FastOpenServer,
}

impl Listener {
    pub fn new(at: Addr, port: u16, cookie: u64, backlog: u32) -> Self {
        Self {
            at,
            port,
            cookie,
            backlog,
            ..Self::default()
        }
    }

    /// Bound address; the unspecified one stands for all of its family.
    pub const fn at(&self) -> &Addr {
        &self.at
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Cookie of the application.
    pub const fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Reader that sends datagrams from the address.
    pub const fn reader(&self) -> u8 {
        self.reader
    }

    pub fn set_reader(&mut self, reader: u8) {
        self.reader = reader;
    }

    /// Options of the listener's connections, which replace those of the stack.
    pub const fn options(&self) -> ConnectionOptions {
        self.options
    }

    pub const fn set_options(&mut self, options: ConnectionOptions) {
        self.options = options;
    }

    /// Whether the backlog is full.
    pub const fn is_full(&self) -> bool {
        self.pending >= self.backlog
    }

    /// Number of half-open connections.
    pub const fn half_open(&self) -> u32 {
        self.half_open
    }

    /// Number of connections that are not accepted, half-open and open.
    pub const fn waiting(&self) -> u32 {
        self.half_open + self.pending
    }

    /// Acceptance of data in a SYN.
    pub const fn fast_open(&self) -> &FastOpenServer {
        &self.fast_open
    }

    pub fn set_fast_open(&mut self, server: FastOpenServer) {
        self.fast_open = server;
    }

    /// Adds a pending connection or datagram.
    pub fn add_pending(&mut self) {
        self.pending += 1;
    }

    /// Removes `count` pending connections or datagrams, at most all.
    pub fn take_pending(&mut self, count: u32) {
        self.pending = self.pending.saturating_sub(count);
    }
}

/// Table of bound addresses, with a lookup by address and port in O(1).
#[derive(Debug)]
pub struct Listeners {
    all: Vec<Listener>,
    slots: Slots,
    /// Half-open connections of all listeners.
    half_open: u32,
    /// Connections that an application has although their handshake is not complete.
    early: u32,
    table: Table,
    key: Key,
}

/// The unspecified address of a family.
fn any(v4: bool) -> Addr {
    Addr::from(if v4 {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    })
}

impl Listeners {
    pub fn new(count: u32, secret: &[u8; 16]) -> Self {
        Self {
            all: vec![Listener::default(); count as usize],
            slots: Slots::new(count),
            half_open: 0,
            early: 0,
            table: Table::new(count as usize),
            key: Key::new(secret, 8),
        }
    }

    fn exact(&self, at: &Addr, port: u16) -> (u64, Option<u32>) {
        let words = u128::from_ne_bytes(at.0);
        let hash = self
            .key
            .hash(&[words as u64, (words >> 64) as u64, u64::from(port)]);
        let is = |slot: u32| {
            let listener = self.get(slot);
            listener.at == *at && listener.port == port
        };
        (hash, self.table.find(hash, is))
    }

    /// Slot bound to an address and port. An exact address precedes the unspecified one.
    pub fn find(&self, at: &Addr, port: u16) -> Option<u32> {
        self.exact(at, port)
            .1
            .or_else(|| self.exact(&any(at.is_v4()), port).1)
    }

    /// Slot of a handle, unless the handle is stale.
    pub fn check(&self, slot: u32, generation: u32) -> Option<u32> {
        self.slots.check(slot, generation).map(|_| slot)
    }

    /// Generation of the slot's handle.
    pub fn generation(&self, slot: u32) -> u32 {
        self.slots.generation(slot)
    }

    pub fn get(&self, slot: u32) -> &Listener {
        &self.all[slot as usize]
    }

    pub fn get_mut(&mut self, slot: u32) -> &mut Listener {
        &mut self.all[slot as usize]
    }

    /// Half-open connections of all listeners.
    pub const fn half_open(&self) -> u32 {
        self.half_open
    }

    /// Connections that an application has although their handshake is not complete (RFC 7413).
    pub const fn early(&self) -> u32 {
        self.early
    }

    /// Counts such a connection.
    pub fn add_early(&mut self) {
        self.early += 1;
    }

    /// Removes such a connection because its handshake is complete or it has ended.
    pub fn drop_early(&mut self) {
        self.early -= 1;
    }

    /// Counts a half-open connection of this listener.
    pub fn add_half_open(&mut self, slot: u32) {
        self.half_open += 1;
        self.get_mut(slot).half_open += 1;
    }

    /// Removes a half-open connection of this listener because it is open or has ended.
    pub fn drop_half_open(&mut self, slot: u32) {
        self.half_open -= 1;
        self.get_mut(slot).half_open -= 1;
    }

    /// Binds an address.
    ///
    /// # Errors
    ///
    /// If the address is in use or the table with its `full` entries is full.
    pub fn bind(&mut self, listener: Listener, full: u32) -> Result<u32, BindError> {
        let (hash, found) = self.exact(&listener.at, listener.port);
        if found.is_some() {
            return Err(BindError::InUse(SocketAddr::new(
                listener.at.ip(),
                listener.port,
            )));
        }
        let slot = self.slots.take().ok_or(BindError::Full(full))?;
        self.all[slot as usize] = listener;
        self.table.insert(hash, slot);
        Ok(slot)
    }

    pub fn unbind(&mut self, slot: u32) {
        let Listener { at, port, .. } = *self.get(slot);
        let (hash, _) = self.exact(&at, port);
        self.table.remove(hash, slot);
        self.slots.free(slot);
    }
}
