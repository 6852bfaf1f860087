//! The token bucket of `bpf/enforce/drop.bpf.c`, with fractions of packets.

use crate::network::policy::Spending;
use crate::network::policy::facts::PacketCounts;

/// `EARLY_OF_1024` of the program.
const EARLY_DROP_PART: f64 = 16.0 / 1024.0;

/// Token bucket of one tenant, with its counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// `None` until a limit is in force.
    pub spending: Option<Spending>,
    tokens_ns: f64,
    passed: f64,
    dropped: f64,
    /// Packets dropped since the start.
    pub dropped_in_all: f64,
}

impl Bucket {
    /// Returns how many of the packets that arrive within `ns` pass. `chance` (0..1) decides about
    /// early losses.
    pub fn pass(&mut self, packets: f64, is_stream: bool, ns: f64, chance: f64) -> f64 {
        let Some(Spending {
            cpus: Some(cpus),
            ns_per_rx_packet: cost,
            saves_up,
            ..
        }) = self.spending
        else {
            self.passed += if self.spending.is_some() {
                packets
            } else {
                0.0
            };
            return packets;
        };
        let burst = cpus * saves_up.as_nanos() as f64;
        self.tokens_ns = (self.tokens_ns + cpus * ns).min(burst);
        let passes = if is_stream {
            let lost = packets * stream_drops(self.tokens_ns, burst);
            // Losses are whole packets: a fraction is one packet now and then.
            let lost = lost.floor() + f64::from(u8::from(chance < lost.fract()));
            (packets - lost).max(0.0)
        } else {
            packets.min(self.tokens_ns.max(0.0) / cost)
        };
        self.tokens_ns -= passes * cost;
        self.passed += passes;
        self.dropped += packets - passes;
        self.dropped_in_all += packets - passes;
        passes
    }

    /// Packets that passed and were dropped since the last call.
    pub fn counts(&mut self) -> PacketCounts {
        let whole = |count: &mut f64| {
            let whole = count.floor();
            *count -= whole;
            whole as u64
        };
        PacketCounts {
            rx_passed: whole(&mut self.passed),
            rx_dropped: whole(&mut self.dropped),
            ..PacketCounts::default()
        }
    }
}

/// Part of a stream's packets that is dropped.
fn stream_drops(tokens: f64, burst: f64) -> f64 {
    let half = burst / 2.0 + 1.0;
    if tokens >= half {
        0.0
    } else if tokens >= 0.0 {
        (half - tokens) / half * EARLY_DROP_PART
    } else if tokens <= -burst {
        1.0
    } else {
        let part = -tokens / (burst + 1.0);
        EARLY_DROP_PART + part * part * (1.0 - EARLY_DROP_PART)
    }
}
