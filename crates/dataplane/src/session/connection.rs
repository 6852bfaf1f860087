//! Connections of an application: their queued and their unacknowledged data.

use super::Connection;
use crate::abi::Call;
use crate::area::Piece;
use std::collections::VecDeque;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// `Connect` was called.
    Opening,
    /// The connection is open, under this name.
    Open { handle: u64 },
}

/// Value of [`Place::stalled_ms`] for a connection that is being reset.
pub(super) const IS_RESET: u32 = u32::MAX;

/// Kinds of ending our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// Our side ends; the peer may continue to send.
    Shutdown,
    /// Both sides end.
    Close,
}

/// Handle of a connection that is not open: no stack has so many connections.
const NOT_OPEN: u64 = u64::MAX;

/// One connection. It has two cache lines, because there may be very many.
#[derive(Debug)]
pub(super) struct Place {
    /// Name at the dataplane, or [`NOT_OPEN`].
    handle: u64,
    /// Bytes that may be sent since the connection opened. The next field counts the sent ones.
    limit_bytes: u64,
    handed_bytes: u64,
    /// Queued pieces, the oldest first. A part of the first one may have been sent.
    queued: VecDeque<Piece>,
    handed_of_first: u32,
    /// Pieces that were sent and not acknowledged.
    unacknowledged: VecDeque<Piece>,
    acknowledged_of_first: u32,
    /// Bytes of both: less than the memory, which is smaller than 4 GiB.
    held_bytes: u32,
    /// Bytes of the pieces of both, which no other connection can use meanwhile.
    pub cost_bytes: u32,
    /// Bytes acknowledged since the connection opened, which show its need.
    pub earned_bytes: u32,
    /// Milliseconds since the session began at which the connection was seen with memory, if
    /// nothing was acknowledged since; otherwise 0. [`IS_RESET`] while the connection is being
    /// reset.
    pub stalled_ms: u32,
    /// Sends that are not acknowledged completely.
    pub ranges: u32,
    /// Whether the connection waits for the limit of unacknowledged sends.
    pub waits: bool,
    /// Whether the connection waits for memory.
    pub wants_memory: bool,
    /// Call to make after the queued data.
    ending: Option<Closing>,
}

impl Place {
    fn new(state: ConnectionState) -> Place {
        let handle = match state {
            ConnectionState::Opening => NOT_OPEN,
            ConnectionState::Open { handle } => handle,
        };
        Place {
            handle,
            limit_bytes: 0,
            handed_bytes: 0,
            queued: VecDeque::new(),
            handed_of_first: 0,
            unacknowledged: VecDeque::new(),
            acknowledged_of_first: 0,
            held_bytes: 0,
            cost_bytes: 0,
            earned_bytes: 0,
            stalled_ms: 0,
            ranges: 0,
            waits: false,
            wants_memory: false,
            ending: None,
        }
    }

    pub fn handle(&self) -> Option<u64> {
        (self.handle != NOT_OPEN).then_some(self.handle)
    }

    pub fn open(&mut self, handle: u64, window_bytes: u32) {
        self.handle = handle;
        self.limit_bytes = u64::from(window_bytes);
    }

    pub fn window_bytes(&self) -> u32 {
        u32::try_from(self.limit_bytes.saturating_sub(self.handed_bytes)).unwrap_or(u32::MAX)
    }

    pub fn queue(&mut self, piece: Piece) {
        self.held_bytes += piece.len;
        self.cost_bytes += piece.cost_bytes();
        self.queued.push_back(piece);
    }

    pub fn end_with(&mut self, closing: Closing) {
        if self.ending != Some(Closing::Close) {
            self.ending = Some(closing);
        }
    }

    /// Number of bytes that are queued or unacknowledged. A piece counts until all of it is
    /// acknowledged.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes as usize
    }

    /// Whether the next call is to send.
    pub fn is_sending(&self) -> bool {
        !self.queued.is_empty() && self.window_bytes() > 0
    }

    /// Takes the next call that the window allows. A piece beyond the window is sent in parts.
    pub fn next_call(&mut self) -> Option<Call> {
        let handle = self.handle()?;
        let Some(piece) = self.queued.front().copied() else {
            return self.ending.take().map(|closing| match closing {
                Closing::Shutdown => Call::Shutdown { handle },
                Closing::Close => Call::Close { handle },
            });
        };
        let left = piece.len - self.handed_of_first;
        let len = left.min(self.window_bytes());
        if len == 0 {
            return None;
        }
        let offset = piece.offset + self.handed_of_first;
        self.handed_bytes += u64::from(len);
        self.ranges += 1;
        self.handed_of_first += len;
        if self.handed_of_first == piece.len {
            self.queued.pop_front();
            self.handed_of_first = 0;
            self.unacknowledged.push_back(piece);
        }
        Some(Call::Send {
            handle,
            offset: u64::from(offset),
            len,
        })
    }

    /// Takes an acknowledgement of `bytes`, oldest first. A piece is freed as a whole.
    pub fn acknowledged(&mut self, bytes: u32, limit_bytes: u64, mut give: impl FnMut(Piece)) {
        self.acknowledged_of_first += bytes;
        self.earned_bytes = self.earned_bytes.saturating_add(bytes);
        if bytes > 0 && self.stalled_ms != IS_RESET {
            self.stalled_ms = 0;
        }
        while let Some(piece) = self.unacknowledged.front().copied() {
            if self.acknowledged_of_first < piece.len {
                break;
            }
            self.acknowledged_of_first -= piece.len;
            self.unacknowledged.pop_front();
            self.held_bytes -= piece.len;
            self.cost_bytes -= piece.cost_bytes();
            give(piece);
        }
        self.limit_bytes = limit_bytes;
    }
}

/// Connections by cookie, which is place and generation.
#[derive(Debug, Default)]
pub(super) struct Connections {
    places: Vec<(u32, Option<Place>)>,
    free: Vec<u32>,
}

impl Connections {
    pub fn add(&mut self, state: ConnectionState) -> Connection {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let mut generation = 0;
        if let Some((g, place)) = self.places.get_mut(index as usize) {
            *place = Some(Place::new(state));
            generation = *g;
        }
        Connection(u64::from(generation) << 32 | u64::from(index))
    }

    pub fn get_mut(&mut self, connection: Connection) -> Option<&mut Place> {
        let (generation, place) = self.places.get_mut(connection.0 as u32 as usize)?;
        (*generation == (connection.0 >> 32) as u32).then_some(place.as_mut())?
    }

    /// Connections of a flow group.
    pub fn of_group(&self, group: u8) -> Vec<Connection> {
        let places = (0_u64..).zip(&self.places);
        let open = places.filter_map(|(index, (generation, place))| {
            let handle = place.as_ref()?.handle()?;
            let is_in = crate::handle::group(handle) == group;
            is_in.then_some(Connection(u64::from(*generation) << 32 | index))
        });
        open.collect()
    }

    /// Number of places, in use or not.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Connection in a place.
    pub fn at(&mut self, index: usize) -> Option<&mut Place> {
        self.places.get_mut(index)?.1.as_mut()
    }

    /// Forgets a connection and frees its memory. Returns the connection; `None` if it does not
    /// exist.
    pub fn remove(&mut self, connection: Connection, mut give: impl FnMut(Piece)) -> Option<Place> {
        let index = connection.0 as u32;
        let (generation, place) = self.places.get_mut(index as usize)?;
        if *generation != (connection.0 >> 32) as u32 {
            return None;
        }
        let mut old = place.take()?;
        old.queued.drain(..).for_each(&mut give);
        old.unacknowledged.drain(..).for_each(&mut give);
        *generation = generation.wrapping_add(1);
        self.free.push(index);
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_two_cache_lines_of_its_table() {
        assert_eq!(size_of::<(u32, Option<Place>)>(), 128);
    }

    #[test]
    fn a_close_is_not_reduced_to_a_shutdown() {
        let call = |endings: [Closing; 2]| {
            let mut place = Place::new(ConnectionState::Open { handle: 7 });
            endings
                .into_iter()
                .for_each(|ending| place.end_with(ending));
            [place.next_call(), place.next_call()]
        };
        let close = [Some(Call::Close { handle: 7 }), None];
        assert_eq!(call([Closing::Shutdown, Closing::Close]), close);
        assert_eq!(call([Closing::Close, Closing::Shutdown]), close);
    }
}
