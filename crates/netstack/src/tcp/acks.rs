//! Delayed acknowledgements (RFC 5681, 4.2; RFC 5961, 7).

use crate::api::{TcpConfig, Time};
use crate::tuning::acks::{ANSWER_MISSED, CHALLENGE_INTERVAL};
use std::time::Duration;

/// Acknowledgements that the connection owes its peer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acks {
    is_due: bool,
    /// Bytes of received data that are not acknowledged yet.
    unacked_bytes: u32,
    /// Score of recent answers of the application within [`TcpConfig::answer_wait`].
    answers: i8,
    /// Segments acknowledged at once so far, up to [`TcpConfig::quick_acks`].
    quick: u8,
    /// The next data is sent with the handshake's last acknowledgement, so it answers the SYN+ACK.
    greets: bool,
    /// A segment with PSH arrived, and no data was sent since.
    question: bool,
    /// Time of the last acknowledgement that answered an unacceptable segment.
    challenged_at: Option<Time>,
}

impl Acks {
    /// Whether an acknowledgement is due now.
    pub const fn is_due(&self) -> bool {
        self.is_due
    }

    /// Makes an acknowledgement due now.
    pub fn demand(&mut self) {
        self.is_due = true;
    }

    /// Records that an acknowledgement was sent, or is no longer needed.
    pub fn sent(&mut self) {
        (self.is_due, self.unacked_bytes) = (false, 0);
        if std::mem::take(&mut self.greets) {
            self.question = false;
        }
    }

    /// Makes a challenge acknowledgement due for an unacceptable segment, unless one was sent
    /// recently.
    pub fn challenge(&mut self, now: Time) {
        let recent = |at: Time| now.since(at) < CHALLENGE_INTERVAL;
        if !self.challenged_at.is_some_and(recent) {
            self.challenged_at = Some(now);
            self.is_due = true;
        }
    }

    /// Records `bytes` of data received in order. Returns the longest delay of their
    /// acknowledgement, or `None` if it is due now. `ends`: the data ends a request (PSH). `fills`:
    /// the data fills a hole below buffered data.
    ///
    /// Every second full segment, and data that fills a hole, is acknowledged at once (RFC 5681,
    /// 4.2). So is the end of a request, unless the application has recently answered quickly: then
    /// its answer carries the acknowledgement. (An answer in the same turn of the caller's loop
    /// always does.) Only the first of two full segments waits for `delayed_ack`.
    pub fn received(
        &mut self,
        bytes: u32,
        full_segment: u32,
        ends: bool,
        fills: bool,
        config: &TcpConfig,
    ) -> Option<Duration> {
        self.unacked_bytes += bytes;
        self.question |= ends;
        let is_quick = self.quick < config.quick_acks && !self.is_answer_expected(config);
        self.quick += u8::from(is_quick);
        let segments = u32::from(if ends { 2 } else { config.burst_segments });
        if fills
            || is_quick
            || self.unacked_bytes >= segments * full_segment
            || (ends && !self.is_answer_expected(config))
        {
            self.is_due = true;
            return None;
        }
        Some(if self.unacked_bytes >= 2 * full_segment {
            config.burst_wait
        } else if ends {
            config.answer_wait
        } else {
            config.delayed_ack
        })
    }

    /// Records the peer's answer to our SYN: data sent with the acknowledgement counts as the
    /// answer to the SYN+ACK.
    pub fn syn_answered(&mut self) {
        (self.question, self.greets) = (true, true);
    }

    fn is_answer_expected(&self, config: &TcpConfig) -> bool {
        self.answers >= expected(config)
    }

    /// Records that data is sent; the last segment arrived at `heard`. Data that follows soon
    /// counts as an answer.
    pub fn answered(&mut self, heard: Time, now: Time, config: &TcpConfig) {
        if std::mem::take(&mut self.question) && now.since(heard) <= config.answer_wait {
            self.answers = self.answers.saturating_add(1).min(expected(config) + 3);
        }
    }

    /// Makes an acknowledgement due whose delay has ended.
    pub fn make_due(&mut self, config: &TcpConfig) {
        self.is_due = true;
        if self.question && self.is_answer_expected(config) {
            self.answers = ANSWER_MISSED;
        }
    }
}

fn expected(config: &TcpConfig) -> i8 {
    config.answers_expected.min(100) as i8
}
