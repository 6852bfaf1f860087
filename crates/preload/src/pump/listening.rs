//! Listeners: their addresses at the dataplane.

use super::listener::{Listener, Source};
use super::{LISTENER, Name, Pump, SOURCE};
use crate::internal::Internal;
use crate::table::{self, ListenerState};
use cofferdam_bsd::Result;
use cofferdam_dataplane::{BoundAddress, Refusal, Sharing};
use nix::errno::Errno;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

impl Pump {
    /// Binds an address of a listener; [`Pump::answer`] returns the answer.
    pub(super) fn listen_at(
        &mut self,
        listener: Name,
        local: SocketAddr,
        backlog: u32,
        is_standby: bool,
    ) -> Option<BoundAddress> {
        let session = self.session.as_mut()?;
        let group = self.listeners.get_mut(listener)?.shown.group;
        let bound = session.listen_shared(local, backlog, Sharing { group, is_standby });
        session.flush();
        self.of_bound.insert(bound, listener);
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.bounds.push((bound, local));
        }
        Some(bound)
    }

    /// Binds an address of a listener; see [`Pump::listen_at`].
    pub fn ask(
        &mut self,
        listener: Name,
        local: SocketAddr,
        backlog: u32,
        is_standby: bool,
    ) -> Result<BoundAddress> {
        self.listen_at(listener, local, backlog, is_standby)
            .ok_or(Errno::ENETDOWN)
    }

    /// Takes the dataplane's answer.
    pub fn answer(&mut self, bound: BoundAddress) -> Option<std::result::Result<(), Refusal>> {
        self.answers.remove(&bound)
    }

    /// Adds a listener that has no address yet.
    pub fn add_listener(
        &mut self,
        (ours, inode): (OwnedFd, u64),
        shown: Arc<ListenerState>,
        source: Option<Source<OwnedFd>>,
        (is_v6, backlog): (bool, u32),
    ) -> Result<Name> {
        let end = Internal::new(ours)?;
        let source = source
            .map(|source| source.try_map(Internal::new))
            .transpose()?;
        let (fd, source_fd) = (end.as_raw_fd(), source.as_ref().map(Source::fd));
        let name = self
            .listeners
            .add(|_| Listener::new(end, inode, shown, source, (is_v6, backlog)));
        let edges = libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.watch(fd, edges, LISTENER | name);
        if let Some(fd) = source_fd {
            let edges = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
            self.watch(fd, edges, SOURCE | name);
        }
        Ok(name)
    }

    /// Starts to take connections from the listener's additional source.
    pub fn source_ready(&mut self, name: Name) {
        if let Some(listener) = self.listeners.get_mut(name) {
            listener.source_ready();
        }
    }

    /// Drops listeners and UDP sockets that the program has closed, which frees their addresses for
    /// the next bind.
    pub fn sweep(&mut self) {
        for name in self.listeners.names() {
            let listener = self.listeners.get_mut(name);
            if listener.is_some_and(|listener| listener.is_closed()) {
                self.drop_listener(name);
            }
        }
        self.udp_sweep();
        self.process_all();
    }

    /// Drops a listener and frees its addresses.
    pub fn drop_listener(&mut self, name: Name) {
        let Some(listener) = self.listeners.remove(name) else {
            return;
        };
        table::remove(listener.inode);
        for (bound, _) in &listener.bounds {
            self.of_bound.remove(bound);
            if let Some(session) = &mut self.session {
                session.unbind(*bound);
            }
        }
    }
}
