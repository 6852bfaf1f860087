//! Sending of the program's datagrams: chooses the source address, and the session or the kernel.

use super::SendOutcome;
use crate::heading::Heading;
use crate::pump::{Name, Pump};
use crate::udp::{Peer, State};
use cofferdam_bsd::Result;
use cofferdam_dataplane::{BoundAddress, LARGEST_DATAGRAM_BYTES, Session};
use nix::errno::Errno;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

impl Pump {
    /// Sends a datagram of the program to `to` or the peer, from `source` if that is given.
    ///
    /// # Errors
    ///
    /// See `sendto(2)`.
    pub fn udp_send(
        &mut self,
        (name, inode): (Name, u64),
        parts: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        source: Option<IpAddr>,
    ) -> Result<SendOutcome> {
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return Err(Errno::EBADF);
        };
        if socket.inode != inode {
            return Err(Errno::EBADF);
        }
        let state = socket.shown.with(|state| *state);
        let (remote, is_kernels) = match (to, state.peer) {
            (Some(to), _) => (to, self.is_kernels(name, &state, to, source)),
            (None, Some(peer)) => (peer.remote, peer.is_kernels),
            (None, None) => return Err(Errno::EDESTADDRREQ),
        };
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return Err(Errno::EBADF);
        };
        if is_kernels {
            return Ok(SendOutcome::Kernel(socket.kernel.as_raw_fd()));
        }
        let served = &self.served;
        if self.session.is_none() {
            return Err(Errno::ENETDOWN);
        }
        if remote.port() == 0 {
            return Err(Errno::EINVAL);
        }
        if !served.reaches(remote.ip()) || served.is_broadcast(remote.ip()) {
            return Err(Errno::ENETUNREACH);
        }
        if served.is_own(remote.ip()) {
            return Err(Errno::EHOSTUNREACH);
        }
        let own = [state.ip, state.peer.map_or(state.ip, |peer| peer.local)];
        let own = own.into_iter().find(|ip| !ip.is_unspecified());
        let source = source.or(own);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let most = served.most_datagram_bytes(source, remote.ip());
        if len > most.min(LARGEST_DATAGRAM_BYTES) {
            return Err(Errno::EMSGSIZE);
        }
        let Some(bound) = socket.address_for(remote.ip(), source) else {
            return Ok(SendOutcome::NeedsAddress(remote.ip()));
        };
        let heading = Heading {
            remote,
            local: source.unwrap_or(crate::calls::any(remote.is_ipv6())),
            interface: 0,
            scope: 0,
            error: 0,
        };
        if socket.has_spilled {
            return Ok(SendOutcome::Pair(heading));
        }
        if !self.has_room() {
            self.process_all();
        }
        match self.hand_over(bound, source, remote, parts) {
            true => Ok(SendOutcome::Done),
            false => {
                if let Some(socket) = self.udp.sockets.get_mut(name) {
                    socket.has_spilled = true;
                }
                Ok(SendOutcome::Pair(heading))
            }
        }
    }

    pub(super) fn has_room(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(Session::has_room_for_datagram)
    }

    fn hand_over(
        &mut self,
        bound: BoundAddress,
        source: Option<IpAddr>,
        remote: SocketAddr,
        parts: &[IoSlice<'_>],
    ) -> bool {
        let Some(session) = self.session.as_mut() else {
            return false;
        };
        if !session.has_room_for_datagram() {
            return false;
        }
        let sent = match parts {
            [one] => session.send_datagram_from(bound, source, remote, one),
            [] => session.send_datagram_from(bound, source, remote, &[]),
            several => {
                let mut whole = 0;
                for part in several {
                    if let Some(place) = self.buffer.get_mut(whole..whole + part.len()) {
                        place.copy_from_slice(part);
                        whole += part.len();
                    }
                }
                session.send_datagram_from(bound, source, remote, &self.buffer[..whole])
            }
        };
        session.flush();
        sent
    }

    /// Whether the kernel sends a datagram to an address.
    pub(super) fn is_kernels(
        &mut self,
        name: Name,
        state: &State,
        remote: SocketAddr,
        source: Option<IpAddr>,
    ) -> bool {
        let served = &self.served;
        if let Some(source) = source {
            return !served.is_own(source);
        }
        if !state.ip.is_unspecified() {
            return !served.is_own(state.ip);
        }
        let ip = remote.ip();
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return true;
        };
        let is_placed = socket.address_for(ip, None).is_some();
        let is_served = served.reaches(ip) && !served.is_broadcast(ip);
        !is_served || socket.uses_kernel(remote) || !is_placed && !served.connect
    }

    /// Peer that a socket would have after a connect to an address.
    pub fn udp_peer_for(&mut self, name: Name, remote: SocketAddr) -> Option<Peer> {
        let socket = self.udp.sockets.get_mut(name)?;
        let state = socket.shown.with(|state| State {
            peer: None,
            ..*state
        });
        let is_kernels = self.is_kernels(name, &state, remote, None);
        let local = match state.ip.is_unspecified() {
            true => self.served.local_for(remote.ip()).unwrap_or(state.ip),
            false => state.ip,
        };
        Some(Peer {
            remote,
            local,
            is_kernels,
        })
    }
}
