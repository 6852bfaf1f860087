//! TCP Fast Open (RFC 7413): `sendto` with MSG_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN, and the
//! keys of cookies.

use super::connection::Connection;
use super::errors::{Result, connect_failure};
use super::sending::Flags;
use super::{File, Host, Role};
use cofferdam_netstack::FastOpenServer;
use nix::errno::Errno;
use std::net::SocketAddr;

/// Bits of `tcp_fastopen` (Documentation/networking/ip-sysctl.rst).
pub const CLIENT: u32 = 1;
pub const SERVER: u32 = 2;
pub const CLIENT_WITHOUT_COOKIE: u32 = 4;
pub const SERVER_WITHOUT_COOKIE: u32 = 0x200;
/// Every listener takes data with SYNs, as many as its backlog, without TCP_FASTOPEN.
pub const EVERY_LISTENER: u32 = 0x400;

/// Most that waits for the end of a handshake.
const MOST_WAITING_BYTES: usize = 64 << 10;

impl Host {
    fn fast_open_bits(&self) -> u32 {
        self.sysctls
            .as_ref()
            .map_or(CLIENT, |sysctls| sysctls.fast_open())
    }

    /// How many connections of a listener may wait that took data with their SYN.
    pub(super) fn set_fast_open_backlog(&mut self, file: i32) {
        let bits = self.fast_open_bits();
        let Ok(socket) = self.socket_of(file) else {
            return;
        };
        let Role::Listening { id, backlog, .. } = socket.role else {
            return;
        };
        let settings = &socket.settings;
        let wanted = match settings.fast_open_backlog {
            0 if bits & EVERY_LISTENER != 0 => backlog,
            wanted => wanted,
        };
        let own: Vec<[u8; 16]> = (settings.fast_open_keys.chunks_exact(16))
            .filter_map(|key| key.try_into().ok())
            .collect();
        let without_cookie = bits & SERVER_WITHOUT_COOKIE != 0 || settings.fast_open_without_cookie;
        let keys = match (own.is_empty(), &self.sysctls) {
            (true, Some(sysctls)) => sysctls.fast_open_keys(),
            _ => own,
        };
        let server = FastOpenServer {
            most_pending: if bits & SERVER != 0 { wanted } else { 0 },
            without_cookie,
            keys: [keys.first().copied(), keys.get(1).copied()],
        };
        self.stack.set_fast_open(id, server);
    }

    /// `connect` and `send` in one: how much of the data went with the SYN.
    ///
    /// # Errors
    /// `EINPROGRESS` when none did; `EOPNOTSUPP` when the sysctl forbids it; as `connect(2)`.
    pub fn fast_open(
        &mut self,
        file: i32,
        to: SocketAddr,
        bytes: &[u8],
        flags: Flags,
    ) -> Result<usize> {
        self.refresh();
        if self.fast_open_bits() & CLIENT == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let socket = self.socket_of(file)?;
        match socket.role {
            Role::Fresh => {}
            Role::Connection(_) => return Err(self.open_already(file)?),
            Role::Listening { .. } => return Err(Errno::EISCONN),
            Role::Datagrams(_) => return Err(Errno::EOPNOTSUPP),
        }
        let taken = self.open_with_data(file, to, bytes)?;
        let settings = self.socket_of(file)?.settings.clone();
        if let Ok(place) = self.connection_of(file)
            && taken > 0
        {
            let end = place.out.written();
            let zero_copy = flags.zero_copy && settings.zero_copy;
            (place.notices).written(end, zero_copy, settings.timestamping);
        }
        if taken == 0 {
            return Err(Errno::EINPROGRESS);
        }
        Ok(taken)
    }

    /// A blocking writer waits until the connection is open: what did not go with the SYN goes with
    /// the acknowledgement of the SYN+ACK. Says how much of it is taken.
    pub fn write_when_open(&mut self, file: i32, bytes: &[u8]) -> usize {
        let Ok(place) = self.connection_of(file) else {
            return 0;
        };
        let taken = bytes.len().min(MOST_WAITING_BYTES);
        place.out.add(&bytes[..taken]);
        place.out.push();
        taken
    }

    /// What a second MSG_FASTOPEN on a socket says.
    ///
    /// # Errors
    /// `ENOTCONN` without a connection.
    pub fn open_already(&mut self, file: i32) -> Result<Errno> {
        let place = self.connection_of(file)?;
        if let Some(error) = place.error.take() {
            return Ok(error);
        }
        Ok(match place.is_open {
            true => Errno::EISCONN,
            false => Errno::EALREADY,
        })
    }

    /// Sends the SYN, with the data that fits if a cookie is known.
    pub(super) fn open_with_data(
        &mut self,
        file: i32,
        to: SocketAddr,
        bytes: &[u8],
    ) -> Result<usize> {
        let now = self.now;
        let socket = self.fresh(file, to)?;
        let local = socket.local;
        let without_cookie = socket.settings.fast_open_without_cookie;
        let most_segment = socket.settings.tcp.most_segment_bytes;
        let mut tcp = self.stack.config().tcp.clone();
        tcp.fast_open_without_cookie =
            without_cookie || self.fast_open_bits() & CLIENT_WITHOUT_COOKIE != 0;
        self.stack.set_tcp_config(tcp).map_err(|_| Errno::EINVAL)?;
        // Options may take 40 bytes of the segment.
        let room = most_segment.map_or(bytes.len(), |most| most.saturating_sub(40) as usize);
        let bytes = &bytes[..bytes.len().min(room)];
        let chunk = self.buffers.data(bytes);
        let data: &[_] = if bytes.is_empty() { &[] } else { &[chunk] };
        let opened = self.stack.connect_with(now, local, to, file as u64, data);
        let taken = opened.as_ref().map_or(0, |(_, taken)| *taken);
        if taken == 0 {
            self.buffers.free(chunk.buffer);
        }
        let (id, _) = opened.map_err(connect_failure)?;
        let local = self.stack.connection(id).map(|info| info.local);
        let local = local.ok_or(Errno::ENOBUFS)?;
        let bits = id.to_bits();
        let mut place = Connection::new(id, local, to, now);
        if taken > 0 {
            place.out.skip(taken);
            place.meter.syn_bytes = taken;
            place.sent(chunk.buffer, taken);
        }
        self.connections.insert(bits, place);
        let socket = self.socket_of(file)?;
        (socket.role, socket.local) = (Role::Connection(bits), Some(local));
        socket.deferred = None;
        self.settings_changed(file);
        self.turn();
        Ok(taken as usize)
    }

    /// TCP_FASTOPEN_CONNECT: the SYN waits for the first data where a cookie is known. Says whether
    /// it does.
    pub(super) fn defers_connect(&mut self, file: i32, to: SocketAddr) -> Result<bool> {
        let allowed = self.fast_open_bits() & CLIENT != 0;
        let known = self.stack.knows_cookie(to);
        let socket = self.fresh(file, to)?;
        let settings = &socket.settings;
        let defers =
            allowed && settings.fast_open_connect && (known || settings.fast_open_without_cookie);
        if defers {
            socket.deferred = Some(to);
        }
        Ok(defers)
    }

    /// A connection of a listener whose backlog has room is accepted in the stack at once, and waits
    /// here for `accept`: what came is there then even if the peer has reset it, as in Linux.
    pub(super) fn own(&mut self, bits: u64) {
        let now = self.now;
        let Some(place) = self.connections.get_mut(&bits) else {
            return;
        };
        if let Ok(window_bytes) = self.stack.accept(now, place.id, bits) {
            place.opened(window_bytes);
            place.is_ours = true;
        }
    }

    /// Whether a file is a TCP socket that neither listens nor has a connection.
    pub fn is_fresh(&self, file: i32) -> bool {
        matches!(self.files.get(&file), Some(File::Socket(socket)) if matches!(socket.role, Role::Fresh))
    }

    /// Whether a socket's connection is being opened, or could not be.
    pub fn is_connecting(&mut self, file: i32) -> bool {
        self.connection_of(file).is_ok_and(|place| !place.is_open)
    }

    /// What TCP_FASTOPEN_CONNECT needs of the sysctl.
    pub(super) fn may_fast_open(&self) -> bool {
        self.fast_open_bits() & CLIENT != 0
    }

    /// Whether a file is a socket whose SYN waits for data, and the peer.
    pub fn deferred(&self, file: i32) -> Option<SocketAddr> {
        match self.files.get(&file) {
            Some(File::Socket(socket)) => socket.deferred,
            _ => None,
        }
    }
}
