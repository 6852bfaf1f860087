//! What a connection has done, as `TCP_INFO` reports it: counts of segments, and where time went.

use cofferdam_netstack::Time;
use std::time::Duration;

/// What keeps a sender from sending (Linux's `tcp_chrono`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// It has nothing to send.
    #[default]
    Idle,
    /// Nothing but the network and congestion control.
    Busy,
    /// The peer's window.
    ByWindow,
    /// Its own buffer is full, and all in it is under way.
    ByBuffer,
}

/// The counts of one connection.
#[derive(Clone, Debug)]
pub struct Meter {
    pub began: Time,
    pub data_sent_at: Option<Time>,
    pub data_received_at: Option<Time>,
    pub ack_received_at: Option<Time>,
    /// The first segment that came after the handshake, or ended it.
    pub ack_received_at_first: Option<Time>,
    pub segments_out: u32,
    pub segments_in: u32,
    pub data_segments_out: u32,
    pub data_segments_in: u32,
    pub bytes_sent: u64,
    pub bytes_sent_again: u64,
    /// What of the stream went with the SYN, and what of it its acknowledgement took, in bytes.
    pub syn_bytes: u32,
    pub syn_bytes_acked: u32,
    /// The largest segment that came, in bytes of payload.
    pub peer_segment_bytes: Option<u32>,
    /// Time with data to send; of it, time that the window or the buffer held it back.
    pub busy: Duration,
    pub window_limited: Duration,
    pub buffer_limited: Duration,
    held: Held,
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
            held: Held::Idle,
            since: now,
        }
    }

    /// From now on it is held so; the time until now counts as before.
    pub fn hold(&mut self, held: Held, now: Time) {
        let past = now.since(self.since);
        match self.held {
            Held::Idle => {}
            Held::Busy => self.busy += past,
            Held::ByWindow => {
                self.busy += past;
                self.window_limited += past;
            }
            Held::ByBuffer => {
                self.busy += past;
                self.buffer_limited += past;
            }
        }
        (self.held, self.since) = (held, now);
    }

    /// Nothing of what went with the SYN had to be sent again.
    pub const fn is_syn_acked_whole(&self) -> bool {
        self.syn_bytes_acked == self.syn_bytes
    }

    /// A segment came.
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

    /// A segment left; `again`: not for the first time.
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
    fn time_goes_to_what_held_the_sender() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut meter = Meter::new(at(0));
        meter.hold(Held::ByWindow, at(10));
        meter.hold(Held::Busy, at(30));
        meter.hold(Held::ByBuffer, at(35));
        meter.hold(Held::Idle, at(36));
        meter.hold(Held::Idle, at(99));
        let ms = Duration::from_millis;
        assert_eq!(
            (meter.busy, meter.window_limited, meter.buffer_limited),
            (ms(26), ms(20), ms(1))
        );
    }
}
