//! Received data that the library reports to a thread in `epoll_wait`, and that the thread then
//! copies from the dataplane's memory. This saves a copy and a system call compared with the pair.
//!
//! The library buffers data only for a thread that waits in the connection's one epoll set, from
//! the report to the read. All others (another set's thread, the library's own thread, poll, a
//! child, a read that bypasses the library) find the data in the pair.

use super::{CONN, EDGES, Name, Pump};
use crate::table::Set;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Connections with buffered data.
#[derive(Default)]
pub struct HeldData {
    /// Connections that are not reported to their set's thread yet.
    untold: Vec<Held>,
    /// Connections that were reported.
    told: Vec<Held>,
}

/// Connection with buffered data, the program's epoll set, and the start time.
#[derive(Clone, Copy)]
struct Held {
    home: Set,
    name: Name,
    at: Instant,
}

impl HeldData {
    /// Adds a connection whose data is buffered from now on.
    pub fn add(&mut self, home: Set, name: Name) {
        let at = Instant::now();
        self.untold.push(Held { home, name, at });
    }

    /// Whether no connection has buffered data, or had a moment ago.
    pub fn is_empty(&self) -> bool {
        self.untold.is_empty() && self.told.is_empty()
    }
}

impl Pump {
    /// Reports the connections of this set as far as `tell` accepts them.
    pub fn tell_held(&mut self, home: Set, mut tell: impl FnMut(u64) -> bool) {
        let untold = std::mem::take(&mut self.held.untold);
        for held in untold {
            if held.home != home {
                self.held.untold.push(held);
                continue;
            }
            let conn = self.conns.get_mut(held.name);
            let Some(conn) = conn.filter(|conn| conn.is_held) else {
                continue;
            };
            match conn.shown().in_set(home) {
                Some(data) if tell(data) => self.held.told.push(held),
                // The kernel reports the connection.
                _ => self.give_up(held.name),
            }
        }
    }

    /// Moves data to the pair that was reported to the set's thread and that it did not read before
    /// its next wait. From now on the connection's data is not buffered.
    pub fn give_up_told(&mut self, home: Set) {
        let told = std::mem::take(&mut self.held.told);
        for held in told {
            let conn = self.conns.get_mut(held.name);
            match conn.filter(|conn| conn.is_held) {
                Some(_) if held.home != home => self.held.told.push(held),
                Some(conn) => {
                    conn.shown().reads_elsewhere();
                    self.give_up(held.name);
                }
                None => {}
            }
        }
    }

    /// Moves data to the pair that was buffered for `least` or longer.
    pub fn give_up_held(&mut self, least: Duration) {
        let HeldData { untold, told } = std::mem::take(&mut self.held);
        let (mut old, mut kept) = (Vec::new(), HeldData::default());
        for (all, kept) in [(untold, &mut kept.untold), (told, &mut kept.told)] {
            for held in all {
                match held.at.elapsed() >= least {
                    true => old.push(held.name),
                    false => kept.push(held),
                }
            }
        }
        self.held = kept;
        old.into_iter().for_each(|name| self.give_up(name));
    }

    /// Moves the buffered data of a connection to the pair.
    pub fn give_up(&mut self, name: Name) {
        if let Some(conn) = self.conns.get_mut(name)
            && conn.is_held
        {
            conn.deliver();
            self.watch_room(name);
        }
    }

    /// Copies buffered data to the program; `None` if there is none.
    pub fn receive(
        &mut self,
        name: Name,
        inode: u64,
        parts: &mut [IoSliceMut<'_>],
    ) -> Option<usize> {
        let taken = self.conns.get_mut(name)?.take(inode, parts)?;
        self.watch_room(name);
        self.dirty.push(name);
        Some(taken)
    }

    /// Watches the library's end for space only while it is full: each read of the program frees
    /// some.
    fn watch_room(&mut self, name: Name) {
        if let Some(conn) = self.conns.get_mut(name)
            && conn.is_full
        {
            let fd = conn.end().as_raw_fd();
            let events = EDGES | libc::EPOLLOUT;
            self.control(libc::EPOLL_CTL_MOD, fd, events, CONN | name);
        }
    }
}
