//! One connection (RFC 9293, 3.3.1: the transmission control block).

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

/// States (RFC 9293, 3.3.2). LISTEN is a listener; TIME_WAIT has a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum State {
    /// Unused, or ended and not yet reported.
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

/// The connection.
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
    /// A closed connection of `mss` bytes a segment.
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

    /// A connection that the application opens: its SYN, with the number `iss`, is to be sent.
    /// `clock`: our timestamps.
    pub fn connecting(mut self, iss: u32, clock: Timestamps) -> Self {
        self.state = State::SynSent;
        self.timestamps = clock;
        self.start_sending(iss);
        self
    }

    /// A connection that a peer's SYN opens: the answer, with the number `iss`, is to be sent.
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

    /// The answer had been sent, with the number `iss`, as a cookie.
    pub fn answered_by_cookie(&mut self, iss: u32) {
        self.start_sending(iss);
        self.sender.syn_sent(0);
    }

    pub const fn state(&self) -> State {
        self.state
    }

    /// Cuts segments to a path that carries IP packets of `mtu_bytes`. Says whether they are
    /// shorter than before.
    pub fn fit_path(&mut self, mtu_bytes: u32) -> bool {
        let headers = ip::header_bytes(self.key.local.is_v4()) + HEADER_BYTES;
        let most = mtu_bytes.saturating_sub(headers as u32).min(0xffff) as u16;
        self.path.limit(most);
        self.terms.limit_mss(most)
    }

    /// Starts sending at `iss`.
    fn start_sending(&mut self, iss: u32) {
        self.sender.start(iss);
        self.recovery.start(iss);
        self.tail.begins_at(iss);
    }

    /// Most payload of a segment with the usual options.
    pub fn payload_mss(&self) -> u32 {
        self.terms.payload_mss()
    }

    /// A router reports the peer as unreachable, for a `reason`. Says whether that ends the
    /// connection: our SYN is out and the error is `hard`, or our answer to the peer's SYN is and the
    /// application has not begun to use the connection (RFC 5461). Otherwise the reason is kept: if
    /// the peer stays silent, it is why the connection ends (RFC 9293, 3.9.2.2).
    pub fn unreachable(&mut self, hard: bool, reason: DeadReason) -> bool {
        let ends = match self.state {
            State::SynSent => hard,
            State::SynReceived => !(self.is_early() && self.is_in_use()),
            _ => false,
        };
        if !ends {
            self.timers.blame(reason);
        }
        ends
    }

    /// The application has given data, or is done with some that came.
    fn is_in_use(&self) -> bool {
        let received = self.receiver.next().wrapping_sub(self.receiver.irs()) - 1;
        let has_read = self.receiver.unread_bytes() != received;
        has_read || self.sender.is_waiting() || self.sender.queue.bytes() > 0
    }

    /// The handshake is not done.
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

    /// Whether [`Self::output`] may have another segment just after one; false only when it has
    /// none.
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

    /// Whether data is taken.
    pub const fn may_receive(&self) -> bool {
        matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        )
    }

    /// The handshake is done, or the application has the connection before it is.
    pub const fn is_open(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::SynSent | State::SynReceived
        ) || self.is_early()
    }

    /// A segment is sent again.
    pub fn count_retransmit(&mut self, context: &mut Context<'_>) {
        self.recovery.count_retransmit();
        context.counters.retransmits += 1;
    }

    /// Whether the byte at `at` is under way: `SND.UNA <= at < SND.NXT` (RFC 5927, 4.1). Our
    /// SYN+ACK is, where the application has the connection before it is acknowledged.
    pub fn is_under_way(&self, at: u32) -> bool {
        let first = if self.is_early() {
            self.sender.iss()
        } else {
            self.sender.una()
        };
        seq::le(first, at) && seq::lt(at, self.sender.max())
    }

    /// The path carries less than was thought: what is under way is sent again, in shorter segments
    /// (RFC 1191, 6.4).
    pub fn send_again(&mut self) {
        if self.state == State::SynSent && self.sender.queue.bytes() > 0 {
            // Our SYN, which had data: without it (RFC 7413, 4.1.3).
            self.sender.repeat_syn();
        } else if self.may_send() {
            self.sender.rewind();
            self.sender.rto.stop_timing();
            self.recovery.rewound(self.sender.una());
        }
    }

    /// When a retransmission timer that starts now runs out.
    pub fn timeout_at(&self, context: &Context<'_>) -> Time {
        context.now + self.sender.rto.timeout(context.config)
    }

    /// Ends the connection: all that it holds is the caller's again, but for data that waits to be
    /// handed up, unless the application wants none.
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

    /// The RST that ends the connection; with timestamps, if they were agreed on (RFC 7323, 3.2).
    pub fn reset_segment(&self, now: Time) -> Outgoing {
        Outgoing {
            seq: self.sender.max(),
            ack: self.receiver.next(),
            flags: RST | ACK,
            options: self.stamp(now),
            ..Outgoing::default()
        }
    }

    /// The next moment a timer of this connection is due.
    pub fn deadline(&self) -> Option<Time> {
        self.timers.deadline()
    }

    /// Whether something is to be reported to the application now.
    pub fn has_news(&self) -> bool {
        self.notices.any() || (self.receiver.is_readable() && self.notices.is_owned())
    }

    /// What the handshake agreed on.
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
