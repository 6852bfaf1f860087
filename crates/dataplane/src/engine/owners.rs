//! Which application has which connection, and how much of its memory the stack refers to.

use cofferdam_netstack::ConnectionId;

/// A connection's owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owner {
    /// The connection's name in the stack; 0 when the place is free.
    id: u64,
    /// Its name for applications and other cores.
    pub handle: u64,
    pub domain: u8,
    pub cookie: u64,
    /// Bytes handed to the stack since it opened.
    pub sent_bytes: u64,
    /// Ranges of its application's memory that the stack refers to.
    pub ranges: u32,
}

impl Owner {
    pub fn sent(&mut self, bytes: u32) {
        self.sent_bytes += u64::from(bytes);
        self.ranges += 1;
    }
}

/// All connections' owners, by place in the stack's table.
pub(super) struct Owners(Vec<Owner>);

impl Owners {
    pub fn new(connections: u32) -> Owners {
        Owners(vec![Owner::default(); connections as usize])
    }

    /// Gives a connection to an application.
    pub fn set(&mut self, connection: ConnectionId, handle: u64, domain: u8, cookie: u64) {
        let owner = Owner {
            handle,
            domain,
            cookie,
            ..Owner::default()
        };
        self.put(connection, owner);
    }

    /// Gives a connection that came from another core to its owner.
    pub fn put(&mut self, connection: ConnectionId, owner: Owner) {
        if let Some(place) = self.0.get_mut(connection.slot() as usize) {
            let id = connection.to_bits();
            *place = Owner { id, ..owner };
        }
    }

    /// Whether a connection has this name.
    pub fn has(&self, connection: ConnectionId, handle: u64) -> bool {
        let place = self.0.get(connection.slot() as usize);
        place.is_some_and(|o| o.id == connection.to_bits() && o.id != 0 && o.handle == handle)
    }

    /// The owner of a connection; `None` when it has ended.
    pub fn get_mut(&mut self, connection: ConnectionId) -> Option<&mut Owner> {
        let place = self.0.get_mut(connection.slot() as usize)?;
        (place.id == connection.to_bits() && place.id != 0).then_some(place)
    }

    /// How many connections have an owner.
    #[cfg(test)]
    pub fn of_all(&self) -> usize {
        self.0.iter().filter(|o| o.id != 0).count()
    }

    /// The names of all connections.
    #[cfg(test)]
    pub fn handles(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().filter(|o| o.id != 0).map(|o| o.handle)
    }

    /// Forgets a connection; what was known of it.
    pub fn remove(&mut self, connection: ConnectionId) -> Option<Owner> {
        self.get_mut(connection).map(std::mem::take)
    }

    /// At most `most` connections of one application, found in at most `most_places` places of the
    /// table from one on; and the place where the next look begins.
    pub fn some_of(
        &self,
        domain: u8,
        from: usize,
        most_places: usize,
        most: usize,
    ) -> (Vec<ConnectionId>, usize) {
        let end = from.saturating_add(most_places).min(self.0.len());
        let places = self.0.get(from..end).unwrap_or_default();
        let mut own = Vec::with_capacity(most);
        for (place, owner) in (from..).zip(places) {
            if own.len() == most {
                return (own, place);
            }
            if owner.id != 0 && owner.domain == domain {
                own.push(ConnectionId::from_bits(owner.id));
            }
        }
        (own, if end < self.0.len() { end } else { 0 })
    }
}
