//! TCP Fast Open (RFC 7413): `sendto` with MSG_FASTOPEN, TCP_FASTOPEN_CONNECT, and what listeners take.

use super::connection::Connection;
use super::errors::{Result, connect_failure};
use super::settings::Settings;
use super::{File, Host, Role};
use cofferdam_netstack::FastOpenServer;
use nix::errno::Errno;
use std::net::SocketAddr;

/// Bits of `tcp_fastopen`: clients send data with their SYN, servers take it; clients do without a
/// cookie, servers take it without one; all listeners take it.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;
const CLIENT_WITHOUT_COOKIE: u32 = 4;
const SERVER_WITHOUT_COOKIE: u32 = 0x200;
const ALL_LISTENERS: u32 = 0x400;
/// Connections with data in their SYN that wait at a listener that all take it for.
const USUAL_PENDING: u32 = 128;

/// How much of the data left with the SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// So many bytes; the handshake goes on.
    WithData(usize),
    /// None: the connection is open, or will be, and takes data as any other.
    Plain,
}

impl Host {
    fn fast_open_bits(&self) -> u32 {
        self.sysctls
            .as_ref()
            .map_or(0, |sysctls| sysctls.fast_open())
    }

    /// Whether clients may send data with their SYN.
    pub(super) fn may_fast_open(&self) -> bool {
        self.sysctls.is_none() || self.fast_open_bits() & CLIENT != 0
    }

    /// `connect` and `send` in one: what of `bytes` has left with the SYN.
    ///
    /// # Errors
    /// `EALREADY` while the connection is being opened; `EOPNOTSUPP` when the sysctl forbids it; as
    /// `connect(2)`.
    pub fn fast_open(&mut self, file: i32, to: SocketAddr, bytes: &[u8]) -> Result<Started> {
        if !self.may_fast_open() {
            return Err(Errno::EOPNOTSUPP);
        }
        let now = self.now;
        let socket = self.socket_of(file)?;
        match socket.role {
            Role::Fresh => {}
            Role::Connection(_) => {
                // One that is open says so once, here or in `connect`.
                return match self.connect(file, to) {
                    Ok(()) | Err(Errno::EISCONN) => Ok(Started::Plain),
                    Err(error) => Err(error),
                };
            }
            _ => return Err(Errno::EISCONN),
        }
        let local = socket.local;
        socket.settings.fast_open_deferred = None;
        let without_cookie = socket.settings.fast_open_without_cookie;
        self.refresh();
        let mut tcp = self.stack.config().tcp.clone();
        tcp.fast_open_without_cookie =
            without_cookie || self.fast_open_bits() & CLIENT_WITHOUT_COOKIE != 0;
        self.stack.set_tcp_config(tcp).map_err(|_| Errno::EINVAL)?;
        let chunk = self.buffers.data(bytes);
        let buffer = chunk.buffer;
        let opened = self
            .stack
            .connect_with(now, local, to, file as u64, &[chunk]);
        let (id, taken) = opened.map_err(|error| {
            self.buffers.free(buffer);
            connect_failure(error)
        })?;
        let local = self.stack.connection(id).map(|info| info.local);
        let local = local.ok_or(Errno::ENOBUFS)?;
        let bits = id.to_bits();
        let mut place = Connection::new(id, local, to, now);
        if taken == 0 {
            self.buffers.free(buffer);
        } else {
            place.sent_with_syn(buffer, taken);
        }
        self.connections.insert(bits, place);
        let socket = self.socket_of(file)?;
        (socket.role, socket.local) = (Role::Connection(bits), Some(local));
        self.settings_changed(file);
        self.turn();
        if taken == 0 {
            return Err(Errno::EINPROGRESS);
        }
        Ok(Started::WithData(taken as usize))
    }

    /// TCP_FASTOPEN_CONNECT: whether `connect` to `to` is put off until there is data for the SYN.
    pub(super) fn defers_connect(&mut self, file: i32, to: SocketAddr) -> Result<bool> {
        let may = self.may_fast_open();
        let knows = self.stack.knows_cookie(to);
        let socket = self.socket_of(file)?;
        if !(matches!(socket.role, Role::Fresh) && socket.settings.fast_open_connect && may) {
            return Ok(false);
        }
        if socket.settings.fast_open_deferred.is_some() {
            return Err(Errno::EISCONN);
        }
        if knows {
            socket.settings.fast_open_deferred = Some(to);
            return Ok(true);
        }
        self.fast_open(file, to, &[]).map(|_| false)
    }

    /// Where a socket connects once there is data.
    pub fn deferred(&mut self, file: i32) -> Option<SocketAddr> {
        self.socket_of(file).ok()?.settings.fast_open_deferred
    }

    /// How a listener with these settings takes data in a SYN.
    fn fast_open_server(&self, settings: &Settings) -> FastOpenServer {
        let bits = self.fast_open_bits();
        let all = bits & ALL_LISTENERS != 0 && settings.fast_open_backlog == 0;
        let most_pending = match (bits & SERVER != 0, all) {
            (false, _) => 0,
            (true, true) => USUAL_PENDING,
            (true, false) => settings.fast_open_backlog,
        };
        let own: Vec<[u8; 16]> = (settings.fast_open_keys.chunks_exact(16))
            .filter_map(|key| key.try_into().ok())
            .collect();
        let keys = match (own.is_empty(), &self.sysctls) {
            (true, Some(sysctls)) => sysctls.fast_open_keys(),
            _ => own,
        };
        FastOpenServer {
            most_pending,
            without_cookie: bits & SERVER_WITHOUT_COOKIE != 0 || settings.fast_open_without_cookie,
            keys: [keys.first().copied(), keys.get(1).copied()],
        }
    }

    /// Tells the stack how each listener takes data in a SYN.
    pub(super) fn refresh_listeners(&mut self) {
        let listeners: Vec<_> = (self.files.values())
            .filter_map(|file| match file {
                File::Socket(socket) => match &socket.role {
                    Role::Listening { id, .. } => Some((*id, socket.settings.clone())),
                    _ => None,
                },
                File::Epoll(_) => None,
            })
            .collect();
        for (id, settings) in listeners {
            let server = self.fast_open_server(&settings);
            self.stack.set_fast_open(id, server);
        }
    }
}
