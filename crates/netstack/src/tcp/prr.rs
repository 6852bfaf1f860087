//! Proportional rate reduction (RFC 9937): how much each acknowledgement lets out during recovery, so
//! that the window comes down over a round trip, without a burst and without a pause.

/// What has happened since the recovery began, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prr {
    /// Under way when it began (RecoverFS).
    flight: u32,
    /// Has arrived since.
    delivered: u32,
    /// Was sent since.
    out: u32,
}

/// What one acknowledgement says.
#[derive(Debug, Clone, Copy)]
pub struct Delivery {
    /// Bytes that have arrived by it.
    pub bytes: u32,
    /// It acknowledged new data and revealed no loss (SafeACK).
    pub is_safe: bool,
}

impl Prr {
    /// Recovery begins with `flight` bytes under way that have not arrived.
    pub fn begin(&mut self, flight: u32) {
        *self = Self {
            flight: flight.max(1),
            ..Self::default()
        };
    }

    /// The acknowledgement with which it begins reports `bytes`: they were under way until then.
    pub fn begins_with(&mut self, bytes: u32) {
        self.flight += bytes;
    }

    /// `bytes` go out.
    pub fn sent(&mut self, bytes: u32) {
        self.out = self.out.wrapping_add(bytes);
    }

    /// Something was sent since the recovery began.
    pub const fn has_sent(&self) -> bool {
        self.out > 0
    }

    /// The congestion window after an acknowledgement, where `pipe` bytes are under way (RFC 9937, 6).
    pub fn window(&mut self, delivery: Delivery, pipe: u32, ssthresh: u32, mss: u32) -> u32 {
        self.delivered += delivery.bytes;
        let mut room = if pipe > ssthresh {
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(self.flight)) as u32;
            // Whole segments: a part of one that is left over is not saved up.
            share.saturating_sub(self.out).div_ceil(mss) * mss
        } else {
            let mut room = self.delivered.saturating_sub(self.out).max(delivery.bytes);
            if delivery.is_safe {
                room += mss;
            }
            room.min(ssthresh - pipe)
        };
        // The first segment is sent again whatever the rest says.
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

    /// Twenty segments under way, the first lost, half the window: every second acknowledgement lets
    /// one out, until half is under way.
    /// Promise 58.
    #[test]
    fn the_window_comes_down_over_a_round_trip() {
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

    /// Little is left under way: an acknowledgement lets as much out as it reports; one that reveals no
    /// loss a segment more, until `ssthresh` is reached.
    /// Promise 58.
    #[test]
    fn below_the_threshold_it_grows_as_slow_start_does() {
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
