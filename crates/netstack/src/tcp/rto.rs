//! Retransmission timeout (RFC 6298).

use super::seq;
use crate::api::{TcpConfig, Time};
use std::time::Duration;

/// Round-trip estimate and retransmission timeout.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rto {
    /// Smoothed round-trip time; zero before the first measurement.
    srtt_ns: u64,
    rttvar_ns: u64,
    /// Timeout without back-off.
    rto_ns: u64,
    backoff: u8,
    /// Segment whose round trip is measured: expected acknowledgement and send time. A
    /// retransmitted segment is not measured (Karn's rule; RFC 6298, 3).
    timed: Option<(u32, Time)>,
}

impl Rto {
    /// The timeout before any measurement (rule 2.1).
    pub fn new(config: &TcpConfig) -> Self {
        Self {
            srtt_ns: 0,
            rttvar_ns: 0,
            rto_ns: config.initial_rto.as_nanos() as u64,
            backoff: 0,
            timed: None,
        }
    }

    /// Records a measurement (rules 2.2 to 2.4): α = 1/8, β = 1/4, K = 4. The clock granularity of
    /// a nanosecond is negligible, so only the configured minimum limits the variance.
    pub fn measured(&mut self, rtt: Duration, config: &TcpConfig) {
        let rtt = (rtt.as_nanos() as u64).max(1);
        if self.srtt_ns == 0 {
            self.srtt_ns = rtt;
            self.rttvar_ns = rtt / 2;
        } else {
            let off = self.srtt_ns.abs_diff(rtt);
            self.rttvar_ns = self.rttvar_ns - self.rttvar_ns / 4 + off / 4;
            self.srtt_ns = self.srtt_ns - self.srtt_ns / 8 + rtt / 8;
        }
        let most = config.max_rto.as_nanos() as u64;
        // The minimum is added to the round trip: the peer may delay an acknowledgement by that
        // time on any path.
        let least = config.min_rto.as_nanos() as u64;
        let wait = self.rttvar_ns.saturating_mul(4).max(least);
        self.rto_ns = self.srtt_ns.saturating_add(wait).min(most);
        self.backoff = 0;
    }

    /// Records a measurement from an echoed timestamp during recovery. The echo may be of an old
    /// segment: a receiver that has everything repeats it if its acknowledgements are lost. The
    /// measurement is therefore limited to twice the timeout, which still follows a path that has
    /// become slow.
    pub fn measured_by_echo(&mut self, rtt: Duration, config: &TcpConfig) {
        let most = Duration::from_nanos(self.rto_ns.saturating_mul(2));
        self.measured(rtt.min(most), config);
    }

    /// Starts to measure a segment that is sent for the first time, with the expected
    /// acknowledgement `awaited`, unless a measurement is in progress.
    pub fn time(&mut self, awaited: u32, now: Time) {
        self.timed.get_or_insert((awaited, now));
    }

    /// Whether a measurement is in progress.
    pub const fn is_timing(&self) -> bool {
        self.timed.is_some()
    }

    /// Cancels the measurement because data is retransmitted.
    pub fn stop_timing(&mut self) {
        self.timed = None;
    }

    /// Cancels the measurement if data from `start` on is retransmitted before the measured
    /// segment.
    pub fn stop_timing_from(&mut self, start: u32) {
        if (self.timed).is_some_and(|(awaited, _)| seq::lt(start, awaited)) {
            self.timed = None;
        }
    }

    /// Completes the measurement if `ack` acknowledges the segment.
    pub fn acknowledged(&mut self, ack: u32, now: Time, config: &TcpConfig) {
        if let Some((awaited, sent)) = self.timed
            && seq::le(awaited, ack)
        {
            self.timed = None;
            self.measured(now.since(sent), config);
        }
    }

    /// Processes the end of the handshake; `repeated`: our SYN was retransmitted.
    pub fn handshake_done(&mut self, repeated: bool, now: Time, config: &TcpConfig) {
        if let Some((_, sent)) = self.timed.take() {
            self.measured(now.since(sent), config);
        } else if repeated {
            self.after_lost_handshake();
        }
    }

    /// Ends the back-off because new data was acknowledged (RFC 6298, 5.7 and its note).
    pub fn progress(&mut self) {
        self.backoff = 0;
    }

    /// Doubles the next timeout (rule 5.5).
    pub fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Sets the timeout to three seconds if the handshake needed a retransmission and gave no
    /// measurement (rule 5.7).
    fn after_lost_handshake(&mut self) {
        if self.srtt_ns == 0 {
            self.rto_ns = self.rto_ns.max(3_000_000_000);
        }
        self.backoff = 0;
    }

    /// Timeout with back-off.
    pub fn timeout(&self, config: &TcpConfig) -> Duration {
        let most = config.max_rto.as_nanos() as u64;
        let ns = self
            .rto_ns
            .checked_shl(u32::from(self.backoff.min(20)))
            .unwrap_or(most);
        Duration::from_nanos(ns.min(most))
    }

    /// Smoothed round-trip time, if measured.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt_ns != 0).then(|| Duration::from_nanos(self.srtt_ns))
    }

    /// Round-trip time variation, if measured.
    pub fn rttvar(&self) -> Option<Duration> {
        (self.srtt_ns != 0).then(|| Duration::from_nanos(self.rttvar_ns))
    }

    /// Number of times that the timeout was doubled.
    pub const fn backoff(&self) -> u8 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn config() -> TcpConfig {
        TcpConfig {
            min_rto: MS(1),
            ..TcpConfig::default()
        }
    }

    /// Promise 58.
    #[test]
    fn the_timeout_starts_at_one_second_and_follows_measurements() {
        let mut rto = Rto::new(&config());
        assert_eq!(rto.timeout(&config()), MS(1000));
        rto.measured(MS(100), &config());
        assert_eq!(
            (rto.srtt(), rto.timeout(&config())),
            (Some(MS(100)), MS(300))
        );
        // RTTVAR = 3/4·50 + 1/4·80 = 57.5; SRTT = 7/8·100 + 1/8·180 = 110; RTO = 340.
        rto.measured(MS(180), &config());
        assert_eq!(
            (rto.srtt(), rto.timeout(&config())),
            (Some(MS(110)), MS(340))
        );
    }

    /// Promise 58.
    #[test]
    fn the_timeout_doubles_to_the_maximum_until_progress() {
        let mut rto = Rto::new(&config());
        rto.measured(MS(100), &config());
        let mut seen = Vec::new();
        for _ in 0..10 {
            rto.back_off();
            seen.push(rto.timeout(&config()).as_millis());
        }
        assert_eq!(
            seen,
            [
                600, 1200, 2400, 4800, 9600, 19200, 38400, 60000, 60000, 60000
            ]
        );
        (0..300).for_each(|_| rto.back_off());
        assert_eq!(rto.timeout(&config()), MS(60_000));
        rto.progress();
        assert_eq!(rto.timeout(&config()), MS(300));
    }

    /// A timeout of 60 s would outlast the peer's TIME-WAIT.
    /// Promise 59.
    #[test]
    fn a_stale_echo_lengthens_the_timeout_a_little() {
        let mut rto = Rto::new(&config());
        rto.measured(MS(100), &config());
        rto.measured_by_echo(MS(60_000), &config());
        assert!(
            rto.timeout(&config()) < MS(1000),
            "{:?}",
            rto.timeout(&config())
        );
        (0..30).for_each(|_| rto.measured_by_echo(MS(5000), &config()));
        assert!(rto.timeout(&config()) > MS(5000), "a slow path is followed");
    }

    #[test]
    fn a_lost_syn_sets_the_timeout_to_three_seconds() {
        let mut rto = Rto::new(&config());
        rto.back_off();
        rto.after_lost_handshake();
        assert_eq!(rto.timeout(&config()), MS(3000));
        rto.measured(MS(2), &config());
        assert_eq!(rto.timeout(&config()), MS(6));
    }
}
