//! Connections of a page: strangers, which are not admitted yet, and viewers, which are.
//!
//! Anyone who can connect can hold connections. So strangers have separate places, few for one peer
//! and for a short time, and a new stranger replaces an old one. Viewers are not affected: a
//! connection becomes one with its first admitted request.

use cofferdam_paths::{Admission, Peer, PeerBudget};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// Limit on the streams of readings; more are refused with a clear text.
pub const MOST_STREAMS: usize = 64;
/// Limit on the connections of viewers; more are refused with a clear text.
pub const MOST_VIEWERS: usize = 256;
/// Limit on the connections of strangers.
pub const MOST_STRANGERS: usize = 64;
/// Limit on the connections of one strange peer.
pub const MOST_STRANGERS_OF_A_PEER: usize = 16;

/// Places of strangers.
const STRANGERS: PeerBudget = PeerBudget {
    all: MOST_STRANGERS,
    unprivileged: MOST_STRANGERS - MOST_STRANGERS_OF_A_PEER,
    one_peer: MOST_STRANGERS_OF_A_PEER,
};

/// Budget of `all` places. If users share the page, one peer gets three quarters at most.
const fn shared(all: usize, is_open_to_users: bool) -> PeerBudget {
    let one_peer = if is_open_to_users { all / 4 * 3 } else { all };
    PeerBudget {
        all,
        unprivileged: all,
        one_peer,
    }
}

/// All connections of a page.
#[derive(Debug)]
pub(crate) struct Visitors {
    table: Mutex<Table>,
    viewers: PeerBudget,
    streams: PeerBudget,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// Visitors in the order in which they connected.
    visitors: Vec<Visitor>,
    streams: Vec<Peer>,
}

#[derive(Debug)]
struct Visitor {
    id: u64,
    peer: Peer,
    is_viewer: bool,
    /// Handle that ends the connection.
    task: Option<AbortHandle>,
}

/// Place of a connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Visitors>,
    id: u64,
    peer: Peer,
}

/// Place of a stream. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    all: Arc<Visitors>,
    peer: Peer,
}

impl Visitors {
    /// Creates the table without connections. `is_open_to_users` says that users of this host may
    /// look without a token: one of them must not get all places.
    pub fn new(is_open_to_users: bool) -> Arc<Visitors> {
        Arc::new(Visitors {
            table: Mutex::default(),
            viewers: shared(MOST_VIEWERS, is_open_to_users),
            streams: shared(MOST_STREAMS, is_open_to_users),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a stranger a place. If needed, an older stranger is disconnected.
    pub fn enter(self: &Arc<Visitors>, peer: Peer) -> Option<Place> {
        let mut table = self.table();
        let strangers: Vec<(Peer, bool)> = table
            .strangers()
            .map(|visitor| (visitor.peer, true))
            .collect();
        match STRANGERS.admit(peer, &strangers) {
            Admission::Free => {}
            Admission::InsteadOf(position) => {
                let id = table.strangers().nth(position).map(|visitor| visitor.id);
                let oldest = table
                    .visitors
                    .iter()
                    .position(|visitor| Some(visitor.id) == id);
                let oldest = oldest.map(|position| table.visitors.remove(position));
                if let Some(task) = oldest.and_then(|visitor| visitor.task) {
                    task.abort();
                }
            }
            Admission::Refused => return None,
        }
        table.next += 1;
        let id = table.next;
        table.visitors.push(Visitor {
            id,
            peer,
            is_viewer: false,
            task: None,
        });
        let all = self.clone();
        Some(Place { all, id, peer })
    }

    /// Registers the task that serves the connection with the place `id`.
    pub fn set_task(&self, id: u64, task: AbortHandle) {
        let mut table = self.table();
        if let Some(visitor) = table.visitors.iter_mut().find(|visitor| visitor.id == id) {
            visitor.task = Some(task);
        }
    }
}

impl Table {
    fn strangers(&self) -> impl Iterator<Item = &Visitor> {
        self.visitors.iter().filter(|visitor| !visitor.is_viewer)
    }
}

impl Place {
    /// Number of the place.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether the connection is a viewer's.
    pub fn is_viewer(&self) -> bool {
        let table = self.all.table();
        table
            .visitors
            .iter()
            .any(|visitor| visitor.id == self.id && visitor.is_viewer)
    }

    /// Makes the connection a viewer's, after an admitted request. Returns false if there is no
    /// place.
    pub fn become_viewer(&self) -> bool {
        let mut table = self.all.table();
        let viewers = table.visitors.iter().filter(|visitor| visitor.is_viewer);
        let viewers: Vec<(Peer, bool)> = viewers.map(|visitor| (visitor.peer, false)).collect();
        let is_free = self.all.viewers.admit(self.peer, &viewers) == Admission::Free;
        let own = table
            .visitors
            .iter_mut()
            .find(|visitor| visitor.id == self.id);
        match own {
            Some(own) if own.is_viewer => true,
            Some(own) => {
                own.is_viewer = is_free;
                is_free
            }
            None => false,
        }
    }

    /// Returns a place for a stream of this connection, if there is one.
    pub fn begin_stream(&self) -> Option<StreamPlace> {
        let mut table = self.all.table();
        let streams: Vec<(Peer, bool)> = table.streams.iter().map(|peer| (*peer, false)).collect();
        if self.all.streams.admit(self.peer, &streams) != Admission::Free {
            return None;
        }
        table.streams.push(self.peer);
        let (all, peer) = (self.all.clone(), self.peer);
        Some(StreamPlace { all, peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all
            .table()
            .visitors
            .retain(|visitor| visitor.id != self.id);
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut table = self.all.table();
        if let Some(position) = table.streams.iter().position(|peer| *peer == self.peer) {
            table.streams.swap_remove(position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Peer = Peer::ROOT;
    const USER: Peer = Peer::Uid(1000);

    fn enter(all: &Arc<Visitors>, peer: Peer, count: usize) -> Vec<Place> {
        (0..count).filter_map(|_| all.enter(peer)).collect()
    }

    fn strangers(all: &Visitors, peer: Peer) -> usize {
        all.table()
            .strangers()
            .filter(|visitor| visitor.peer == peer)
            .count()
    }

    /// Promise 73.
    #[test]
    fn strangers_of_one_peer_leave_all_others_their_places() {
        let all = Visitors::new(false);
        let viewer = all.enter(USER).unwrap();
        assert!(viewer.become_viewer());
        let _attack = enter(&all, USER, 1000);
        assert_eq!(strangers(&all, USER), MOST_STRANGERS_OF_A_PEER);
        let newest = all.enter(Peer::Uid(7)).unwrap();
        let _root = enter(&all, ROOT, 10);
        assert_eq!(strangers(&all, Peer::Uid(7)), 1);
        assert_eq!(strangers(&all, ROOT), 10);
        assert!(newest.become_viewer() && viewer.is_viewer());
        // Users without number: the newest has a place, and viewers stay.
        let _crowd: Vec<_> = (0..1000)
            .filter_map(|n| all.enter(Peer::Uid(n + 10)))
            .collect();
        assert_eq!(strangers(&all, ROOT), 10);
        assert_eq!(strangers(&all, Peer::Uid(1009)), 1);
        assert!(all.table().strangers().count() <= MOST_STRANGERS);
        assert!(viewer.is_viewer() && newest.is_viewer());
    }

    /// Promise 73.
    #[test]
    fn places_are_free_again_with_their_connections() {
        let all = Visitors::new(false);
        let places = enter(&all, ROOT, 10);
        assert!(places.iter().all(Place::become_viewer));
        let streams: Vec<_> = places.iter().filter_map(Place::begin_stream).collect();
        assert_eq!((streams.len(), all.table().streams.len()), (10, 10));
        drop((places, streams));
        let table = all.table();
        assert!(table.visitors.is_empty() && table.streams.is_empty());
    }

    /// Promise 73.
    #[test]
    fn viewers_are_bounded_and_a_user_leaves_places_to_others() {
        for (is_open, expected) in [(false, MOST_VIEWERS), (true, MOST_VIEWERS / 4 * 3)] {
            let all = Visitors::new(is_open);
            let mut viewers = Vec::new();
            while let Some(place) = all.enter(USER).filter(Place::become_viewer) {
                viewers.push(place);
            }
            assert_eq!(viewers.len(), expected);
            let streams: Vec<_> = viewers.iter().filter_map(Place::begin_stream).collect();
            assert_eq!(streams.len(), expected / 4);
            let other = all.enter(Peer::Uid(7)).unwrap();
            assert_eq!(other.become_viewer(), is_open);
            assert_eq!(other.begin_stream().is_some(), is_open);
        }
    }
}
