//! What the application knows of a connection, and what it is still to be told.

use crate::api::DeadReason;

/// How far the application knows of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Half-open, of a listener: there is nothing to tell.
    #[default]
    HalfOpen,
    /// Open; the knock is to be told.
    Open,
    /// The knock was told, and not answered yet.
    Knocked,
    /// The application opened or accepted it.
    Owned,
}

/// The connection's end.
#[derive(Debug, Clone, Copy, Default)]
enum End {
    /// It lives.
    #[default]
    None,
    ToTell(DeadReason),
    Told,
    /// It has ended, and the application is not told: it was rejected, never knocked, or has moved
    /// to another stack.
    Silent,
}

/// What the application is still to be told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Notices {
    stage: Stage,
    end: End,
    connected: bool,
    peer_closed: bool,
    /// Bytes that were acknowledged and not told.
    acked_bytes: u32,
    /// Ranges that were wholly acknowledged and not told.
    freed_ranges: u32,
}

impl Notices {
    /// The application opens or accepts the connection.
    pub fn own(&mut self) {
        self.stage = Stage::Owned;
    }

    /// The application opened or accepted it.
    pub fn is_owned(&self) -> bool {
        self.stage == Stage::Owned
    }

    /// It waits for `accept` or `reject`.
    pub fn is_knocking(&self) -> bool {
        self.stage == Stage::Knocked
    }

    /// It belongs to a listener, and its handshake is not done.
    pub fn is_half_open(&self) -> bool {
        self.stage == Stage::HalfOpen
    }

    /// It lives no more.
    pub fn has_ended(&self) -> bool {
        !matches!(self.end, End::None)
    }

    /// Its end was told, or is not to be told.
    pub fn is_end_settled(&self) -> bool {
        matches!(self.end, End::Told | End::Silent)
    }

    /// Its end was told.
    pub fn is_end_told(&self) -> bool {
        matches!(self.end, End::Told)
    }

    /// The handshake is done. Says whether the application opened it.
    pub fn opened(&mut self) -> bool {
        match self.stage {
            Stage::Owned => self.connected = true,
            Stage::HalfOpen => self.stage = Stage::Open,
            Stage::Open | Stage::Knocked => {}
        }
        self.is_owned()
    }

    /// `bytes` of data were acknowledged.
    pub fn acked(&mut self, bytes: u32) {
        self.acked_bytes += bytes;
    }

    /// So many ranges of data were acknowledged to their ends.
    pub fn freed_ranges(&mut self, count: u32) {
        self.freed_ranges += count;
    }

    /// The peer's FIN came. `wanted`: the application has not closed the connection itself.
    pub fn peer_closed(&mut self, wanted: bool) {
        self.peer_closed = wanted;
    }

    /// The application closes the connection: it is not told of the peer's FIN any more.
    pub fn forget_peer_closed(&mut self) {
        self.peer_closed = false;
    }

    /// The connection has ended; a second end changes nothing.
    pub fn ended(&mut self, reason: DeadReason) {
        if !self.has_ended() {
            self.end = End::ToTell(reason);
        }
    }

    /// It has ended, and nothing is told of it.
    pub fn end_silently(&mut self) {
        self.end = End::Silent;
    }

    /// An ended connection of which the application never heard is not told. Says whether nothing
    /// is to be told at all.
    pub fn hush(&mut self) -> bool {
        if !self.has_ended() {
            return false;
        }
        if matches!(self.stage, Stage::HalfOpen | Stage::Open) {
            self.end = End::Silent;
        }
        matches!(self.end, End::Silent)
    }

    /// Whether something is to be told, received data apart.
    pub fn any(&self) -> bool {
        // Without a branch in the usual case: this is asked several times a packet.
        if self.is_owned() {
            self.connected | self.peer_closed | (self.acked_bytes > 0) | self.has_ended()
        } else {
            self.stage == Stage::Open || self.has_ended()
        }
    }

    /// Whether the knock is to be told; it counts as told then.
    pub fn take_knock(&mut self) -> bool {
        let is_due = self.stage == Stage::Open;
        if is_due {
            self.stage = Stage::Knocked;
        }
        is_due
    }

    /// Whether the end of the handshake is to be told; it counts as told then.
    pub fn take_connected(&mut self) -> bool {
        std::mem::take(&mut self.connected)
    }

    /// Bytes and ranges acknowledged and not told before; `None` for no bytes.
    pub fn take_acked(&mut self) -> Option<(u32, u32)> {
        (self.acked_bytes > 0).then(|| {
            (
                std::mem::take(&mut self.acked_bytes),
                std::mem::take(&mut self.freed_ranges),
            )
        })
    }

    /// Whether the peer's FIN is to be told; it counts as told then.
    pub fn take_peer_closed(&mut self) -> bool {
        std::mem::take(&mut self.peer_closed)
    }

    /// Why the connection ended, if that is to be told; it counts as told then.
    pub fn take_end(&mut self) -> Option<DeadReason> {
        let End::ToTell(reason) = self.end else {
            return None;
        };
        self.end = End::Told;
        Some(reason)
    }
}
