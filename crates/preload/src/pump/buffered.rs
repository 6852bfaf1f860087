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
pub struct BufferedData {
    /// Connections that are not reported to their set's thread yet.
    unreported: Vec<BufferedConnection>,
    /// Connections that were reported.
    reported: Vec<BufferedConnection>,
}

/// Connection with buffered data, the program's epoll set, and the start time.
#[derive(Clone, Copy)]
struct BufferedConnection {
    home: Set,
    name: Name,
    at: Instant,
}

impl BufferedData {
    /// Adds a connection whose data is buffered from now on.
    pub fn add(&mut self, home: Set, name: Name) {
        let at = Instant::now();
        self.unreported.push(BufferedConnection { home, name, at });
    }

    /// Whether no connection has buffered data, or had a moment ago.
    pub fn is_empty(&self) -> bool {
        self.unreported.is_empty() && self.reported.is_empty()
    }
}

impl Pump {
    /// Reports the connections of this set as far as `tell` accepts them.
    pub fn report_buffered(&mut self, home: Set, mut tell: impl FnMut(u64) -> bool) {
        let unreported = std::mem::take(&mut self.buffered.unreported);
        for buffered in unreported {
            if buffered.home != home {
                self.buffered.unreported.push(buffered);
                continue;
            }
            let conn = self.conns.get_mut(buffered.name);
            let Some(conn) = conn.filter(|conn| conn.is_buffered) else {
                continue;
            };
            match conn.shown().in_set(home) {
                Some(data) if tell(data) => self.buffered.reported.push(buffered),
                // The kernel reports the connection.
                _ => self.deliver(buffered.name),
            }
        }
    }

    /// Moves data to the pair that was reported to the set's thread and that it did not read before
    /// its next wait. From now on the connection's data is not buffered.
    pub fn deliver_reported(&mut self, home: Set) {
        let reported = std::mem::take(&mut self.buffered.reported);
        for buffered in reported {
            let conn = self.conns.get_mut(buffered.name);
            match conn.filter(|conn| conn.is_buffered) {
                Some(_) if buffered.home != home => self.buffered.reported.push(buffered),
                Some(conn) => {
                    conn.shown().stop_buffering();
                    self.deliver(buffered.name);
                }
                None => {}
            }
        }
    }

    /// Moves data to the pair that was buffered for `least` or longer.
    pub fn deliver_buffered(&mut self, least: Duration) {
        let BufferedData {
            unreported,
            reported,
        } = std::mem::take(&mut self.buffered);
        let (mut old, mut remaining) = (Vec::new(), BufferedData::default());
        for (all, remaining) in [
            (unreported, &mut remaining.unreported),
            (reported, &mut remaining.reported),
        ] {
            for buffered in all {
                match buffered.at.elapsed() >= least {
                    true => old.push(buffered.name),
                    false => remaining.push(buffered),
                }
            }
        }
        self.buffered = remaining;
        old.into_iter().for_each(|name| self.deliver(name));
    }

    /// Moves the buffered data of a connection to the pair.
    pub fn deliver(&mut self, name: Name) {
        if let Some(conn) = self.conns.get_mut(name)
            && conn.is_buffered
        {
            conn.deliver();
            self.watch_for_space(name);
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
        self.watch_for_space(name);
        self.dirty.push(name);
        Some(taken)
    }

    /// Watches the library's end for space only while it is full: each read of the program frees
    /// some.
    fn watch_for_space(&mut self, name: Name) {
        if let Some(conn) = self.conns.get_mut(name)
            && conn.is_full
        {
            let fd = conn.end().as_raw_fd();
            let events = EDGES | libc::EPOLLOUT;
            self.control(libc::EPOLL_CTL_MOD, fd, events, CONN | name);
        }
    }
}
