//! Events of a connection that are not reported to the application yet.

use crate::api::DeadReason;

/// Progress of the application's knowledge of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Half-open connection of a listener: there is nothing to report.
    #[default]
    HalfOpen,
    /// Open; the `Knock` event is pending.
    Open,
    /// The `Knock` event was reported, and the application has not answered it.
    Knocked,
    /// The application opened or accepted the connection.
    Owned,
}

/// End of the connection.
#[derive(Debug, Clone, Copy, Default)]
enum End {
    /// The connection is alive.
    #[default]
    None,
    Unreported(DeadReason),
    Reported,
    /// The connection has ended and no event reports that: it was rejected, never reported, or has
    /// moved to another stack.
    Silent,
}

/// Events that are not reported to the application yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Notices {
    stage: Stage,
    end: End,
    connected: bool,
    urgent: bool,
    peer_closed: bool,
    /// Acknowledged bytes that are not reported.
    acked_bytes: u32,
    /// Wholly acknowledged ranges that are not reported.
    freed_ranges: u32,
}

impl Notices {
    /// Records that the application opens or accepts the connection.
    pub fn own(&mut self) {
        self.stage = Stage::Owned;
    }

    /// Whether the application opened or accepted the connection.
    pub fn is_owned(&self) -> bool {
        self.stage == Stage::Owned
    }

    /// Whether the connection waits for `accept` or `reject`.
    pub fn is_knocking(&self) -> bool {
        self.stage == Stage::Knocked
    }

    /// Whether the connection belongs to a listener and its handshake is not complete.
    pub fn is_half_open(&self) -> bool {
        self.stage == Stage::HalfOpen
    }

    /// Whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        !matches!(self.end, End::None)
    }

    /// Whether the end was reported, or never will be.
    pub fn is_end_final(&self) -> bool {
        matches!(self.end, End::Reported | End::Silent)
    }

    /// Whether the end was reported.
    pub fn is_end_reported(&self) -> bool {
        matches!(self.end, End::Reported)
    }

    /// Records that the handshake is complete. Returns whether the application opened the
    /// connection.
    pub fn opened(&mut self) -> bool {
        match self.stage {
            Stage::Owned => self.connected = true,
            Stage::HalfOpen => self.stage = Stage::Open,
            Stage::Open | Stage::Knocked => {}
        }
        self.is_owned()
    }

    /// Records that `bytes` of data were acknowledged.
    pub fn acked(&mut self, bytes: u32) {
        self.acked_bytes += bytes;
    }

    /// Records that `count` ranges of data were wholly acknowledged.
    pub fn freed_ranges(&mut self, count: u32) {
        self.freed_ranges += count;
    }

    /// Records the peer's FIN. `wanted` is `false` if the application has closed the connection.
    pub fn peer_closed(&mut self, wanted: bool) {
        self.peer_closed = wanted;
    }

    /// Drops the report of the peer's FIN because the application closes the connection.
    pub fn forget_peer_closed(&mut self) {
        self.peer_closed = false;
    }

    /// Records the connection's end; a second end has no effect.
    pub fn ended(&mut self, reason: DeadReason) {
        if !self.has_ended() {
            self.end = End::Unreported(reason);
        }
    }

    /// Records an end that no event reports.
    pub fn end_silently(&mut self) {
        self.end = End::Silent;
    }

    /// Silences the end of a connection that the application does not know. Returns whether no end
    /// will be reported.
    pub fn silence_end(&mut self) -> bool {
        if !self.has_ended() {
            return false;
        }
        if matches!(self.stage, Stage::HalfOpen | Stage::Open) {
            self.end = End::Silent;
        }
        matches!(self.end, End::Silent)
    }

    /// Whether there is an event to report other than received data.
    pub fn any(&self) -> bool {
        // The usual case has no branch: this runs several times per packet.
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

    /// Returns whether the `Knock` event is due, and marks it as reported.
    pub fn take_knock(&mut self) -> bool {
        let is_due = self.stage == Stage::Open;
        if is_due {
            self.stage = Stage::Knocked;
        }
        is_due
    }

    /// Returns whether the `Connected` event is due, and marks it as reported.
    pub fn take_connected(&mut self) -> bool {
        std::mem::take(&mut self.connected)
    }

    /// Records that the peer has announced urgent data.
    pub fn urgent_announced(&mut self) {
        self.urgent = true;
    }

    /// Returns whether the `Urgent` event is due, and marks it as reported.
    pub fn take_urgent(&mut self) -> bool {
        std::mem::take(&mut self.urgent)
    }

    /// Takes the acknowledged bytes and ranges that are not reported; `None` if there are no bytes.
    pub fn take_acked(&mut self) -> Option<(u32, u32)> {
        (self.acked_bytes > 0).then(|| {
            (
                std::mem::take(&mut self.acked_bytes),
                std::mem::take(&mut self.freed_ranges),
            )
        })
    }

    /// Returns whether the `PeerClosed` event is due, and marks it as reported.
    pub fn take_peer_closed(&mut self) -> bool {
        std::mem::take(&mut self.peer_closed)
    }

    /// Returns the reason of the end if a `Dead` event is due, and marks it as reported.
    pub fn take_end(&mut self) -> Option<DeadReason> {
        let End::Unreported(reason) = self.end else {
            return None;
        };
        self.end = End::Reported;
        Some(reason)
    }
}
