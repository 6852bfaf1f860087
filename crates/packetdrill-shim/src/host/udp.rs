//! System calls on UDP sockets.

use super::datagrams::{Arrival, Datagrams, Message, address_message, requested_address};
use super::errors::{Result, bind_failure, send_failure};
use super::sending::Flags;
use super::{Host, Role};
use crate::control::Control;
use cofferdam_netstack::{BindError, BufferId, Chunk, UdpId};
use nix::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Start of the search for a free port (IANA's dynamic ports).
pub(super) const FIRST_PORT: u16 = 49_152;

impl Host {
    fn datagrams_of(&mut self, file: i32) -> Result<&mut Datagrams> {
        match &mut self.socket_of(file)?.role {
            Role::Datagrams(datagrams) => Ok(datagrams),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Whether a file is a UDP socket.
    pub fn is_datagrams(&mut self, file: i32) -> bool {
        self.datagrams_of(file).is_ok()
    }

    /// Binds a UDP socket, to a free port if the address names none.
    pub(super) fn bind_datagrams(&mut self, file: i32, address: SocketAddr) -> Result<()> {
        let free = (FIRST_PORT..=u16::MAX).filter(|_| address.port() == 0);
        let ports = free.chain((address.port() != 0).then_some(address.port()));
        let mut failure = Errno::EADDRINUSE;
        for port in ports {
            let at = SocketAddr::new(address.ip(), port);
            match self.stack.udp_bind(at, file as u64) {
                Ok(id) => {
                    self.socket_of(file)?.local = Some(at);
                    self.datagrams_of(file)?.id = Some(id);
                    return Ok(());
                }
                Err(BindError::InUse(_)) => {}
                Err(other) => {
                    failure = bind_failure(other);
                    break;
                }
            }
        }
        Err(failure)
    }

    /// Identifier of the socket in the stack. Binds it to an address of the family of `to` if
    /// necessary.
    fn bound(&mut self, file: i32, to: SocketAddr) -> Result<UdpId> {
        if let Some(id) = self.datagrams_of(file)?.id {
            return Ok(id);
        }
        let any = match to {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        self.bind_datagrams(file, SocketAddr::new(any, 0))?;
        self.datagrams_of(file)?.id.ok_or(Errno::EBADF)
    }

    /// Sets the peer; datagrams from others are ignored from now on.
    pub(super) fn connect_datagrams(&mut self, file: i32, remote: SocketAddr) -> Result<()> {
        self.bound(file, remote)?;
        self.datagrams_of(file)?.remote = Some(remote);
        Ok(())
    }

    /// Sends a datagram to `to`, or to the socket's peer if `to` is `None`.
    ///
    /// # Errors
    /// `EDESTADDRREQ` without a peer, `EMSGSIZE` if it does not fit the path; otherwise as
    /// `sendto(2)`.
    pub fn send_datagram(
        &mut self,
        file: i32,
        bytes: &[u8],
        to: Option<SocketAddr>,
        control: &[Control],
    ) -> Result<usize> {
        let now = self.now;
        let is_v6 = self.socket_of(file)?.is_v6;
        let peer = self.datagrams_of(file)?.remote;
        let to = to.or(peer).ok_or(Errno::EDESTADDRREQ)?;
        if to.is_ipv6() && !is_v6 {
            return Err(Errno::EAFNOSUPPORT);
        }
        let from = requested_address(control)?;
        let id = self.bound(file, to)?;
        let chunk = self.buffers.data(bytes);
        let BufferId(token) = chunk.buffer;
        if let Err(error) = self.stack.udp_sendv(now, id, from, to, &[chunk], token) {
            self.buffers.free(chunk.buffer);
            return Err(send_failure(error));
        }
        self.datagrams_of(file)?.sending.push(chunk.buffer);
        self.turn();
        Ok(bytes.len())
    }

    /// Frees a datagram that the stack has sent or dropped.
    pub(super) fn datagram_sent(&mut self, file: i32, buffer: BufferId) {
        if let Ok(datagrams) = self.datagrams_of(file) {
            // The buffer may belong to a closed socket that had the same number.
            let index = datagrams.sending.iter().position(|other| *other == buffer);
            if let Some(index) = index {
                datagrams.sending.remove(index);
                self.buffers.free(buffer);
            }
        }
    }

    /// Queues a received datagram. A connected socket accepts only those of its peer.
    pub(super) fn datagram_came(
        &mut self,
        file: i32,
        (udp, chunk): (UdpId, Chunk),
        remote: SocketAddr,
        local: IpAddr,
    ) {
        let socket = self.datagrams_of(file).ok();
        match socket.filter(|socket| socket.remote.is_none_or(|peer| peer == remote)) {
            Some(socket) => {
                socket.arrive(Arrival {
                    chunk,
                    remote,
                    local,
                });
            }
            None => {
                self.buffers.free(chunk.buffer);
                self.stack.udp_recv_done(udp, 1);
            }
        }
    }

    /// Reads the next message of a UDP or TCP socket, up to `most` bytes, or peeks at it.
    ///
    /// # Errors
    /// `EAGAIN` if there is nothing yet; otherwise as `recvmsg(2)`.
    pub fn receive_message(&mut self, file: i32, most: usize, flags: Flags) -> Result<Message> {
        let peek = flags.peek;
        if flags.errors {
            return self.next_notice(file, most);
        }
        if flags.urgent {
            return self.urgent_message(file, most, peek);
        }
        if !matches!(self.socket_of(file)?.role, Role::Datagrams(_)) {
            let bytes = self.read(file, most, peek)?;
            let control = self.queue_message(file)?.into_iter().collect();
            return Ok(Message {
                reported: bytes.len(),
                whole_bytes: bytes.len(),
                bytes,
                control,
                ..Message::default()
            });
        }
        let datagrams = self.datagrams_of(file)?;
        let next = *datagrams.arrived.front().ok_or(Errno::EAGAIN)?;
        if !peek {
            datagrams.arrived.pop_front();
        }
        let control = datagrams.tells_address.then(|| address_message(next.local));
        let id = datagrams.id;
        let whole = self.buffers.read(next.chunk);
        let message = Message {
            bytes: whole[..whole.len().min(most)].to_vec(),
            reported: whole.len().min(most),
            whole_bytes: whole.len(),
            is_cut: whole.len() > most,
            is_error: false,
            from: Some(next.remote),
            control: control.into_iter().collect(),
        };
        if !peek {
            self.buffers.free(next.chunk.buffer);
            if let Some(id) = id {
                self.stack.udp_recv_done(id, 1);
            }
        }
        Ok(message)
    }

    /// Releases the resources of a UDP socket.
    pub(super) fn close_datagrams(&mut self, datagrams: Datagrams) {
        for arrival in datagrams.arrived {
            self.buffers.free(arrival.chunk.buffer);
        }
        for buffer in datagrams.sending {
            self.buffers.free(buffer);
        }
        if let Some(id) = datagrams.id {
            self.stack.udp_unbind(id);
        }
    }
}
