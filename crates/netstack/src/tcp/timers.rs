//! A connection's timers: retransmission (RFC 6298), the probe for a lost tail (RFC 8985, 7) and
//! the wait for reordered segments (6.2), the delayed acknowledgement (RFC 5681, 4.2), probes of a closed window (RFC 9293, 3.8.6.1),
//! keepalive (RFC 9293, 3.8.4) and the wait in FIN-WAIT-2. TIME_WAIT is timed by a table of its
//! own.

use crate::api::{DeadReason, Keepalive, Time};
use std::time::Duration;

/// Probes of the peer's window (RFC 9293, 3.8.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Persist {
    #[default]
    Off,
    /// Less than is worth sending fits into the window: it is to be sent nevertheless (RFC 9293,
    /// 3.8.6.2.1, override).
    Override,
    /// The window is closed, and a probe is to be sent.
    Due,
    /// The window is closed, and a probe was sent.
    Awaiting,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Watched {
    /// The acknowledgement of the end of what was sent.
    #[default]
    Tail,
    /// Segments that may come out of order.
    Reordering,
}

/// What a silence leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It was shorter than the setting.
    Nothing,
    /// A probe is to be sent.
    Probe,
    /// All probes went unanswered.
    GiveUp,
}

/// When one timer runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timer(Time);

impl Timer {
    /// It does not run: half the size of an `Option`, and compared without a branch.
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

    /// Whether it has run out; it is off then.
    fn take_due(&mut self, now: Time) -> bool {
        let is_due = self.is_due(now);
        if is_due {
            *self = Self::OFF;
        }
        is_due
    }
}

/// The timers.
#[derive(Debug, Clone, Copy)]
pub struct Timers {
    retransmission: Timer,
    /// The probe for a lost tail, or the end of the wait for what may come out of order: never both
    /// (RFC 8985, 8).
    loss: Timer,
    watched: Watched,
    ack: Timer,
    /// Keepalive, or the end of the wait in FIN-WAIT-2.
    idle: Timer,
    last_heard: Time,
    /// Timeouts, or window probes, in a row without an answer, and since when there was none.
    retries: u8,
    stalled_since: Time,
    /// Reason that a router gave for the silence.
    blamed: Option<DeadReason>,
    persist: Persist,
    /// Keepalive probes without an answer, and that one is to be sent.
    keepalive_probes: u8,
    is_keepalive_due: bool,
}

impl Timers {
    /// All are off.
    pub fn new(now: Time) -> Self {
        Self {
            retransmission: Timer::OFF,
            loss: Timer::OFF,
            watched: Watched::Tail,
            ack: Timer::OFF,
            idle: Timer::OFF,
            last_heard: now,
            retries: 0,
            stalled_since: now,
            blamed: None,
            persist: Persist::Off,
            keepalive_probes: 0,
            is_keepalive_due: false,
        }
    }

    /// The connection has ended: nothing is due any more.
    pub fn stop(&mut self) {
        *self = Self::new(self.last_heard);
    }

    /// The next moment a timer is due.
    pub fn deadline(&self) -> Option<Time> {
        // Without a branch but the last: this is asked several times a packet.
        let sooner = self.retransmission.0.min(self.loss.0);
        Timer(sooner.min(self.ack.0).min(self.idle.0)).at()
    }
}

/// Retransmission.
impl Timers {
    pub fn retransmit_at(&self) -> Option<Time> {
        self.retransmission.at()
    }

    /// Starts anew, until `at`.
    pub fn restart_retransmission(&mut self, at: Time) {
        self.retransmission = Timer(at);
    }

    /// Starts, unless it runs already. When it runs out.
    pub fn start_retransmission(&mut self, at: Time) -> Time {
        if !self.retransmission.is_on() {
            self.retransmission = Timer(at);
        }
        self.retransmission.0
    }

    pub fn stop_retransmission(&mut self) {
        self.retransmission = Timer::OFF;
    }

    /// Whether it has run out; it is off then.
    pub fn take_retransmission(&mut self, now: Time) -> bool {
        self.retransmission.take_due(now)
    }

    /// Timeouts, or window probes, in a row without an answer.
    pub const fn retries(&self) -> u8 {
        self.retries
    }

    /// A timeout more; `false` when there were `most` before it.
    pub fn retry(&mut self, most: u8) -> bool {
        let may = self.retries < most;
        self.retries += u8::from(may);
        may
    }

    /// The timeout, which was `timeout` long, has run out: how long there was no answer.
    pub fn stalled(&mut self, now: Time, timeout: Duration) -> Duration {
        if self.retries == 0 {
            let sent_ns = now.as_nanos().saturating_sub(timeout.as_nanos() as u64);
            self.stalled_since = Time::from_nanos(sent_ns);
        }
        now.since(self.stalled_since)
    }

    /// The peer has answered.
    pub fn answered(&mut self) {
        (self.retries, self.blamed) = (0, None);
    }

    /// A router gives a reason for the peer's silence.
    pub fn blame(&mut self, reason: DeadReason) {
        self.blamed = Some(reason);
    }

    /// Why a connection ends whose peer stays silent: for a router's reason, or without one.
    pub fn silence_reason(&self) -> DeadReason {
        self.blamed.unwrap_or(DeadReason::TimedOut)
    }
}

/// The probe for a lost tail, and the wait for what may come out of order.
impl Timers {
    pub fn awaits_tail(&self) -> bool {
        self.loss.is_on() && self.watched == Watched::Tail
    }

    /// The probe is due at `at`, unless something is waited for that may come out of order.
    pub fn set_tail_probe(&mut self, at: Option<Time>) {
        if !self.loss.is_on() || self.watched == Watched::Tail {
            self.loss = at.map_or(Timer::OFF, Timer);
            self.watched = Watched::Tail;
        }
    }

    /// What may come out of order is waited for until `at`.
    pub fn watch_reordering(&mut self, at: Time) {
        self.loss = Timer(at);
        self.watched = Watched::Reordering;
    }

    /// Nothing is waited for that may come out of order.
    pub fn stop_reordering(&mut self) {
        if self.watched == Watched::Reordering {
            (self.loss, self.watched) = (Timer::OFF, Watched::Tail);
        }
    }

    /// What the time has come for; nothing is waited for then.
    pub fn take_loss(&mut self, now: Time) -> Option<Watched> {
        let watched = std::mem::take(&mut self.watched);
        if self.loss.take_due(now) {
            return Some(watched);
        }
        self.watched = watched;
        None
    }
}

/// The delayed acknowledgement.
impl Timers {
    /// An acknowledgement is due at `at`, or earlier if it was.
    pub fn delay_ack(&mut self, at: Time) {
        self.ack = Timer(self.ack.0.min(at));
    }

    pub fn is_ack_due(&self, now: Time) -> bool {
        self.ack.is_due(now)
    }

    /// Whether it has run out; it is off then.
    pub fn take_ack(&mut self, now: Time) -> bool {
        self.ack.take_due(now)
    }

    pub fn stop_ack(&mut self) {
        self.ack = Timer::OFF;
    }
}

/// Probes of a window.
impl Timers {
    /// The window is closed: a probe is to be sent.
    pub fn probe_closed_window(&mut self) {
        self.persist = Persist::Due;
    }

    /// Small data has waited long enough for a larger window.
    pub fn override_small_window(&mut self) {
        self.persist = Persist::Override;
    }

    /// The peer's window is closed and is being probed.
    pub const fn is_probing(&self) -> bool {
        matches!(self.persist, Persist::Due | Persist::Awaiting)
    }

    /// A probe, or small data, is to be sent.
    pub const fn is_probe_due(&self) -> bool {
        matches!(self.persist, Persist::Due | Persist::Override)
    }

    /// As [`Self::is_probe_due`]; it counts as sent then.
    pub fn take_probe(&mut self) -> bool {
        let is_due = self.is_probe_due();
        self.persist = match self.persist {
            Persist::Override => Persist::Off,
            Persist::Due => Persist::Awaiting,
            other => other,
        };
        is_due
    }

    /// The window is open. Says whether it was being probed.
    pub fn window_open(&mut self) -> bool {
        let was_probing = self.is_probing();
        self.persist = Persist::Off;
        was_probing
    }
}

/// Silence of the peer.
impl Timers {
    /// When the last segment was taken.
    pub const fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// A segment was taken: the peer lives.
    pub fn heard(&mut self, now: Time) {
        self.last_heard = now;
        self.keepalive_probes = 0;
    }

    /// Keepalive, or the wait in FIN-WAIT-2, is due at `at`.
    pub fn set_idle(&mut self, at: Time) {
        self.idle = Timer(at);
    }

    /// Neither is due.
    pub fn stop_idle(&mut self) {
        self.idle = Timer::OFF;
    }

    /// Whether it has run out; it is off then.
    pub fn take_idle(&mut self, now: Time) -> bool {
        self.idle.take_due(now)
    }

    /// The keepalive timer has run out; it is started anew, unless all probes went unanswered.
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

    /// Whether a keepalive probe is to be sent; it counts as sent then.
    pub fn take_keepalive(&mut self) -> bool {
        std::mem::take(&mut self.is_keepalive_due)
    }
}
