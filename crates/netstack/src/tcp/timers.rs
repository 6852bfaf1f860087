//! Timers of a connection: retransmission (RFC 6298), tail loss probe (RFC 8985, 7), reordering
//! (RFC 8985, 6.2), delayed acknowledgement (RFC 5681, 4.2), zero-window probe (RFC 9293, 3.8.6.1),
//! keepalive (RFC 9293, 3.8.4) and FIN-WAIT-2. TIME_WAIT has its own table.

use crate::api::{DeadReason, Keepalive, Time};
use std::time::Duration;

/// State of zero-window probing (RFC 9293, 3.8.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Persist {
    #[default]
    Off,
    /// The window is too small to be worth a segment, and data is sent nevertheless (RFC
    /// 9293, 3.8.6.2.1, override).
    Override,
    /// The window is closed, and a probe is due.
    Due,
    /// The window is closed, and a probe was sent.
    Awaiting,
}

/// Purpose of the loss timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossTimer {
    /// Tail loss probe.
    #[default]
    Tail,
    /// Reordering timer.
    Reordering,
}

/// Reaction to a silent peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// None: the silence is shorter than configured.
    Nothing,
    /// A probe is due.
    Probe,
    /// The connection ends: all probes were unanswered.
    GiveUp,
}

/// Expiry of one timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timer(Time);

impl Timer {
    /// Value of a timer that does not run. It is half the size of an `Option`, and compared without
    /// a branch.
    const OFF: Self = Self(Time::from_nanos(u64::MAX));

    fn is_on(self) -> bool {
        self != Self::OFF
    }

    fn at(self) -> Option<Time> {
        self.is_on().then_some(self.0)
    }

    fn is_due(self, now: Time) -> bool {
        self.0 <= now
    }

    /// Returns whether the timer has expired, and stops it in that case.
    fn take_due(&mut self, now: Time) -> bool {
        let is_due = self.is_due(now);
        if is_due {
            *self = Self::OFF;
        }
        is_due
    }
}

/// Timers of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Timers {
    retransmission: Timer,
    /// Expiry of the tail loss probe or of the reordering timer, which never run together (RFC
    /// 8985, 8).
    loss: Timer,
    loss_kind: LossTimer,
    ack: Timer,
    /// Keepalive, or the end of FIN-WAIT-2.
    idle: Timer,
    last_heard: Time,
    /// Consecutive unanswered timeouts or window probes, and the time since when there was no
    /// answer.
    retries: u8,
    stalled_since: Time,
    /// Reason for the silence that a router has reported.
    silence_cause: Option<DeadReason>,
    persist: Persist,
    /// Unanswered keepalive probes, and whether another is due.
    keepalive_probes: u8,
    is_keepalive_due: bool,
}

impl Timers {
    /// Stopped timers.
    pub fn new(now: Time) -> Self {
        Self {
            retransmission: Timer::OFF,
            loss: Timer::OFF,
            loss_kind: LossTimer::Tail,
            ack: Timer::OFF,
            idle: Timer::OFF,
            last_heard: now,
            retries: 0,
            stalled_since: now,
            silence_cause: None,
            persist: Persist::Off,
            keepalive_probes: 0,
            is_keepalive_due: false,
        }
    }

    /// Stops all timers at the connection's end.
    pub fn stop(&mut self) {
        *self = Self::new(self.last_heard);
    }

    /// Expiry of the next timer.
    pub fn deadline(&self) -> Option<Time> {
        // Only the last step has a branch: this runs several times per packet.
        let sooner = self.retransmission.0.min(self.loss.0);
        Timer(sooner.min(self.ack.0).min(self.idle.0)).at()
    }
}

/// Retransmission timer.
impl Timers {
    pub fn retransmit_at(&self) -> Option<Time> {
        self.retransmission.at()
    }

    /// Starts or restarts the timer until `at`.
    pub fn restart_retransmission(&mut self, at: Time) {
        self.retransmission = Timer(at);
    }

    /// Starts the timer unless it runs. Returns its expiry.
    pub fn start_retransmission(&mut self, at: Time) -> Time {
        if !self.retransmission.is_on() {
            self.retransmission = Timer(at);
        }
        self.retransmission.0
    }

    pub fn stop_retransmission(&mut self) {
        self.retransmission = Timer::OFF;
    }

    /// Returns whether the timer has expired, and stops it in that case.
    pub fn take_retransmission(&mut self, now: Time) -> bool {
        self.retransmission.take_due(now)
    }

    /// Consecutive unanswered timeouts or window probes.
    pub const fn retries(&self) -> u8 {
        self.retries
    }

    /// Counts a timeout. Returns `false` if there were already `most`.
    pub fn retry(&mut self, most: u8) -> bool {
        let may = self.retries < most;
        self.retries += u8::from(may);
        may
    }

    /// Time without an answer when a timeout of length `timeout` has expired.
    pub fn silence_duration(&mut self, now: Time, timeout: Duration) -> Duration {
        if self.retries == 0 {
            let sent_ns = now.as_nanos().saturating_sub(timeout.as_nanos() as u64);
            self.stalled_since = Time::from_nanos(sent_ns);
        }
        now.since(self.stalled_since)
    }

    /// Records that the peer has answered.
    pub fn answered(&mut self) {
        (self.retries, self.silence_cause) = (0, None);
    }

    /// Records a router's reason for the peer's silence.
    pub fn set_silence_reason(&mut self, reason: DeadReason) {
        self.silence_cause = Some(reason);
    }

    /// Reason of the end of a connection whose peer is silent: a router's reason, or a timeout.
    pub fn silence_reason(&self) -> DeadReason {
        self.silence_cause.unwrap_or(DeadReason::TimedOut)
    }
}

/// Tail loss probe and reordering timer.
impl Timers {
    pub fn awaits_tail(&self) -> bool {
        self.loss.is_on() && self.loss_kind == LossTimer::Tail
    }

    /// Sets or clears the time of the tail loss probe, unless the reordering timer runs.
    pub fn set_tail_probe(&mut self, at: Option<Time>) {
        if !self.loss.is_on() || self.loss_kind == LossTimer::Tail {
            self.loss = at.map_or(Timer::OFF, Timer);
            self.loss_kind = LossTimer::Tail;
        }
    }

    /// Starts the reordering timer until `at`.
    pub fn watch_reordering(&mut self, at: Time) {
        self.loss = Timer(at);
        self.loss_kind = LossTimer::Reordering;
    }

    /// Stops the reordering timer.
    pub fn stop_reordering(&mut self) {
        if self.loss_kind == LossTimer::Reordering {
            (self.loss, self.loss_kind) = (Timer::OFF, LossTimer::Tail);
        }
    }

    /// Returns the purpose of the loss timer if it has expired, and stops it in that case.
    pub fn take_loss(&mut self, now: Time) -> Option<LossTimer> {
        let loss_kind = std::mem::take(&mut self.loss_kind);
        if self.loss.take_due(now) {
            return Some(loss_kind);
        }
        self.loss_kind = loss_kind;
        None
    }
}

/// Delayed acknowledgement.
impl Timers {
    /// Sets the delayed acknowledgement to `at` unless it is due earlier.
    pub fn delay_ack(&mut self, at: Time) {
        self.ack = Timer(self.ack.0.min(at));
    }

    pub fn is_ack_due(&self, now: Time) -> bool {
        self.ack.is_due(now)
    }

    /// Returns whether the timer has expired, and stops it in that case.
    pub fn take_ack(&mut self, now: Time) -> bool {
        self.ack.take_due(now)
    }

    pub fn stop_ack(&mut self) {
        self.ack = Timer::OFF;
    }
}

/// Zero-window probes.
impl Timers {
    /// Makes a probe of the closed window due.
    pub fn probe_closed_window(&mut self) {
        self.persist = Persist::Due;
    }

    /// Makes a segment due that is small because the window is small.
    pub fn override_small_window(&mut self) {
        self.persist = Persist::Override;
    }

    /// Whether the peer's closed window is being probed.
    pub const fn is_probing(&self) -> bool {
        matches!(self.persist, Persist::Due | Persist::Awaiting)
    }

    /// Whether a probe or a small segment is due.
    pub const fn is_probe_due(&self) -> bool {
        matches!(self.persist, Persist::Due | Persist::Override)
    }

    /// Returns [`Self::is_probe_due`] and records that it is sent.
    pub fn take_probe(&mut self) -> bool {
        let is_due = self.is_probe_due();
        self.persist = match self.persist {
            Persist::Override => Persist::Off,
            Persist::Due => Persist::Awaiting,
            other => other,
        };
        is_due
    }

    /// Ends probing because the window is open. Returns whether it was being probed.
    pub fn window_open(&mut self) -> bool {
        let was_probing = self.is_probing();
        self.persist = Persist::Off;
        was_probing
    }
}

/// Silence of the peer.
impl Timers {
    /// Time of the last accepted segment.
    pub const fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// Records that a segment was accepted.
    pub fn record_segment(&mut self, now: Time) {
        self.last_heard = now;
        self.keepalive_probes = 0;
    }

    /// Sets the keepalive or FIN-WAIT-2 timer to `at`.
    pub fn set_idle(&mut self, at: Time) {
        self.idle = Timer(at);
    }

    /// Stops the keepalive or FIN-WAIT-2 timer.
    pub fn stop_idle(&mut self) {
        self.idle = Timer::OFF;
    }

    /// Returns whether the timer has expired, and stops it in that case.
    pub fn take_idle(&mut self, now: Time) -> bool {
        self.idle.take_due(now)
    }

    /// Handles the expired keepalive timer, and restarts it unless all probes were unanswered.
    pub fn silence(&mut self, settings: &Keepalive, now: Time) -> Silence {
        let quiet_until = self.last_heard + settings.idle;
        if now < quiet_until && self.keepalive_probes == 0 {
            self.idle = Timer(quiet_until);
            return Silence::Nothing;
        }
        if self.keepalive_probes >= settings.probes {
            return Silence::GiveUp;
        }
        self.keepalive_probes += 1;
        self.is_keepalive_due = true;
        self.idle = Timer(now + settings.interval);
        Silence::Probe
    }

    pub const fn is_keepalive_due(&self) -> bool {
        self.is_keepalive_due
    }

    /// Returns whether a keepalive probe is due, and marks it as sent.
    pub fn take_keepalive(&mut self) -> bool {
        std::mem::take(&mut self.is_keepalive_due)
    }
}
