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
    /// Bytes handed to the stack, and acknowledged, since it opened.
    pub sent_bytes: u64,
    pub acknowledged_bytes: u64,
    /// Ranges handed over up to `mark_bytes` that may not be acknowledged, and since then.
    /// The stack tells bytes, not ranges; two counts that move on bound the ranges from above.
    older: u32,
    newer: u32,
    mark_bytes: u64,
}

impl Owner {
    /// Ranges that the stack may refer to, counted high.
    pub fn chunks(&self) -> u32 {
        self.older + self.newer
    }

    pub fn sent(&mut self, bytes: u32) {
        self.sent_bytes += u64::from(bytes);
        self.newer += 1;
    }

    /// Counts acknowledged bytes; returns the ranges that are certainly free.
    pub fn acknowledged(&mut self, bytes: u32) -> u32 {
        self.acknowledged_bytes += u64::from(bytes);
        let mut freed = 0;
        while self.acknowledged_bytes >= self.mark_bytes && self.chunks() > 0 {
            freed += self.older;
            self.older = self.newer;
            self.newer = 0;
            self.mark_bytes = self.sent_bytes;
        }
        freed
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

    /// The names of all connections.
    #[cfg(test)]
    pub fn handles(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().filter(|o| o.id != 0).map(|o| o.handle)
    }

    /// Forgets a connection; what was known of it.
    pub fn remove(&mut self, connection: ConnectionId) -> Option<Owner> {
        self.get_mut(connection).map(std::mem::take)
    }

    /// The connections of one application.
    pub fn of(&self, domain: u8) -> impl Iterator<Item = ConnectionId> + '_ {
        let own = move |o: &&Owner| o.id != 0 && o.domain == domain;
        self.0
            .iter()
            .filter(own)
            .map(|o| ConnectionId::from_bits(o.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_never_counted_low_and_are_zero_when_all_is_acknowledged() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut owner = Owner::default();
            let mut real = std::collections::VecDeque::new();
            let (mut counted, mut pending) = (0, 0_u64);
            for _ in 0..500 {
                if random.bool() {
                    let len = random.u32(1..3000);
                    owner.sent(len);
                    real.push_back(len);
                    counted += 1;
                    pending += u64::from(len);
                } else if pending > 0 {
                    let bytes = random.u64(1..=pending) as u32;
                    pending -= u64::from(bytes);
                    counted -= owner.acknowledged(bytes);
                    let mut left = bytes;
                    while let Some(front) = real.front_mut() {
                        let cut = left.min(*front);
                        *front -= cut;
                        left -= cut;
                        if *front > 0 {
                            break;
                        }
                        real.pop_front();
                    }
                }
                assert_eq!(counted, owner.chunks());
                assert!(counted as usize >= real.len(), "{counted} < {}", real.len());
            }
            if pending > 0 {
                counted -= owner.acknowledged(pending as u32);
            }
            assert_eq!(counted, 0);
        }
    }
}
