//! Proportional rate reduction (RFC 9937): the amount that each acknowledgement allows to send
//! during recovery. The window shrinks over a round trip, without a burst and without a pause.

/// State of a recovery, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prr {
    /// Bytes in flight at its start (RecoverFS).
    flight: u32,
    /// Bytes that have arrived since (prr_delivered).
    delivered: u32,
    /// Bytes sent since (prr_out).
    out: u32,
}

/// Contents of one acknowledgement.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    /// Bytes whose arrival it reports.
    pub bytes: u32,
    /// Whether it acknowledges new data and reveals no loss (SafeACK).
    pub is_safe: bool,
}

impl Prr {
    /// Starts a recovery with `flight` bytes in flight.
    pub fn begin(&mut self, flight: u32) {
        *self = Self {
            flight: flight.max(1),
            ..Self::default()
        };
    }

    /// Adds the bytes that were reported by the acknowledgement which started the recovery: they
    /// were in flight before it.
    pub fn begins_with(&mut self, bytes: u32) {
        self.flight += bytes;
    }

    /// Records that `bytes` are sent.
    pub fn sent(&mut self, bytes: u32) {
        self.out = self.out.wrapping_add(bytes);
    }

    /// Whether anything was sent since the recovery began.
    pub const fn has_sent(&self) -> bool {
        self.out > 0
    }

    /// Congestion window after an acknowledgement with `pipe` bytes in flight (RFC 9937, 6).
    pub fn window(&mut self, delivery: Delivery, pipe: u32, ssthresh: u32, mss: u32) -> u32 {
        self.delivered += delivery.bytes;
        let mut room = if pipe > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(self.flight)) as u32;
            // Whole segments are sent, so the rest of one is not saved.
            share.saturating_sub(self.out).div_ceil(mss) * mss
        } else {
            let mut room = self.delivered.saturating_sub(self.out).max(delivery.bytes);
            if delivery.is_safe {
                room += mss;
            }
            room.min(ssthresh - pipe)
        };
        // The first segment is always retransmitted.
        if self.out == 0 {
            room = room.max(mss);
        }
        pipe.saturating_add(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// Twenty segments are in flight, the first is lost, and the window halves: every second
    /// acknowledgement allows one segment, until half is in flight.
    /// Promise 58.
    #[test]
    fn prr_reduces_the_window_over_a_round_trip() {
        let mut prr = Prr::default();
        prr.begin(20 * MSS);
        let (mut pipe, ssthresh) = (19 * MSS, 10 * MSS);
        let mut sent = Vec::new();
        for _ in 0..19 {
            pipe -= MSS;
            let delivery = Delivery {
                bytes: MSS,
                is_safe: false,
            };
            let window = prr.window(delivery, pipe, ssthresh, MSS);
            let out = window.saturating_sub(pipe) / MSS;
            prr.sent(out * MSS);
            pipe += out * MSS;
            sent.push(out);
        }
        assert_eq!(pipe, ssthresh);
        assert_eq!(sent.iter().sum::<u32>(), 10);
        assert!(sent.iter().all(|out| *out <= 1), "a burst: {sent:?}");
        assert!(
            sent.windows(3).all(|out| out.contains(&1)),
            "a pause: {sent:?}"
        );
    }

    /// Little is in flight: an acknowledgement allows as many bytes as it reports, and one segment
    /// more if it reveals no loss, until the pipe reaches `ssthresh`.
    /// Promise 58.
    #[test]
    fn below_ssthresh_prr_grows_like_slow_start() {
        let mut prr = Prr::default();
        prr.begin(20 * MSS);
        let step = |is_safe| Delivery {
            bytes: MSS,
            is_safe,
        };
        assert_eq!(prr.window(step(false), 4 * MSS, 10 * MSS, MSS), 5 * MSS);
        prr.sent(MSS);
        assert_eq!(prr.window(step(true), 4 * MSS, 10 * MSS, MSS), 6 * MSS);
        prr.sent(2 * MSS);
        assert_eq!(prr.window(step(true), 9_500, 10 * MSS, MSS), 10 * MSS);
    }
}
