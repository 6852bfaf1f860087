//! Readiness: `poll` and `epoll`.

use super::errors::Result;
use super::interest::{ALWAYS, Interest};
use super::{File, Host, Role};
use nix::errno::Errno;
use std::collections::BTreeMap;

/// EPOLLIN and EPOLLOUT imply EPOLLRDNORM and EPOLLWRNORM.
const fn with_aliases(ready: i32) -> i32 {
    ready | ((ready & (libc::EPOLLIN | libc::EPOLLOUT)) << 6)
}

impl Host {
    /// Readiness of a file in `EPOLL` bits, which are also `poll`'s, and its number of changes so
    /// far.
    fn ready(&self, file: i32) -> Result<(i32, u64)> {
        let File::Socket(socket) = self.files.get(&file).ok_or(Errno::EBADF)? else {
            return Err(Errno::EINVAL);
        };
        let bits = match &socket.role {
            Role::Fresh if socket.deferred.is_some() => {
                return Ok((with_aliases(libc::EPOLLOUT), 0));
            }
            Role::Fresh => return Ok((libc::EPOLLOUT | libc::EPOLLHUP, 0)),
            Role::Listening { waiting, news, .. } => {
                let ready = if waiting.is_empty() { 0 } else { libc::EPOLLIN };
                return Ok((ready, *news));
            }
            Role::Datagrams(datagrams) => {
                let (ready, news) = datagrams.ready();
                return Ok((with_aliases(ready), news));
            }
            Role::Connection(bits) => bits,
        };
        let conn = self.connections.get(bits).ok_or(Errno::EBADF)?;
        let ended = conn.ended.is_some();
        let mut ready = 0;
        let mut add = |condition: bool, bit: i32| ready |= if condition { bit } else { 0 };
        let no_more = conn.peer_has_closed || conn.shut_read || ended;
        let enough = conn.unread_bytes() >= socket.settings.least_readable_bytes();
        add(enough || no_more, libc::EPOLLIN);
        add(no_more, libc::EPOLLRDHUP);
        add(conn.has_urgent(), libc::EPOLLPRI);
        let takes = conn.is_open && self.is_writable(*bits, &socket.settings);
        add(takes || conn.shut_write || ended, libc::EPOLLOUT);
        add(ended || (no_more && conn.shut_write), libc::EPOLLHUP);
        add(
            conn.error.is_some() || !conn.notices.is_empty(),
            libc::EPOLLERR,
        );
        Ok((with_aliases(ready), conn.news))
    }

    /// Events of one `poll` entry: those of `events` that are ready.
    pub fn poll(&self, file: i32, events: i16) -> i16 {
        if file < 0 {
            return 0;
        }
        match self.ready(file) {
            Ok((ready, _)) => (ready & (i32::from(events) | ALWAYS)) as i16,
            Err(_) => libc::POLLNVAL,
        }
    }

    /// Creates an epoll file.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn epoll_create(&mut self) -> Result<i32> {
        self.add_file(File::Epoll(BTreeMap::new()))
    }

    fn interests(&mut self, epoll: i32) -> Result<&mut BTreeMap<i32, Interest>> {
        match self.files.get_mut(&epoll) {
            Some(File::Epoll(interests)) => Ok(interests),
            Some(_) => Err(Errno::EINVAL),
            None => Err(Errno::EBADF),
        }
    }

    /// Adds, changes or removes an entry of the interest list. `wanted` holds the events and data
    /// of `struct epoll_event`.
    ///
    /// # Errors
    /// The errors of `epoll_ctl(2)`.
    pub fn epoll_control(
        &mut self,
        epoll: i32,
        operation: i32,
        file: i32,
        wanted: Option<(u32, u64)>,
    ) -> Result<()> {
        if !self.files.contains_key(&file) {
            return Err(Errno::EBADF);
        }
        if matches!(self.files.get(&file), Some(File::Epoll(_))) {
            return Err(Errno::EINVAL);
        }
        let interests = self.interests(epoll)?;
        let is_there = interests.contains_key(&file);
        match operation {
            libc::EPOLL_CTL_ADD if is_there => return Err(Errno::EEXIST),
            libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL if !is_there => return Err(Errno::ENOENT),
            libc::EPOLL_CTL_DEL => {
                interests.remove(&file);
            }
            libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {
                let (events, data) = wanted.ok_or(Errno::EFAULT)?;
                interests.insert(file, Interest::new(events, data));
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// Events and data of up to `most` ready files.
    ///
    /// # Errors
    /// `EAGAIN` if none is ready; `EINVAL` if this is no epoll file.
    pub fn epoll_ready(&mut self, epoll: i32, most: usize) -> Result<Vec<(u32, u64)>> {
        let watched = self.interests(epoll)?.clone();
        let mut found = Vec::new();
        for (file, mut interest) in watched {
            let Ok((ready, news)) = self.ready(file) else {
                continue;
            };
            if found.len() == most {
                break;
            }
            if let Some(report) = interest.report(ready, news) {
                found.push(report);
                self.interests(epoll)?.insert(file, interest);
            }
        }
        if found.is_empty() {
            return Err(Errno::EAGAIN);
        }
        Ok(found)
    }
}
