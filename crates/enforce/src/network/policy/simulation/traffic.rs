//! Traffic of the simulated host: datagrams that arrive regardless of losses, and a stream that
//! slows down on losses.

/// Round trip of a stream between containers of one host with its scheduling delays, milliseconds.
/// Data in the receiver's socket is acknowledged already, and closes the window instead.
const ROUND_TRIP_MS: f64 = 0.5;
/// Part of its window that a stream keeps after a loss (CUBIC, RFC 9438, section 4.6).
const WINDOW_AFTER_LOSS: f64 = 0.7;
/// Growth of the window per round trip, packets (RFC 9438, section 4.3).
const WINDOW_GROWTH: f64 = 3.0 * (1.0 - WINDOW_AFTER_LOSS) / (1.0 + WINDOW_AFTER_LOSS);
/// Smallest window at which a loss is found without the timer (RFC 5681, section 3.2).
const LEAST_WINDOW: f64 = 4.0;
/// Retransmission timeout, milliseconds (Linux, `TCP_RTO_MIN`).
const SILENT_MS: f64 = 200.0;

/// Source of packets.
#[derive(Clone, Debug)]
pub(super) enum Traffic {
    /// Constant number of packets per millisecond.
    Datagrams(f64),
    /// Congestion-controlled stream.
    Stream(Stream),
}

/// Packets sent and lost in one interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub sent: f64,
    pub lost: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Packets in flight.
    window: f64,
    /// Most packets in flight.
    most: f64,
    slow_start: bool,
    silent_ms: f64,
    round: Outcome,
    round_ms: f64,
}

impl Stream {
    /// Creates a stream that can send `most` packets per millisecond.
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
            self.window *= WINDOW_AFTER_LOSS;
        } else if round.sent < 0.8 * self.window {
            // The receiver's window was the limit (RFC 7661).
        } else if self.slow_start {
            self.window *= 2.0;
        } else {
            self.window += WINDOW_GROWTH;
        }
        self.window = self.window.clamp(1.0, self.most);
    }
}

impl Traffic {
    /// Packets that are sent in the next `ms` milliseconds.
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

    /// Adds the outcome of `ms` milliseconds.
    pub fn learn(&mut self, ms: f64, outcome: Outcome) {
        if let Traffic::Stream(stream) = self {
            stream.take(ms, outcome);
        }
    }
}
