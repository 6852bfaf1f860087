//! The stack: what a core's worth of connections needs, and the doors in and out.

use crate::api::*;
use std::net::{IpAddr, SocketAddr};

/// TCP/IP for one core. See the crate's documentation for how it is driven.
#[derive(Debug)]
pub struct Stack {
    config: Config,
    counters: Counters,
}

impl Stack {
    /// A stack with these settings. Takes all the memory it will ever use.
    ///
    /// # Errors
    /// When the settings cannot work.
    pub fn new(config: Config, _now: Time) -> Result<Self, ConfigError> {
        if !config.mac.is_unicast() {
            return Err(ConfigError::Mac(config.mac));
        }
        Ok(Self {
            config,
            counters: Counters::default(),
        })
    }

    /// Takes a received Ethernet frame that lies in the caller's `buffer`.
    pub fn handle_frame(
        &mut self,
        _now: Time,
        _frame: &[u8],
        _buffer: BufferId,
        _pool: &mut impl BufferPool,
    ) -> Disposition {
        self.counters.frames_received += 1;
        Disposition::Free
    }

    /// Does what is due by now.
    pub fn handle_timers(&mut self, _now: Time) {}

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// The next frame to send: writes its headers to the start of `header`, which has room for
    /// [`MAX_HEADER_BYTES`].
    pub fn poll_transmit(&mut self, _now: Time, _header: &mut [u8]) -> Option<Transmit> {
        None
    }

    /// Whether [`Self::poll_transmit`] has something.
    pub fn has_transmit(&self) -> bool {
        false
    }

    /// When [`Self::handle_timers`] next has something to do; may be early, never late.
    pub fn poll_at(&self) -> Option<Time> {
        None
    }

    /// Accepts connections to an address; the unspecified address means all of its family.
    ///
    /// # Errors
    /// When it is in use, not ours, or the table is full.
    pub fn listen(
        &mut self,
        _at: SocketAddr,
        _backlog: u32,
        _cookie: u64,
    ) -> Result<ListenerId, BindError> {
        Err(BindError::Full(self.config.limits.listeners))
    }

    /// Stops accepting; connections that were not accepted yet are reset.
    pub fn unlisten(&mut self, _now: Time, _listener: ListenerId) -> bool {
        false
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When there is no route, no port or no room.
    pub fn connect(
        &mut self,
        _now: Time,
        _local: Option<SocketAddr>,
        _remote: SocketAddr,
        _cookie: u64,
    ) -> Result<ConnectionId, ConnectError> {
        Err(ConnectError::Full(self.config.limits.connections))
    }

    /// Takes a connection that knocked; returns the bytes that `sendv` takes now.
    ///
    /// # Errors
    /// When it has ended, or was accepted before.
    pub fn accept(
        &mut self,
        _now: Time,
        _connection: ConnectionId,
        _cookie: u64,
    ) -> Result<u32, GoneError> {
        Err(GoneError)
    }

    /// Resets a connection that knocked. No `Dead` follows.
    ///
    /// # Errors
    /// When it has ended, or was accepted before.
    pub fn reject(&mut self, _now: Time, _connection: ConnectionId) -> Result<(), GoneError> {
        Err(GoneError)
    }

    /// Sends ranges of the application's memory, in order. Returns how many bytes were taken:
    /// a prefix, as long as the window (`Sent`'s `window_bytes`) has room.
    ///
    /// # Errors
    /// When the connection is not open, or our side is closed.
    pub fn sendv(
        &mut self,
        _now: Time,
        _connection: ConnectionId,
        _data: &[Chunk],
    ) -> Result<u32, SendError> {
        Err(SendError::Gone)
    }

    /// The application is done with `bytes` of received data that lay in `buffers` buffers (one
    /// for each `Recv`): opens the window. Counts above what was handed up are cut.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn recv_done(
        &mut self,
        _now: Time,
        _connection: ConnectionId,
        _bytes: u32,
        _buffers: u32,
    ) -> Result<(), GoneError> {
        Err(GoneError)
    }

    /// Closes our side after what was sent; the peer may go on sending.
    ///
    /// # Errors
    /// When the connection has ended, or is not open.
    pub fn shutdown(&mut self, _now: Time, _connection: ConnectionId) -> Result<(), GoneError> {
        Err(GoneError)
    }

    /// Closes the connection after what was sent. No more data is handed up; if some comes, or
    /// some was not taken, the peer is reset (RFC 9293, 3.6.1). `Dead` follows.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn close(&mut self, _now: Time, _connection: ConnectionId) -> Result<(), GoneError> {
        Err(GoneError)
    }

    /// Resets the connection. `Dead` follows.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn abort(&mut self, _now: Time, _connection: ConnectionId) -> Result<(), GoneError> {
        Err(GoneError)
    }

    /// Takes datagrams for an address.
    ///
    /// # Errors
    /// When it is in use, not ours, or the table is full.
    pub fn udp_bind(&mut self, _at: SocketAddr, _cookie: u64) -> Result<UdpId, BindError> {
        Err(BindError::Full(self.config.limits.udp))
    }

    /// Gives an address back. Datagrams that wait are dropped.
    pub fn udp_unbind(&mut self, _udp: UdpId) -> bool {
        false
    }

    /// Sends one datagram. Its ranges are the application's again with `UdpSent`.
    ///
    /// # Errors
    /// When it does not fit, or nothing leads there.
    pub fn udp_sendv(
        &mut self,
        _now: Time,
        _udp: UdpId,
        _local: Option<IpAddr>,
        remote: SocketAddr,
        _data: &[Chunk],
        _token: u64,
    ) -> Result<(), UdpSendError> {
        Err(UdpSendError::NoRoute(remote.ip()))
    }

    /// The application is done with so many datagrams of this address.
    pub fn udp_recv_done(&mut self, _udp: UdpId, _datagrams: u32) {}

    /// Asks for [`Event::Timer`] at a moment. `None` when the table is full.
    pub fn set_timer(&mut self, _at: Time, _cookie: u64) -> Option<TimerId> {
        None
    }

    /// Forgets a timer.
    pub fn cancel_timer(&mut self, _timer: TimerId) -> bool {
        false
    }

    /// What happened so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
