//! When to acknowledge (RFC 5681, 4.2; RFC 5961, 7).

use crate::api::{TcpConfig, Time};
use crate::tuning::acks::{ANSWER_MISSED, CHALLENGE_INTERVAL};
use std::time::Duration;

/// The acknowledgements that are owed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acks {
    is_due: bool,
    /// Data received and not acknowledged, in bytes.
    unacked_bytes: u32,
    /// How often lately the application answered within [`TcpConfig::answer_wait`].
    answers: i8,
    /// Segments acknowledged so far, as far as the first ones are acknowledged at once.
    quick: u8,
    /// What is sent with the first acknowledgement answers the peer's SYN+ACK.
    greets: bool,
    /// A pushed segment was received, and no data sent since.
    question: bool,
    /// Last time an acknowledgement answered an unacceptable segment.
    challenged_at: Option<Time>,
}

impl Acks {
    /// One is to be sent at once.
    pub const fn is_due(&self) -> bool {
        self.is_due
    }

    /// One is to be sent at once.
    pub fn demand(&mut self) {
        self.is_due = true;
    }

    /// One was sent, or none is to be sent any more.
    pub fn sent(&mut self) {
        (self.is_due, self.unacked_bytes) = (false, 0);
        if std::mem::take(&mut self.greets) {
            self.question = false;
        }
    }

    /// Acknowledges what we have, for a segment that does not fit; not too often.
    pub fn challenge(&mut self, now: Time) {
        let recent = |at: Time| now.since(at) < CHALLENGE_INTERVAL;
        if !self.challenged_at.is_some_and(recent) {
            self.challenged_at = Some(now);
            self.is_due = true;
        }
    }

    /// `bytes` of data came in order: how long their acknowledgement may wait; `None`: not at all.
    /// `ends`: it is the end of a request. `fills`: data behind it was there already.
    ///
    /// Every second full segment and what fills a hole are acknowledged at once (RFC 5681, 4.2). The
    /// end of a request too, unless the application has answered quickly lately: then its answer
    /// carries the acknowledgement. (An answer in the same turn of the caller's loop always does.)
    /// Only the first of two full segments waits for long.
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

    /// The peer answered our SYN: data that is sent with the acknowledgement answers that.
    pub fn greeted(&mut self) {
        (self.question, self.greets) = (true, true);
    }

    fn is_answer_expected(&self, config: &TcpConfig) -> bool {
        self.answers >= expected(config)
    }

    /// Data goes out; the last segment came at `heard`. Perhaps it answers.
    pub fn answered(&mut self, heard: Time, now: Time, config: &TcpConfig) {
        if std::mem::take(&mut self.question) && now.since(heard) <= config.answer_wait {
            self.answers = self.answers.saturating_add(1).min(expected(config) + 3);
        }
    }

    /// The acknowledgement can wait no longer.
    pub fn missed(&mut self, config: &TcpConfig) {
        self.is_due = true;
        if self.question && self.is_answer_expected(config) {
            self.answers = ANSWER_MISSED;
        }
    }
}

fn expected(config: &TcpConfig) -> i8 {
    config.answers_expected.min(100) as i8
}
