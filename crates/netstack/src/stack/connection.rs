//! A connection, and what the stack knows of it beside TCP's state.

use super::links::Links;
use crate::api::MacAddress;
use crate::tcp::state::Tcb;

/// A connection, and what the stack knows of it.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    pub tcb: Tcb,
    hash: u64,
    /// Its places in the lists of [`super::connections::Connections`], which alone changes them.
    pub(super) links: Links,
    cookie: u64,
    /// The listener's slot, until the connection is accepted.
    listener: Option<u32>,
    /// Where its segments go, and the neighbour table's state when that was looked up.
    mac: MacAddress,
    mac_epoch: u32,
    reader: u8,
}

impl Connection {
    /// A connection in no list, whose next hop is not known.
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

    /// The hash of its 4-tuple.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The application opens or accepts it, under this cookie.
    pub fn own(&mut self, cookie: u64) {
        self.tcb.notices.own();
        self.cookie = cookie;
    }

    /// The application's cookie.
    pub const fn cookie(&self) -> u64 {
        self.cookie
    }

    /// The listener's slot, until the connection is accepted.
    pub const fn listener(&self) -> Option<u32> {
        self.listener
    }

    /// It belongs to the listener in this slot.
    pub fn set_listener(&mut self, slot: u32) {
        self.listener = Some(slot);
    }

    /// It belongs to no listener any more.
    pub fn take_listener(&mut self) -> Option<u32> {
        self.listener.take()
    }

    /// Who reads its data; see [`super::readers`].
    pub const fn reader(&self) -> u8 {
        self.reader
    }

    pub fn set_reader(&mut self, reader: u8) {
        self.reader = reader;
    }

    /// Where the last segment came from, or where the last one went.
    pub const fn mac(&self) -> MacAddress {
        self.mac
    }

    /// A segment came from there.
    pub fn came_from(&mut self, mac: MacAddress) {
        self.mac = mac;
    }

    /// The next hop, as looked up in the neighbour table in state `epoch`.
    pub fn found(&mut self, mac: MacAddress, epoch: u32) {
        (self.mac, self.mac_epoch) = (mac, epoch);
    }

    /// Where its segments go, if that is known while the neighbour table is in state `epoch`. Those
    /// of a half-open connection go back the way it came, so that a flood of SYNs causes no ARP
    /// requests.
    pub fn next_hop(&self, epoch: u32) -> Option<MacAddress> {
        (self.mac_epoch == epoch || self.tcb.notices.is_half_open()).then_some(self.mac)
    }

    /// It comes from another stack, which numbers the states of its neighbour table otherwise. A
    /// half-open connection answers where its SYN came from.
    pub fn arrive(&mut self) {
        self.links = Links::default();
        self.mac_epoch = 0;
    }
}
