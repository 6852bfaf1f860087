//! Bound addresses, and datagrams to and from them.

use super::{BoundAddress, Event, ReceivedData, Session};
use crate::abi::{Call, Refusal};
use crate::area::Piece;
use std::net::{IpAddr, SocketAddr};

/// Pending datagrams, by token.
pub(super) struct Sends {
    all: Vec<Option<(Piece, BoundAddress)>>,
    free: Vec<u32>,
    /// Pending datagrams, at most.
    most: u32,
}

impl Sends {
    pub fn new(most: u32) -> Sends {
        Sends {
            all: Vec::new(),
            free: Vec::new(),
            most,
        }
    }

    fn count(&self) -> usize {
        self.all.len() - self.free.len()
    }

    fn add(&mut self, piece: Piece, bound: BoundAddress) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() as u32 - 1
        });
        if let Some(place) = self.all.get_mut(index as usize) {
            *place = Some((piece, bound));
        }
        u64::from(index)
    }

    fn take(&mut self, token: u64) -> Option<(Piece, BoundAddress)> {
        let sent = (self.all.get_mut(token as usize)).and_then(Option::take)?;
        self.free.push(token as u32);
        Some(sent)
    }
}

impl Session {
    /// Receives datagrams for `local`. [`Event::Bound`] reports the outcome.
    pub fn udp_bind(&mut self, local: SocketAddr) -> BoundAddress {
        // Datagrams that wait there for a neighbour are dropped.
        if let Some(closing) = self.bounds.closing(local) {
            self.release(closing);
        }
        let bound = self.bounds.add(self.cores.len(), Some(local));
        self.call_all(Call::UdpBind {
            local,
            cookie: bound.0,
        });
        bound
    }

    /// Releases an address after the datagrams from there.
    pub fn unbind(&mut self, bound: BoundAddress) {
        if let Some(place) = self.bounds.get_mut(bound) {
            place.is_closing = true;
            if place.unsent == 0 {
                self.release(bound);
            }
        }
    }

    fn release(&mut self, bound: BoundAddress) {
        let Some(place) = self.bounds.get_mut(bound) else {
            return;
        };
        let (handles, is_answered) = (place.take(), place.is_answered());
        for (core, handle) in handles {
            self.push(core, Call::Unbind { handle }.into());
        }
        if is_answered {
            self.bounds.remove(bound);
        }
    }

    /// Records the answer of a core.
    pub(super) fn bound(
        &mut self,
        core: usize,
        bound: BoundAddress,
        result: Result<u64, Refusal>,
    ) -> Option<Event> {
        let place = self.bounds.get_mut(bound)?;
        let result = place.answer(core, result);
        if place.is_closing {
            self.release(bound);
            return None;
        }
        let result = result?;
        if result.is_err() {
            // The address is bound on all cores or on none.
            self.unbind(bound);
        }
        Some(Event::Bound { bound, result })
    }

    /// Sends one datagram that fits a frame. Returns false if all memory is in use, or the address
    /// is not bound.
    pub fn send_datagram(&mut self, bound: BoundAddress, remote: SocketAddr, data: &[u8]) -> bool {
        self.send_datagram_from(bound, None, remote, data)
    }

    /// Sends a datagram as [`Session::send_datagram`] does, from this address of the dataplane, if
    /// all addresses are bound.
    pub fn send_datagram_from(
        &mut self,
        bound: BoundAddress,
        source: Option<IpAddr>,
        remote: SocketAddr,
        data: &[u8],
    ) -> bool {
        let place = self.bounds.get_mut(bound);
        let sender = place.and_then(|place| place.sender());
        let (Some((core, handle)), Some(mut buffer)) = (sender, self.buffer(data.len())) else {
            return false;
        };
        self.bytes_mut(&mut buffer).copy_from_slice(data);
        if let Some(place) = self.bounds.get_mut(bound) {
            place.unsent += 1;
        }
        let call = Call::UdpSend {
            handle,
            remote,
            source,
            offset: u64::from(buffer.piece.offset),
            len: buffer.piece.len,
            token: self.sends.add(buffer.piece, bound),
        };
        self.push(core, call.into());
        true
    }

    /// Whether the dataplane's table has a place for another datagram, which may otherwise be lost.
    pub fn has_room_for_datagram(&self) -> bool {
        self.sends.count() < self.sends.most as usize
    }

    /// Number of pending datagrams, also of those waiting for a neighbour.
    pub fn unsent_datagrams(&self) -> usize {
        self.sends.count()
    }

    /// Reports a received datagram.
    pub(super) fn datagram(
        &mut self,
        core: usize,
        bound: BoundAddress,
        data: ReceivedData,
        (remote, local): (SocketAddr, IpAddr),
    ) -> Option<Event> {
        let place = self.bounds.get_mut(bound);
        let place = place.filter(|place| !place.is_closing)?;
        place.core = core;
        Some(Event::Datagram {
            bound,
            data,
            remote,
            local,
        })
    }

    /// Frees the memory of a datagram that was sent or dropped.
    pub(super) fn datagram_sent(&mut self, token: u64) {
        let Some((piece, bound)) = self.sends.take(token) else {
            return;
        };
        self.pieces.give(piece);
        if let Some(place) = self.bounds.get_mut(bound) {
            place.unsent = place.unsent.saturating_sub(1);
            if place.is_closing && place.unsent == 0 {
                self.release(bound);
            }
        }
    }
}
