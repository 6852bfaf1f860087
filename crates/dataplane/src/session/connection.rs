//! An application's connections: what each has queued and what is unacknowledged.

use super::Connection;
use crate::abi::Call;
use crate::area::Piece;
use std::collections::VecDeque;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// `Connect` was called.
    Opening,
    /// Open, by this name.
    Open { handle: u64 },
}

/// Value of [`Place::stalled_ms`].
pub(super) const IS_RESET: u32 = u32::MAX;

/// How our side ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The peer may still send.
    Shutdown,
    /// Altogether.
    Close,
}

/// Handle of a connection that is not open: no stack has so many.
const NOT_OPEN: u64 = u64::MAX;

/// One connection. Two cache lines in its table: there may be very many.
#[derive(Debug)]
pub(super) struct Place {
    /// Its name at the dataplane, or [`NOT_OPEN`].
    handle: u64,
    /// Bytes that may have been handed over since it opened, and that were.
    limit_bytes: u64,
    handed_bytes: u64,
    /// Queued, oldest first; the first may be handed over in part.
    queued: VecDeque<Piece>,
    handed_of_first: u32,
    /// Handed over and not acknowledged.
    unacknowledged: VecDeque<Piece>,
    acknowledged_of_first: u32,
    /// Bytes of both: less than the memory, which is smaller than 4 GiB.
    held_bytes: u32,
    /// Bytes of the pieces of both: what others cannot use meanwhile.
    pub cost_bytes: u32,
    /// Bytes that were acknowledged since it opened: what it has shown that it needs.
    pub earned_bytes: u32,
    /// Milliseconds since the session began, when it was seen to hold memory and nothing has been
    /// acknowledged since; 0: none of both. [`IS_RESET`]: it is being reset.
    pub stalled_ms: u32,
    /// Calls to send that are not wholly acknowledged.
    pub ranges: u32,
    /// It waits until fewer sends of all connections are unacknowledged.
    pub waits: bool,
    /// It found no memory, and waits for some.
    pub wants_memory: bool,
    /// What to call when all is handed over.
    ending: Option<Closing>,
}

impl Place {
    fn new(state: State) -> Place {
        let handle = match state {
            State::Opening => NOT_OPEN,
            State::Open { handle } => handle,
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

    /// Bytes that are queued or not acknowledged; what is acknowledged of a piece counts until
    /// all of it is.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes as usize
    }

    /// Whether the next call is to send.
    pub fn is_sending(&self) -> bool {
        !self.queued.is_empty() && self.window_bytes() > 0
    }

    /// The next call that the window allows. A piece is sent in parts when the window is
    /// smaller than it.
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

    /// Takes an acknowledgement of `bytes`, oldest first. A piece that is still queued in part is
    /// given back only as a whole.
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

/// All of them, by cookie: place and generation.
#[derive(Debug, Default)]
pub(super) struct Connections {
    places: Vec<(u32, Option<Place>)>,
    free: Vec<u32>,
}

impl Connections {
    pub fn add(&mut self, state: State) -> Connection {
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

    /// The connections of a flow group.
    pub fn of_group(&self, group: u8) -> Vec<Connection> {
        let places = (0_u64..).zip(&self.places);
        let open = places.filter_map(|(index, (generation, place))| {
            let handle = place.as_ref()?.handle()?;
            let is_in = crate::handle::group(handle) == group;
            is_in.then_some(Connection(u64::from(*generation) << 32 | index))
        });
        open.collect()
    }

    /// Places, in use or not.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The connection in a place.
    pub fn at(&mut self, index: usize) -> Option<&mut Place> {
        self.places.get_mut(index)?.1.as_mut()
    }

    /// Forgets a connection and gives its memory back. Returns it without; `None` when it was not
    /// there.
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
            let mut place = Place::new(State::Open { handle: 7 });
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
