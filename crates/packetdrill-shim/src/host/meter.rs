//! Counters of a connection for `TCP_INFO`: segments, and the time spent in each state.

use cofferdam_netstack::Time;
use std::time::Duration;

/// Limit of a sender (`tcp_chrono` of Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendLimit {
    /// No data to send.
    #[default]
    Idle,
    /// Only the network and congestion control.
    Busy,
    /// The peer's receive window.
    ByWindow,
    /// The send buffer, which is full and completely in flight.
    ByBuffer,
}

/// Counters of one connection.
#[derive(Clone, Debug)]
pub struct Meter {
    pub began: Time,
    pub data_sent_at: Option<Time>,
    pub data_received_at: Option<Time>,
    pub ack_received_at: Option<Time>,
    /// Time of the first segment after the SYN-ACK.
    pub ack_received_at_first: Option<Time>,
    pub segments_out: u32,
    pub segments_in: u32,
    pub data_segments_out: u32,
    pub data_segments_in: u32,
    pub bytes_sent: u64,
    pub bytes_sent_again: u64,
    /// Bytes sent with the SYN, and how many of them the SYN-ACK acknowledged.
    pub syn_bytes: u32,
    pub syn_bytes_acked: u32,
    /// Payload of the largest segment received, in bytes.
    pub peer_segment_bytes: Option<u32>,
    /// Time with data to send, and how much of it the window or the buffer limited.
    pub busy: Duration,
    pub window_limited: Duration,
    pub buffer_limited: Duration,
    limit: SendLimit,
    since: Time,
}

impl Meter {
    pub fn new(now: Time) -> Meter {
        Meter {
            began: now,
            data_sent_at: None,
            data_received_at: None,
            ack_received_at: None,
            ack_received_at_first: None,
            segments_out: 0,
            segments_in: 0,
            data_segments_out: 0,
            data_segments_in: 0,
            bytes_sent: 0,
            bytes_sent_again: 0,
            syn_bytes: 0,
            syn_bytes_acked: 0,
            peer_segment_bytes: None,
            busy: Duration::ZERO,
            window_limited: Duration::ZERO,
            buffer_limited: Duration::ZERO,
            limit: SendLimit::Idle,
            since: now,
        }
    }

    /// Changes the limit; the time since the last change counts for the old one.
    pub fn set_limit(&mut self, limit: SendLimit, now: Time) {
        let past = now.since(self.since);
        match self.limit {
            SendLimit::Idle => {}
            SendLimit::Busy => self.busy += past,
            SendLimit::ByWindow => {
                self.busy += past;
                self.window_limited += past;
            }
            SendLimit::ByBuffer => {
                self.busy += past;
                self.buffer_limited += past;
            }
        }
        (self.limit, self.since) = (limit, now);
    }

    /// Whether the SYN-ACK acknowledged all data sent with the SYN.
    pub const fn is_syn_acked_whole(&self) -> bool {
        self.syn_bytes_acked == self.syn_bytes
    }

    /// Counts a segment received.
    pub fn received(&mut self, payload: u32, now: Time) {
        self.segments_in += 1;
        self.ack_received_at = Some(now);
        self.ack_received_at_first.get_or_insert(now);
        if payload > 0 {
            self.data_segments_in += 1;
            self.data_received_at = Some(now);
            let largest = self.peer_segment_bytes.unwrap_or(0).max(payload);
            self.peer_segment_bytes = Some(largest);
        }
    }

    /// Counts a segment sent; `again` marks a retransmission.
    pub fn sent(&mut self, payload: u32, again: bool, now: Time) {
        self.segments_out += 1;
        if payload > 0 {
            self.data_segments_out += 1;
            self.data_sent_at = Some(now);
            self.bytes_sent += u64::from(payload);
            if again {
                self.bytes_sent_again += u64::from(payload);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_the_limit_of_the_sender() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut meter = Meter::new(at(0));
        meter.set_limit(SendLimit::ByWindow, at(10));
        meter.set_limit(SendLimit::Busy, at(30));
        meter.set_limit(SendLimit::ByBuffer, at(35));
        meter.set_limit(SendLimit::Idle, at(36));
        meter.set_limit(SendLimit::Idle, at(99));
        let ms = Duration::from_millis;
        assert_eq!(
            (meter.busy, meter.window_limited, meter.buffer_limited),
            (ms(26), ms(20), ms(1))
        );
    }
}
