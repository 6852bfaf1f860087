//! Connection of the stack: TCP's state, and the stack's own data about it.

use super::links::Links;
use crate::api::MacAddress;
use crate::tcp::state::Tcb;

/// TCP's state of a connection, and the stack's own data about it.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    pub tcb: Tcb,
    hash: u64,
    /// Links in the lists of [`super::connections::Connections`], which alone changes them.
    pub(super) links: Links,
    cookie: u64,
    /// Slot of the listener until the application accepts the connection.
    listener: Option<u32>,
    /// Ethernet address of the next hop, and the epoch of the neighbour table at its lookup.
    mac: MacAddress,
    mac_epoch: u32,
    reader: u8,
}

impl Connection {
    /// A connection that is in no list and has no next hop.
    pub fn new(tcb: Tcb, hash: u64) -> Self {
        Self {
            tcb,
            hash,
            links: Links::default(),
            cookie: 0,
            listener: None,
            mac: MacAddress::default(),
            mac_epoch: 0,
            reader: 0,
        }
    }

    /// Hash of the 4-tuple.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Records that the application opens or accepts the connection with this cookie.
    pub fn own(&mut self, cookie: u64) {
        self.tcb.notices.own();
        self.cookie = cookie;
    }

    /// Cookie of the application.
    pub const fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Slot of the listener until the application accepts the connection.
    pub const fn listener(&self) -> Option<u32> {
        self.listener
    }

    /// Assigns the connection to the listener in this slot.
    pub fn set_listener(&mut self, slot: u32) {
        self.listener = Some(slot);
    }

    /// Removes the connection from its listener.
    pub fn take_listener(&mut self) -> Option<u32> {
        self.listener.take()
    }

    /// Reader of the connection's data; see [`super::readers`].
    pub const fn reader(&self) -> u8 {
        self.reader
    }

    pub fn set_reader(&mut self, reader: u8) {
        self.reader = reader;
    }

    /// Ethernet address of the last segment's sender or of the last next hop.
    pub const fn mac(&self) -> MacAddress {
        self.mac
    }

    /// Records the Ethernet address from which a segment arrived.
    pub fn set_peer_mac(&mut self, mac: MacAddress) {
        self.mac = mac;
    }

    /// Records the next hop that the neighbour table contained in `epoch`.
    pub fn found(&mut self, mac: MacAddress, epoch: u32) {
        (self.mac, self.mac_epoch) = (mac, epoch);
    }

    /// Next hop, if it is valid in `epoch` of the neighbour table. A half-open connection answers
    /// to the address that sent its SYN, so that a SYN flood causes no ARP requests.
    pub fn next_hop(&self, epoch: u32) -> Option<MacAddress> {
        (self.mac_epoch == epoch || self.tcb.notices.is_half_open()).then_some(self.mac)
    }

    /// Resets the data that belongs to the connection's previous stack: its links, and the epoch of
    /// the neighbour table.
    pub fn arrive(&mut self) {
        self.links = Links::default();
        self.mac_epoch = 0;
    }
}
