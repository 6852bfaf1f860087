//! Socket calls. A call that would block returns `EAGAIN`; the caller decides whether to wait and
//! retry.

use super::connection::Connection;
use super::datagrams::{Datagrams, Message};
use super::errors::{Result, bind_failure, connect_failure};
use super::udp::FIRST_PORT;
use super::{File, Host, Role, Socket};
use cofferdam_netstack::{ConnectionId, ListenerId};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl Host {
    /// Creates a TCP or UDP socket.
    ///
    /// # Errors
    /// For every other type of socket.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<i32> {
        let is_v6 = match domain {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let role = match (kind & !flags, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Role::Fresh,
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Role::Datagrams(Datagrams::default()),
            _ => return Err(Errno::EPROTONOSUPPORT),
        };
        self.refresh();
        self.add_file(File::Socket(Socket {
            nonblocking: kind & libc::SOCK_NONBLOCK != 0,
            ..Socket::new(is_v6, None, role)
        }))
    }

    /// Whether calls on a file return at once instead of blocking.
    pub fn is_nonblocking(&mut self, file: i32) -> bool {
        self.socket_of(file).is_ok_and(|socket| socket.nonblocking)
    }

    /// Sets or clears O_NONBLOCK.
    ///
    /// # Errors
    /// If the file is no socket.
    pub fn set_nonblocking(&mut self, file: i32, on: bool) -> Result<()> {
        self.socket_of(file)?.nonblocking = on;
        Ok(())
    }

    /// Returns a socket that has no address yet and whose family matches `address`.
    pub(super) fn fresh(&mut self, file: i32, address: SocketAddr) -> Result<&mut Socket> {
        let socket = self.socket_of(file)?;
        if address.is_ipv6() && !socket.is_v6 {
            return Err(Errno::EAFNOSUPPORT);
        }
        Ok(socket)
    }

    /// Sets a socket's address. An address is in use if another socket has it and one of the two
    /// lacks SO_REUSEADDR or listens.
    ///
    /// # Errors
    /// The errors of `bind(2)`.
    pub fn bind(&mut self, file: i32, address: SocketAddr) -> Result<()> {
        let socket = self.fresh(file, address)?;
        let is_datagrams = matches!(socket.role, Role::Datagrams(_));
        if socket.local.is_some() || !(is_datagrams || matches!(socket.role, Role::Fresh)) {
            return Err(Errno::EINVAL);
        }
        let reuse = socket.settings.reuse_address;
        let ours = address.ip().is_unspecified()
            || (self.stack.config().addresses()).any(|own| own.ip == address.ip());
        if !ours {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if is_datagrams {
            return self.bind_datagrams(file, address);
        }
        if self.is_taken(address, reuse) {
            return Err(Errno::EADDRINUSE);
        }
        let socket = self.socket_of(file)?;
        (socket.local, socket.is_bound) = (Some(address), true);
        Ok(())
    }

    /// Starts to listen, at a free port if the socket has no address. A second call changes
    /// nothing.
    ///
    /// # Errors
    /// The errors of `listen(2)`.
    pub fn listen(&mut self, file: i32, backlog: i32) -> Result<()> {
        let socket = self.socket_of(file)?;
        match socket.role {
            Role::Fresh => {}
            Role::Listening { .. } => return Ok(()),
            Role::Connection(_) => return Err(Errno::EINVAL),
            Role::Datagrams(_) => return Err(Errno::EOPNOTSUPP),
        }
        let (local, is_v6) = (socket.local, socket.is_v6);
        let at = local.or_else(|| self.free_address(is_v6));
        let at = at.ok_or(Errno::EADDRINUSE)?;
        self.refresh();
        let backlog = u32::try_from(backlog).unwrap_or(0).max(1);
        let id = self
            .stack
            .listen(at, backlog, file as u64)
            .map_err(bind_failure)?;
        let socket = self.socket_of(file)?;
        socket.local = Some(at);
        socket.role = Role::Listening {
            id,
            backlog,
            waiting: VecDeque::new(),
            news: 0,
        };
        self.settings_changed(file);
        Ok(())
    }

    /// Accepts the oldest waiting connection. Returns its file and its peer.
    ///
    /// # Errors
    /// `EAGAIN` if none waits; `EINVAL` if the socket does not listen.
    pub fn accept(&mut self, file: i32) -> Result<(i32, SocketAddr)> {
        let now = self.now;
        let socket = self.socket_of(file)?;
        let (is_v6, settings) = (socket.is_v6, socket.settings.clone());
        let waiting = match &mut socket.role {
            Role::Listening { waiting, .. } => waiting,
            Role::Datagrams(_) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        };
        let bits = waiting.pop_front().ok_or(Errno::EAGAIN)?;
        let is_ours = (self.connections.get(&bits)).is_some_and(|conn| conn.is_ours);
        let accepted = match is_ours {
            true => None,
            false => (self.stack)
                .accept(now, ConnectionId::from_bits(bits), bits)
                .ok(),
        };
        // A connection that was reset meanwhile is accepted as well; its first call fails.
        let conn = self.connections.get_mut(&bits).ok_or(Errno::ECONNABORTED)?;
        if let Some(window_bytes) = accepted {
            conn.opened(window_bytes);
        }
        conn.connect_is_over = true;
        let (local, remote) = (conn.local, conn.remote);
        let role = Role::Connection(bits);
        let file = self.add_file(File::Socket(Socket {
            settings,
            ..Socket::new(is_v6, Some(local), role)
        }))?;
        self.settings_changed(file);
        self.turn();
        Ok((file, remote))
    }

    /// Opens a connection. Further calls return its state.
    ///
    /// # Errors
    /// `EINPROGRESS` at first, `EALREADY` while the handshake lasts, `EISCONN` once success has
    /// been reported; otherwise as `connect(2)`.
    pub fn connect(&mut self, file: i32, remote: SocketAddr) -> Result<()> {
        let now = self.now;
        let socket = self.fresh(file, remote)?;
        match socket.role {
            Role::Fresh => {}
            Role::Listening { .. } => return Err(Errno::EISCONN),
            Role::Datagrams(_) => return self.connect_datagrams(file, remote),
            Role::Connection(_) => {
                let conn = self.connection_of(file)?;
                if let Some(error) = conn.error.take() {
                    return Err(error);
                }
                return match (conn.ended, conn.is_open) {
                    (Some(_), _) => Err(Errno::ECONNABORTED),
                    (None, false) => Err(Errno::EALREADY),
                    (None, true) if conn.connect_is_over => Err(Errno::EISCONN),
                    (None, true) => {
                        conn.connect_is_over = true;
                        Ok(())
                    }
                };
            }
        }
        if socket.deferred.is_some() {
            return Err(Errno::EISCONN);
        }
        let asks = socket.settings.fast_open_connect;
        let local = socket.local;
        socket.error = None;
        self.refresh();
        if asks {
            if self.defers_connect(file, remote)? {
                return Ok(());
            }
            self.open_with_data(file, remote, &[])?;
            return Err(Errno::EINPROGRESS);
        }
        let id = self
            .stack
            .connect(now, local, remote, file as u64)
            .map_err(connect_failure)?;
        let local = self.stack.connection(id).map(|info| info.local);
        let local = local.ok_or(Errno::ENOBUFS)?;
        let bits = id.to_bits();
        self.connections
            .insert(bits, Connection::new(id, local, remote, now));
        let socket = self.socket_of(file)?;
        (socket.role, socket.local) = (Role::Connection(bits), Some(local));
        self.settings_changed(file);
        self.turn();
        Err(Errno::EINPROGRESS)
    }

    /// The connection of a socket; `ENOTCONN` if it has none.
    pub(super) fn connection_of(&mut self, file: i32) -> Result<&mut Connection> {
        match self.socket_of(file)?.role {
            Role::Connection(bits) => self.connections.get_mut(&bits).ok_or(Errno::ENOTCONN),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// Reads up to `most` bytes; none at the end of the stream.
    ///
    /// # Errors
    /// `EAGAIN` if there are none yet; otherwise as `recv(2)`.
    pub fn read(&mut self, file: i32, most: usize, peek: bool) -> Result<Vec<u8>> {
        if self.deferred(file).is_some() {
            return Err(Errno::EAGAIN);
        }
        let socket = self.socket_of(file)?;
        let Role::Connection(bits) = socket.role else {
            return Err(socket.error.take().unwrap_or(Errno::ENOTCONN));
        };
        let inline = socket
            .settings
            .stored_value(libc::SOL_SOCKET, libc::SO_OOBINLINE)
            != 0;
        let conn = self.connections.get_mut(&bits).ok_or(Errno::ENOTCONN)?;
        let from = conn.read_to;
        let (bytes, done) = conn.read(most, peek, inline, &mut self.buffers)?;
        let (id, taken) = (conn.id, conn.read_to - from);
        if taken > 0 {
            // A connection that has ended has no window.
            let _ = self.stack.recv_done(self.now, id, taken as u32, done);
        }
        self.turn();
        Ok(bytes)
    }

    /// Reads the urgent byte ahead of the stream (MSG_OOB); nothing at the end of the stream.
    ///
    /// # Errors
    /// `EINVAL` if there is none, it was read before, or it stays in the stream (SO_OOBINLINE);
    /// `EAGAIN` if it has not arrived yet; otherwise as `recv(2)`.
    pub(super) fn urgent_message(&mut self, file: i32, most: usize, peek: bool) -> Result<Message> {
        let socket = self.socket_of(file)?;
        let inline = socket
            .settings
            .stored_value(libc::SOL_SOCKET, libc::SO_OOBINLINE)
            != 0;
        let bits = match socket.role {
            Role::Connection(bits) => bits,
            Role::Datagrams(_) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EINVAL),
        };
        let conn = self.connections.get_mut(&bits).ok_or(Errno::ENOTCONN)?;
        if inline {
            return Err(Errno::EINVAL);
        }
        let mut bytes = match conn.take_urgent(peek, &self.buffers) {
            Err(Errno::EAGAIN) if conn.shut_read || conn.ended.is_some() => Vec::new(),
            byte => vec![byte?],
        };
        bytes.truncate(most);
        Ok(Message {
            reported: bytes.len(),
            whole_bytes: bytes.len(),
            bytes,
            ..Message::default()
        })
    }

    /// Shuts down one or both directions.
    ///
    /// # Errors
    /// `ENOTCONN` without a connection; otherwise as `shutdown(2)`.
    pub fn shutdown(&mut self, file: i32, how: i32) -> Result<()> {
        let now = self.now;
        let (read, write) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        if matches!(self.socket_of(file)?.role, Role::Listening { .. }) {
            return match read {
                true => self.disconnect(file),
                false => Ok(()),
            };
        }
        let conn = self.connection_of(file)?;
        if !conn.is_open || conn.ended.is_some() {
            return Err(Errno::ENOTCONN);
        }
        conn.shut_read |= read;
        let send_fin = write && !conn.shut_write;
        conn.shut_write |= write;
        conn.news += 1;
        let id = conn.id;
        if send_fin {
            if let Role::Connection(bits) = self.socket_of(file)?.role {
                self.flush_all(bits);
            }
            // The connection is open, as checked above.
            let _ = self.stack.shutdown(now, id);
        }
        self.turn();
        Ok(())
    }

    /// Closes a file. Pending data is still sent; unread data causes a reset (RFC 2525, 2.17).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn close(&mut self, file: i32) -> Result<()> {
        let now = self.now;
        let closed = self.files.remove(&file).ok_or(Errno::EBADF)?;
        self.descriptors.close(file);
        for other in self.files.values_mut() {
            if let File::Epoll(interests) = other {
                interests.remove(&file);
            }
        }
        let File::Socket(socket) = closed else {
            return Ok(());
        };
        match socket.role {
            Role::Fresh => {}
            Role::Datagrams(datagrams) => self.close_datagrams(datagrams),
            Role::Listening { id, waiting, .. } => self.stop_listening(id, waiting),
            Role::Connection(bits) => {
                if !socket.settings.close_resets {
                    self.flush_all(bits);
                }
                if let Some(conn) = self.connections.get(&bits)
                    && conn.ended.is_none()
                {
                    // The connection has not ended, so the stack knows it.
                    let _ = if socket.settings.close_resets || conn.unread_bytes() > 0 {
                        self.stack.abort(now, conn.id)
                    } else {
                        self.stack.close(now, conn.id)
                    };
                }
                self.orphan(bits);
            }
        }
        self.turn();
        Ok(())
    }

    /// Dissolves the association, as `connect` does for AF_UNSPEC. A connection is reset; a UDP
    /// socket forgets its peer.
    ///
    /// # Errors
    /// `EBADF`, `ENOTSOCK`.
    pub fn disconnect(&mut self, file: i32) -> Result<()> {
        let now = self.now;
        let socket = self.socket_of(file)?;
        if let Role::Datagrams(datagrams) = &mut socket.role {
            datagrams.remote = None;
            return Ok(());
        }
        socket.deferred = None;
        // An address that `bind` did not set is dropped with the connection.
        socket.local = socket.local.filter(|_| socket.is_bound);
        match std::mem::replace(&mut socket.role, Role::Fresh) {
            Role::Listening { id, waiting, .. } => self.stop_listening(id, waiting),
            Role::Connection(bits) => {
                let conn = self.connections.get(&bits);
                if let Some(id) = conn.filter(|conn| conn.ended.is_none()).map(|it| it.id) {
                    self.socket_of(file)?.error = Some(Errno::ECONNRESET);
                    // The connection has not ended, so the stack knows it.
                    let _ = self.stack.abort(now, id);
                }
                self.orphan(bits);
            }
            Role::Fresh | Role::Datagrams(_) => {}
        }
        self.turn();
        Ok(())
    }

    /// Closes a listener and resets the connections that were not accepted.
    fn stop_listening(&mut self, id: ListenerId, waiting: VecDeque<u64>) {
        let now = self.now;
        self.stack.unlisten(now, id);
        for bits in waiting {
            if let Some(conn) = self.connections.get(&bits)
                && conn.is_ours
                && conn.ended.is_none()
            {
                // The connection has not ended, so the stack knows it.
                let _ = self.stack.abort(now, conn.id);
            }
            self.orphan(bits);
        }
    }

    /// An address with a free port; an IPv6 address if the socket and the host support it.
    fn free_address(&self, is_v6: bool) -> Option<SocketAddr> {
        let mut addresses = self.stack.config().addresses();
        let any = match is_v6 && addresses.any(|address| address.ip.is_ipv6()) {
            true => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        };
        let mut all = (FIRST_PORT..=u16::MAX).map(|port| SocketAddr::new(any, port));
        all.find(|address| !self.is_taken(*address, false))
    }

    /// Whether another TCP socket has the address and excludes this one.
    fn is_taken(&self, address: SocketAddr, reuse: bool) -> bool {
        self.files.values().any(|other| match other {
            File::Socket(Socket {
                local: Some(other),
                settings,
                role,
                ..
            }) => {
                let listens = matches!(role, Role::Listening { .. });
                !matches!(role, Role::Datagrams(_))
                    && other.port() == address.port()
                    && other.is_ipv4() == address.is_ipv4()
                    && (other.ip() == address.ip()
                        || other.ip().is_unspecified()
                        || address.ip().is_unspecified())
                    && (listens || !(reuse && settings.reuse_address))
            }
            _ => false,
        })
    }

    fn orphan(&mut self, bits: u64) {
        self.update(bits, |conn| conn.is_orphan = true);
        self.forget_if_over(bits);
    }
}
