//! Transmission control block of one connection (RFC 9293, 3.3.1).

use super::context::Context;
use super::ecn::{self, Ecn};
use super::fast_open::FastOpen;
use super::notices::Notices;
use super::path::PathSearch;
use super::receiver::Receiver;
use super::recovery::Recovery;
use super::segment::Outgoing;
use super::sender::Sender;
use super::seq;
use super::tail::Tail;
use super::terms::Terms;
use super::timers::Timers;
use super::timestamps::Timestamps;
use crate::api::{ConnectionOptions, DeadReason, TcpConfig, Time};
use crate::flow::FlowKey;
use crate::wire::ip;
use crate::wire::tcp::{ACK, HEADER_BYTES, RST, Segment};

/// States (RFC 9293, 3.3.2). LISTEN is a listener, and TIME_WAIT has its own table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum State {
    /// The entry is unused, or its end is not reported yet.
    #[default]
    Closed,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
}

/// State of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Tcb {
    pub key: FlowKey,
    pub(super) state: State,

    pub(super) terms: Terms,
    pub(super) timestamps: Timestamps,
    pub(super) sender: Sender,
    pub(super) recovery: Recovery,
    pub(super) tail: Tail,
    pub(super) path: PathSearch,
    pub(super) receiver: Receiver,
    pub(super) timers: Timers,
    pub(super) fast_open: FastOpen,
    pub(super) ecn: Ecn,
    pub(super) options: ConnectionOptions,
    pub notices: Notices,
}

impl Tcb {
    /// A closed connection with a segment size of `mss` bytes.
    pub fn new(key: FlowKey, config: &TcpConfig, mss: u16, now: Time) -> Self {
        Self {
            key,
            state: State::Closed,
            terms: Terms::new(mss),
            timestamps: Timestamps::new(0, now),
            sender: Sender::new(config, u32::from(mss), now),
            recovery: Recovery::default(),
            tail: Tail::default(),
            path: PathSearch::default(),
            receiver: Receiver::default(),
            timers: Timers::new(now),
            fast_open: FastOpen::default(),
            ecn: Ecn::default(),
            options: ConnectionOptions::default(),
            notices: Notices::default(),
        }
    }

    /// Opens a connection for the application: a SYN with the number `iss` becomes due. `clock`
    /// provides our timestamps.
    pub fn connecting(mut self, iss: u32, clock: Timestamps) -> Self {
        self.state = State::SynSent;
        self.timestamps = clock;
        self.start_sending(iss);
        self
    }

    /// Opens a connection for a peer's SYN: a SYN+ACK with the number `iss` becomes due.
    pub fn answering(
        mut self,
        syn: &Segment,
        iss: u32,
        clock: Timestamps,
        config: &TcpConfig,
        now: Time,
    ) -> Self {
        self.state = State::SynReceived;
        self.timestamps = clock;
        self.agree(&syn.options, config, now);
        self.terms
            .set_ecn(config.ecn != crate::api::Ecn::Off && ecn::asks(syn.flags));
        self.receiver.begin(syn.seq, config);
        self.start_sending(iss);
        // The window of a SYN is not scaled (RFC 7323, 2.2).
        self.sender.set_window(syn.seq, iss, u32::from(syn.window));
        self
    }

    /// Records that the SYN+ACK was sent as a cookie with the number `iss`.
    pub fn answered_by_cookie(&mut self, iss: u32) {
        self.start_sending(iss);
        self.sender.syn_sent(0);
    }

    pub const fn state(&self) -> State {
        self.state
    }

    /// Limits segments to a path that carries IP packets of `mtu_bytes`. Returns whether they
    /// become shorter.
    pub fn fit_path(&mut self, mtu_bytes: u32) -> bool {
        let headers = ip::header_bytes(self.key.local.is_v4()) + HEADER_BYTES;
        let most = mtu_bytes.saturating_sub(headers as u32).min(0xffff) as u16;
        self.path.limit(most);
        self.terms.limit_mss(most)
    }

    /// Sets the initial sequence number.
    fn start_sending(&mut self, iss: u32) {
        self.sender.start(iss);
        self.recovery.start(iss);
        self.tail.set_start(iss);
    }

    /// Largest payload of a segment with the usual options.
    pub fn payload_mss(&self) -> u32 {
        self.terms.payload_mss()
    }

    /// Processes a router's report that the peer is unreachable. Returns whether that ends the
    /// connection (RFC 5461): the error is `hard` and our SYN is unanswered, or our SYN+ACK is
    /// unanswered and the application has not used the connection. Otherwise `reason` is remembered
    /// and becomes the reason of the end if the peer stays silent (RFC 9293, 3.9.2.2).
    pub fn unreachable(&mut self, hard: bool, reason: DeadReason) -> bool {
        let ends = match self.state {
            State::SynSent => hard,
            State::SynReceived => !(self.is_early() && self.is_in_use()),
            _ => false,
        };
        if !ends {
            self.timers.set_silence_reason(reason);
        }
        ends
    }

    /// Whether the application has sent data or finished with received data.
    fn is_in_use(&self) -> bool {
        let received = self.receiver.next().wrapping_sub(self.receiver.irs()) - 1;
        let has_read = self.receiver.unread_bytes() != received;
        has_read || self.sender.is_waiting() || self.sender.queue.bytes() > 0
    }

    /// Whether the handshake is not complete.
    pub const fn is_opening(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived)
    }

    /// Whether data and FIN may be sent.
    pub const fn may_send(&self) -> bool {
        matches!(
            self.state,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::Closing
                | State::LastAck
        ) || self.is_early()
    }

    /// Whether another call of [`Self::output`] may return a segment. If `false`, it returns none.
    pub fn may_have_more(&self) -> bool {
        self.sender.next() != self.sender.end()
            || self.receiver.acks().is_due()
            || self.fast_open.is_answer_due()
            || self.recovery.is_first_due()
            || self.timers.is_probe_due()
            || self.tail.is_due()
            || self.timers.is_keepalive_due()
            || self.recovery.is_on()
    }

    /// Whether received data is accepted.
    pub const fn may_receive(&self) -> bool {
        matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        )
    }

    /// Whether the handshake is complete, or the application got the connection before that.
    pub const fn is_open(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::SynSent | State::SynReceived
        ) || self.is_early()
    }

    /// Counts a retransmission.
    pub fn count_retransmit(&mut self, context: &mut Context<'_>) {
        self.recovery.count_retransmit();
        context.counters.retransmits += 1;
    }

    /// Whether the byte at `at` is in flight: `SND.UNA <= at < SND.NXT` (RFC 5927, 4.1). This
    /// includes our SYN+ACK if the application got the connection before its acknowledgement.
    pub fn is_in_flight(&self, at: u32) -> bool {
        let first = if self.is_early() {
            self.sender.iss()
        } else {
            self.sender.una()
        };
        seq::le(first, at) && seq::lt(at, self.sender.max())
    }

    /// Retransmits all data in flight in shorter segments because the path MTU has shrunk (RFC
    /// 1191, 6.4).
    pub fn retransmit_all(&mut self) {
        if self.state == State::SynSent && self.sender.queue.bytes() > 0 {
            // Our SYN had data and is retransmitted without it (RFC 7413, 4.1.3).
            self.sender.repeat_syn();
        } else if self.may_send() {
            self.sender.rewind();
            self.sender.rto.stop_timing();
            self.recovery.rewound(self.sender.una());
        }
    }

    /// Expiry of a retransmission timer that starts now.
    pub fn timeout_at(&self, context: &Context<'_>) -> Time {
        context.now + self.sender.rto.timeout(context.config)
    }

    /// Ends the connection and releases its buffers. Data that waits for the application stays,
    /// unless the application accepts none.
    pub fn end(&mut self, reason: DeadReason, context: &mut Context<'_>) {
        if self.notices.has_ended() {
            return;
        }
        self.state = State::Closed;
        self.notices.ended(reason);
        self.sender.queue.clear(context.chunks);
        self.receiver.end(self.notices.is_owned(), context);
        self.tail.forget();
        self.timers.stop();
        self.recovery.stop();
    }

    /// The RST that ends the connection, with timestamps if they were negotiated (RFC 7323, 3.2).
    pub fn reset_segment(&self, now: Time) -> Outgoing {
        Outgoing {
            seq: self.sender.max(),
            ack: self.receiver.next(),
            flags: RST | ACK,
            options: self.stamp(now),
            ..Outgoing::default()
        }
    }

    /// Expiry of this connection's next timer.
    pub fn deadline(&self) -> Option<Time> {
        self.timers.deadline()
    }

    /// Whether an event for the application is pending.
    pub fn has_news(&self) -> bool {
        self.notices.any() || (self.receiver.is_readable() && self.notices.is_owned())
    }

    /// Parameters negotiated in the handshake.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    pub const fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    pub const fn timers(&self) -> &Timers {
        &self.timers
    }
}
