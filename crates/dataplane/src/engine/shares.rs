//! Fair shares of tables that several applications use.
//!
//! Each application is guaranteed a part of every table, even while it is not attached. Places
//! without a guarantee go to the first application that needs them. No application thus keeps
//! another from its guarantee, and a single application has the whole table.

use crate::policy::{MOST_CLIENTS, Shares, Transport};

/// Number of places of one table that each application uses. The tables themselves are elsewhere.
#[derive(Debug)]
pub(super) struct Pool {
    guaranteed: [u32; MOST_CLIENTS],
    used: [u32; MOST_CLIENTS],
    /// Places that are neither guaranteed nor taken.
    free: u32,
    /// Places that [`Pool::force`] took beyond the size of the table.
    forced: u32,
}

impl Pool {
    /// A pool for a table with `size` places.
    pub fn new(size: u32, shares: &Shares) -> Pool {
        let guaranteed = shares.of(size);
        Pool {
            free: size - guaranteed.iter().sum::<u32>(),
            guaranteed,
            used: [0; MOST_CLIENTS],
            forced: 0,
        }
    }

    /// Takes a place for an application. Returns false if it may have no more.
    #[inline]
    pub fn take(&mut self, client: u8) -> bool {
        let client = usize::from(client) % MOST_CLIENTS;
        let is_guaranteed = self.used[client] < self.guaranteed[client];
        if !is_guaranteed && self.free == 0 {
            return false;
        }
        self.free -= u32::from(!is_guaranteed);
        self.used[client] += 1;
        true
    }

    /// Takes a place that another core's table has granted.
    pub fn force(&mut self, client: u8) {
        if !self.take(client) {
            self.forced += 1;
            self.used[usize::from(client) % MOST_CLIENTS] += 1;
        }
    }

    /// Frees a place.
    #[inline]
    pub fn give(&mut self, client: u8) {
        let client = usize::from(client) % MOST_CLIENTS;
        self.used[client] -= 1;
        if self.used[client] < self.guaranteed[client] {
            return;
        }
        match self.forced.checked_sub(1) {
            Some(left) => self.forced = left,
            None => self.free += 1,
        }
    }
}

/// Pools of all tables of one core.
pub(super) struct Pools {
    pub connections: Pool,
    listeners: Pool,
    datagram_addresses: Pool,
    pub datagrams: Pool,
    pub timers: Pool,
}

impl Pools {
    pub fn new(limits: &cofferdam_netstack::Limits, shares: &Shares) -> Pools {
        Pools {
            connections: Pool::new(limits.connections, shares),
            listeners: Pool::new(limits.listeners, shares),
            datagram_addresses: Pool::new(limits.udp, shares),
            datagrams: Pool::new(limits.udp_sends, shares),
            timers: Pool::new(limits.timers, shares),
        }
    }

    /// Whether no place is taken.
    #[cfg(test)]
    pub fn is_untouched(&self) -> bool {
        let pools = [
            &self.connections,
            &self.listeners,
            &self.datagram_addresses,
            &self.datagrams,
            &self.timers,
        ];
        pools.iter().all(|pool| pool.used == [0; MOST_CLIENTS])
    }

    /// Pool of the table of bound addresses.
    pub fn addresses(&mut self, transport: Transport) -> &mut Pool {
        match transport {
            Transport::Tcp => &mut self.listeners,
            Transport::Udp => &mut self.datagram_addresses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(pool: &mut Pool, client: u8) -> u32 {
        (0..).take_while(|_| pool.take(client)).count() as u32
    }

    /// Promise 70.
    #[test]
    fn a_single_application_has_the_whole_table() {
        let mut pool = Pool::new(100, &Shares::equal(1));
        assert_eq!(takes(&mut pool, 0), 100);
    }

    /// Promise 70.
    #[test]
    fn a_guarantee_holds_whichever_application_came_first() {
        let mut pool = Pool::new(100, &Shares::equal(2));
        assert_eq!(takes(&mut pool, 0), 75);
        assert_eq!(takes(&mut pool, 1), 25);
        pool.give(0);
        assert_eq!((takes(&mut pool, 1), takes(&mut pool, 0)), (1, 0));
    }

    /// Promise 70.
    #[test]
    fn each_table_has_a_part_for_everyone() {
        let limits = cofferdam_netstack::Limits {
            connections: 100,
            listeners: 100,
            udp: 100,
            udp_sends: 100,
            timers: 100,
            ..cofferdam_netstack::Limits::default()
        };
        let mut pools = Pools::new(&limits, &Shares::equal(2));
        for (table, pool) in [
            ("connections", &mut pools.connections),
            ("listeners", &mut pools.listeners),
            ("UDP addresses", &mut pools.datagram_addresses),
            ("datagrams", &mut pools.datagrams),
            ("timers", &mut pools.timers),
        ] {
            assert_eq!((takes(pool, 0), takes(pool, 1)), (75, 25), "{table}");
        }
    }

    /// Any history: freed places can be taken, and no application gets less than its guarantee.
    /// Promise 70.
    #[test]
    fn places_are_neither_made_nor_lost() {
        let mut random = fastrand::Rng::with_seed(15);
        let shares = Shares::equal(5);
        for size in [0, 7, 64, 1000] {
            let mut pool = Pool::new(size, &shares);
            let mut taken = [0_u32; 5];
            for _ in 0..20_000 {
                let client = random.u8(0..5);
                let own = &mut taken[usize::from(client)];
                match random.u8(0..16) {
                    0..9 if pool.take(client) => *own += 1,
                    0..9 => assert!(*own >= shares.of(size)[usize::from(client)]),
                    9 => {
                        pool.force(client);
                        *own += 1;
                    }
                    _ if *own > 0 => {
                        pool.give(client);
                        *own -= 1;
                    }
                    _ => {}
                }
            }
            for (client, taken) in (0..).zip(taken) {
                (0..taken).for_each(|_| pool.give(client));
            }
            let all: u32 = (0..5).map(|client| takes(&mut pool, client)).sum();
            assert_eq!(all, size);
        }
    }
}
