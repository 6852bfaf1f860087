//! TCP Fast Open (RFC 7413): `sendto` with MSG_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN, and
//! the cookie keys.

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
/// Every listener accepts data in SYNs, up to its backlog, without TCP_FASTOPEN.
pub const EVERY_LISTENER: u32 = 0x400;

/// Maximum data that waits for the handshake.
const MOST_WAITING_BYTES: usize = 64 << 10;

impl Host {
    fn fast_open_bits(&self) -> u32 {
        self.sysctls
            .as_ref()
            .map_or(CLIENT, |sysctls| sysctls.fast_open())
    }

    /// Sets how many connections of a listener that accepted data in the SYN may wait.
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

    /// Combines `connect` and `send`. Returns how much of the data went with the SYN.
    ///
    /// # Errors
    /// `EINPROGRESS` if none did; `EOPNOTSUPP` if the sysctl forbids it; otherwise as `connect(2)`.
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
        if let Ok(conn) = self.connection_of(file)
            && taken > 0
        {
            let end = conn.out.written();
            let zero_copy = flags.zero_copy && settings.zero_copy;
            (conn.notices).written(end, zero_copy, settings.timestamping);
        }
        if taken == 0 {
            return Err(Errno::EINPROGRESS);
        }
        Ok(taken)
    }

    /// Queues the rest of a blocking write: the data that did not go with the SYN goes with the
    /// acknowledgement of the SYN-ACK. Returns how much it accepts.
    pub fn write_when_open(&mut self, file: i32, bytes: &[u8]) -> usize {
        let Ok(conn) = self.connection_of(file) else {
            return 0;
        };
        let taken = bytes.len().min(MOST_WAITING_BYTES);
        conn.out.add(&bytes[..taken]);
        conn.out.push();
        taken
    }

    /// Error of a second MSG_FASTOPEN on a socket.
    ///
    /// # Errors
    /// `ENOTCONN` without a connection.
    pub fn open_already(&mut self, file: i32) -> Result<Errno> {
        let conn = self.connection_of(file)?;
        if let Some(error) = conn.error.take() {
            return Ok(error);
        }
        Ok(match conn.is_open {
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
        // Options may use 40 bytes of the segment.
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
        let mut conn = Connection::new(id, local, to, now);
        if taken > 0 {
            conn.out.skip(taken);
            conn.meter.syn_bytes = taken;
            conn.sent(chunk.buffer, taken);
        }
        self.connections.insert(bits, conn);
        let socket = self.socket_of(file)?;
        (socket.role, socket.local) = (Role::Connection(bits), Some(local));
        socket.deferred = None;
        self.settings_changed(file);
        self.turn();
        Ok(taken as usize)
    }

    /// TCP_FASTOPEN_CONNECT: if a cookie is known, the SYN waits for the first data. Returns
    /// whether it waits.
    pub(super) fn defers_connect(&mut self, file: i32, to: SocketAddr) -> Result<bool> {
        let allowed = self.fast_open_bits() & CLIENT != 0;
        let has_cookie = self.stack.knows_cookie(to);
        let socket = self.fresh(file, to)?;
        let settings = &socket.settings;
        let defers = allowed
            && settings.fast_open_connect
            && (has_cookie || settings.fast_open_without_cookie);
        if defers {
            socket.deferred = Some(to);
        }
        Ok(defers)
    }

    /// Accepts a connection in the stack at once if the listener's backlog has room, and lets it
    /// wait here for `accept`. Data that has arrived stays readable even if the peer resets the
    /// connection, as in Linux.
    pub(super) fn own(&mut self, bits: u64) {
        let now = self.now;
        let Some(conn) = self.connections.get_mut(&bits) else {
            return;
        };
        if let Ok(window_bytes) = self.stack.accept(now, conn.id, bits) {
            conn.opened(window_bytes);
            conn.is_ours = true;
        }
    }

    /// Whether a file is a TCP socket that neither listens nor has a connection.
    pub fn is_fresh(&self, file: i32) -> bool {
        let Some(File::Socket(socket)) = self.files.get(&file) else {
            return false;
        };
        matches!(socket.role, Role::Fresh)
    }

    /// Whether a socket's connection is being opened or has failed to open.
    pub fn is_connecting(&mut self, file: i32) -> bool {
        self.connection_of(file).is_ok_and(|conn| !conn.is_open)
    }

    /// Whether the sysctl permits TCP_FASTOPEN_CONNECT.
    pub(super) fn may_fast_open(&self) -> bool {
        self.fast_open_bits() & CLIENT != 0
    }

    /// The peer of a socket whose SYN waits for data.
    pub fn deferred(&self, file: i32) -> Option<SocketAddr> {
        match self.files.get(&file) {
            Some(File::Socket(socket)) => socket.deferred,
            _ => None,
        }
    }
}
