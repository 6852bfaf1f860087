//! What the application knows of a connection, and what is still to be reported to it.

use crate::api::DeadReason;

/// How far the application knows of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Half-open, of a listener: there is nothing to report.
    #[default]
    HalfOpen,
    /// Open; the knock is to be reported.
    Open,
    /// The knock was reported, and not answered yet.
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
    Unreported(DeadReason),
    Reported,
    /// It has ended, and that is not reported: it was rejected, never knocked, or has moved
    /// to another stack.
    Silent,
}

/// What is still to be reported to the application.
#[derive(Debug, Clone, Copy, Default)]
pub struct Notices {
    stage: Stage,
    end: End,
    connected: bool,
    urgent: bool,
    peer_closed: bool,
    /// Bytes that were acknowledged and not reported.
    acked_bytes: u32,
    /// Ranges that were wholly acknowledged and not reported.
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

    /// Its end was reported, or is not to be reported.
    pub fn is_end_settled(&self) -> bool {
        matches!(self.end, End::Reported | End::Silent)
    }

    /// Its end was reported.
    pub fn is_end_reported(&self) -> bool {
        matches!(self.end, End::Reported)
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

    /// The application closes the connection: the peer's FIN is not reported any more.
    pub fn forget_peer_closed(&mut self) {
        self.peer_closed = false;
    }

    /// The connection has ended; a second end changes nothing.
    pub fn ended(&mut self, reason: DeadReason) {
        if !self.has_ended() {
            self.end = End::Unreported(reason);
        }
    }

    /// It has ended, and that is not reported.
    pub fn end_silently(&mut self) {
        self.end = End::Silent;
    }

    /// An ended connection that the application never heard of is not reported. Says whether
    /// nothing is to be reported at all.
    pub fn hush(&mut self) -> bool {
        if !self.has_ended() {
            return false;
        }
        if matches!(self.stage, Stage::HalfOpen | Stage::Open) {
            self.end = End::Silent;
        }
        matches!(self.end, End::Silent)
    }

    /// Whether something is to be reported, received data apart.
    pub fn any(&self) -> bool {
        // Without a branch in the usual case: this is asked several times a packet.
        if self.is_owned() {
            self.connected
                | self.urgent
                | self.peer_closed
                | (self.acked_bytes > 0)
                | self.has_ended()
        } else {
            self.stage == Stage::Open || self.has_ended()
        }
    }

    /// Whether the knock is to be reported; it counts as reported then.
    pub fn take_knock(&mut self) -> bool {
        let is_due = self.stage == Stage::Open;
        if is_due {
            self.stage = Stage::Knocked;
        }
        is_due
    }

    /// Whether the end of the handshake is to be reported; it counts as reported then.
    pub fn take_connected(&mut self) -> bool {
        std::mem::take(&mut self.connected)
    }

    /// The peer has announced urgent data.
    pub fn urgent_announced(&mut self) {
        self.urgent = true;
    }

    /// Whether urgent data is to be reported; it counts as reported then.
    pub fn take_urgent(&mut self) -> bool {
        std::mem::take(&mut self.urgent)
    }

    /// Bytes and ranges acknowledged and not reported before; `None` for no bytes.
    pub fn take_acked(&mut self) -> Option<(u32, u32)> {
        (self.acked_bytes > 0).then(|| {
            (
                std::mem::take(&mut self.acked_bytes),
                std::mem::take(&mut self.freed_ranges),
            )
        })
    }

    /// Whether the peer's FIN is to be reported; it counts as reported then.
    pub fn take_peer_closed(&mut self) -> bool {
        std::mem::take(&mut self.peer_closed)
    }

    /// Why the connection ended, if that is to be reported; it counts as reported then.
    pub fn take_end(&mut self) -> Option<DeadReason> {
        let End::Unreported(reason) = self.end else {
            return None;
        };
        self.end = End::Reported;
        Some(reason)
    }
}
