//! Received data that a thread in `epoll_wait` is told of, and reads where it lies: it saves the way
//! through the pair of sockets, a copy and a system call.
//!
//! Data is held only for a thread that waits in the connection's one epoll set, from when it is told
//! to when it reads. All else (another set's thread, the library's own, poll, a child, a read past the
//! library) finds it in the pair.

use super::{CONN, EDGES, Name, Pump};
use crate::table::Set;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Connections whose data is held.
#[derive(Default)]
pub struct HeldData {
    /// Of which the set's thread is still to be told.
    untold: Vec<Held>,
    /// Of which it was told.
    told: Vec<Held>,
}

/// One of them: the set in which the program waits for it, and since when it is held.
#[derive(Clone, Copy)]
struct Held {
    home: Set,
    name: Name,
    at: Instant,
}

impl HeldData {
    /// The connection's data is held from now on.
    pub fn add(&mut self, home: Set, name: Name) {
        let at = Instant::now();
        self.untold.push(Held { home, name, at });
    }

    /// Whether nothing is, or was until a moment ago.
    pub fn is_empty(&self) -> bool {
        self.untold.is_empty() && self.told.is_empty()
    }
}

impl Pump {
    /// Tells what is held in this set, as far as `tell` takes it.
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
                // The kernel tells.
                _ => self.give_up(held.name),
            }
        }
    }

    /// The set's thread waits again: data that it was told of and did not read goes through the pair,
    /// from now on.
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

    /// What has been held for so long goes through the pair.
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

    /// What is held for a connection goes through the pair.
    pub fn give_up(&mut self, name: Name) {
        if let Some(conn) = self.conns.get_mut(name)
            && conn.is_held
        {
            conn.deliver();
            self.watch_room(name);
        }
    }

    /// The program reads what is held for it; none: there is nothing.
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

    /// Watched for room only while there is none: each read of the program makes some.
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
