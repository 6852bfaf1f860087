//! Socket options. One that would have no effect here is refused, not swallowed.

use super::errors::Result;
use super::{File, Host, Role};
use crate::control::Control;
use nix::errno::Errno;
use std::net::SocketAddr;

/// linux/tcp.h; the message has the option's number (TCP_CM_INQ).
const TCP_INQ: i32 = 36;

impl Host {
    /// An option's value, as `getsockopt` lays it out.
    ///
    /// # Errors
    /// `ENOPROTOOPT` for one that is not done here.
    pub fn option(&mut self, file: i32, level: i32, name: i32) -> Result<Vec<u8>> {
        let nagle = self.stack.config().tcp.nagle;
        let socket = self.socket_of(file)?;
        let value = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = match self.connection_of(file) {
                    Ok(place) => place.error.take(),
                    Err(_) => None,
                };
                error.map_or(0, |error| error as i32)
            }
            (libc::SOL_SOCKET, libc::SO_TYPE) => match socket.role {
                Role::Datagrams(_) => libc::SOCK_DGRAM,
                _ => libc::SOCK_STREAM,
            },
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => socket.reuse_address.into(),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                matches!(socket.role, Role::Listening { .. }).into()
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let on = i32::from(socket.close_resets);
                return Ok([on.to_ne_bytes(), 0_i32.to_ne_bytes()].concat());
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) | (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
                match &socket.role {
                    Role::Datagrams(datagrams) => datagrams.tells_address.into(),
                    _ => return Err(Errno::ENOPROTOOPT),
                }
            }
            (libc::IPPROTO_TCP, _) if matches!(socket.role, Role::Datagrams(_)) => {
                return Err(Errno::EOPNOTSUPP);
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => (!nagle).into(),
            (libc::IPPROTO_TCP, TCP_INQ) => socket.tells_queue.into(),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => return self.tcp_info(file),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                let id = self.connection_of(file)?.id;
                let info = self.stack.connection(id).ok_or(Errno::ENOTCONN)?;
                info.mss_bytes as i32
            }
            _ => return Err(Errno::ENOPROTOOPT),
        };
        Ok(value.to_ne_bytes().to_vec())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// `EINVAL` for a value of the wrong size; `ENOPROTOOPT` for an option that is not done here;
    /// `EOPNOTSUPP` where the setting is the whole stack's (`--so_flags`) and is another.
    pub fn set_option(&mut self, file: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let nagle = self.stack.config().tcp.nagle;
        let socket = self.socket_of(file)?;
        let (first, rest) = value.split_first_chunk().ok_or(Errno::EINVAL)?;
        let first = i32::from_ne_bytes(*first);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => socket.reuse_address = first != 0,
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = rest.first_chunk().ok_or(Errno::EINVAL)?;
                // Close never waits here: only the time of zero differs.
                socket.close_resets = first != 0 && i32::from_ne_bytes(*seconds) == 0;
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) | (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
                match &mut socket.role {
                    Role::Datagrams(datagrams) => datagrams.tells_address = first != 0,
                    _ => return Err(Errno::ENOPROTOOPT),
                }
            }
            (libc::IPPROTO_TCP, _) if matches!(socket.role, Role::Datagrams(_)) => {
                return Err(Errno::EOPNOTSUPP);
            }
            (libc::IPPROTO_TCP, TCP_INQ) => {
                if ![0, 1].contains(&first) {
                    return Err(Errno::EINVAL);
                }
                socket.tells_queue = first == 1;
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) if (first != 0) == nagle => {
                return Err(Errno::EOPNOTSUPP);
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {}
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    /// Bytes that `read` would give (`SIOCINQ`), or that are not acknowledged (`SIOCOUTQ`).
    ///
    /// # Errors
    /// `EINVAL` for another request, and for a socket that listens.
    pub fn queued_bytes(&mut self, file: i32, request: u64) -> Result<i32> {
        if matches!(self.socket_of(file)?.role, Role::Listening { .. }) {
            return Err(Errno::EINVAL);
        }
        if let Role::Datagrams(datagrams) = &self.socket_of(file)?.role {
            // What is sent leaves at once.
            return match request {
                libc::FIONREAD => Ok(datagrams.next_bytes() as i32),
                libc::TIOCOUTQ => Ok(0),
                _ => Err(Errno::EINVAL),
            };
        }
        let bytes = |queue: u32| i32::try_from(queue).unwrap_or(i32::MAX);
        let place = self.connection_of(file);
        match request {
            libc::FIONREAD => Ok(place.map_or(0, |place| bytes(place.unread_bytes()))),
            libc::TIOCOUTQ => Ok(place.map_or(0, |place| bytes(place.unacknowledged_bytes()))),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The control message with the amount left to read, if TCP_INQ is set (tcp(7)).
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub(super) fn queue_message(&mut self, file: i32) -> Result<Option<Control>> {
        if !self.socket_of(file)?.tells_queue {
            return Ok(None);
        }
        let place = self.connection_of(file)?;
        // Linux: not zero as long as the end of the stream is to be read.
        let left = place.unread_bytes().max(place.peer_has_closed.into());
        let left = i32::try_from(left).unwrap_or(i32::MAX);
        Ok(Some(Control {
            level: libc::IPPROTO_TCP,
            kind: TCP_INQ,
            data: left.to_ne_bytes().to_vec(),
        }))
    }

    /// Whether the socket shows IPv4 addresses as IPv6 ones (RFC 4291, 2.5.5.2).
    pub fn shows_mapped(&self, file: i32, address: SocketAddr) -> bool {
        let is_v6 = matches!(self.files.get(&file), Some(File::Socket(socket)) if socket.is_v6);
        is_v6 && address.is_ipv4()
    }
}
