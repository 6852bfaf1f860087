//! Traffic of the simulated host: datagrams that come whatever becomes of them, and a stream that
//! slows down when it loses.

/// Round trip of a stream between containers of one host, with what scheduling adds, milliseconds.
/// What waits in the receiver's socket is acknowledged already, and closes the window instead.
const ROUND_TRIP_MS: f64 = 0.5;
/// What a stream keeps of its window after a loss (CUBIC, RFC 9438, section 4.6).
const AFTER_LOSS: f64 = 0.7;
/// What its window grows by in a round trip (RFC 9438, section 4.3).
const GROWS: f64 = 3.0 * (1.0 - AFTER_LOSS) / (1.0 + AFTER_LOSS);
/// With a smaller window a loss is found by the timer only (RFC 5681, section 3.2).
const LEAST_WINDOW: f64 = 4.0;
/// The timer, milliseconds (Linux, `TCP_RTO_MIN`).
const SILENT_MS: f64 = 200.0;

/// A source of packets.
#[derive(Clone, Debug)]
pub(super) enum Traffic {
    /// So many packets a millisecond.
    Datagrams(f64),
    Stream(Stream),
}

/// What came of the packets of a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub sent: f64,
    pub lost: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Packets under way, now and at most.
    window: f64,
    most: f64,
    slow_start: bool,
    silent_ms: f64,
    round: Outcome,
    round_ms: f64,
}

impl Stream {
    /// One that can send `most` packets a millisecond.
    pub fn new(most: f64) -> Stream {
        Stream {
            window: 10.0,
            most: most * ROUND_TRIP_MS,
            slow_start: true,
            silent_ms: 0.0,
            round: Outcome::default(),
            round_ms: 0.0,
        }
    }

    fn take(&mut self, ms: f64, outcome: Outcome) {
        self.silent_ms = (self.silent_ms - ms).max(0.0);
        self.round.sent += outcome.sent;
        self.round.lost += outcome.lost;
        self.round_ms += ms;
        if self.round_ms < ROUND_TRIP_MS {
            return;
        }
        let round = std::mem::take(&mut self.round);
        self.round_ms = 0.0;
        if self.silent_ms > 0.0 {
            return;
        }
        if round.lost > 0.9 * round.sent && round.sent > 0.5 && self.window <= LEAST_WINDOW {
            self.silent_ms = SILENT_MS;
            self.slow_start = true;
            self.window = 1.0;
        } else if round.lost > 0.0 {
            self.slow_start = false;
            self.window *= AFTER_LOSS;
        } else if round.sent < 0.8 * self.window {
            // The receiver's window was the limit (RFC 7661).
        } else if self.slow_start {
            self.window *= 2.0;
        } else {
            self.window += GROWS;
        }
        self.window = self.window.clamp(1.0, self.most);
    }
}

impl Traffic {
    /// Packets of the next `ms` milliseconds.
    pub fn offers(&self, ms: f64) -> f64 {
        match self {
            Traffic::Datagrams(rate) => rate * ms,
            Traffic::Stream(stream) if stream.silent_ms > 0.0 => 0.0,
            Traffic::Stream(stream) => stream.window / ROUND_TRIP_MS * ms,
        }
    }

    pub fn is_stream(&self) -> bool {
        matches!(self, Traffic::Stream(_))
    }

    /// What came of the packets of `ms` milliseconds.
    pub fn learn(&mut self, ms: f64, outcome: Outcome) {
        if let Traffic::Stream(stream) = self {
            stream.take(ms, outcome);
        }
    }
}
