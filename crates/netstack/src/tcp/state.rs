//! One connection (RFC 9293, 3.3.1: the transmission control block).

use super::notices::Notices;
use super::receiver::Receiver;
use super::recovery::Recovery;
use super::sender::Sender;
use super::seq;
use super::tail::Tail;
use super::terms::Terms;
use super::timers::Timers;
use super::timestamps::Timestamps;
use crate::api::{Chunk, Counters, DeadReason, MacAddress, Payload, TcpConfig, Time};
use crate::core::NONE;
use crate::core::chunks::{Chunks, List};
use crate::flow::FlowKey;

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

/// What the rules may use beside the connection.
pub struct Context<'a> {
    pub now: Time,
    pub config: &'a TcpConfig,
    pub chunks: &'a mut Chunks,
    /// Received buffers that are the caller's again.
    pub released: &'a mut List,
    pub counters: &'a mut Counters,
    /// Where the payload of the segment that [`Tcb::output`] gives lies.
    pub payload: &'a mut Payload,
    /// Whoever reads this connection's data has no room: the segment's data is not taken.
    pub reader_is_stopped: bool,
    /// [`crate::api::Limits::kept`].
    pub most_kept: u32,
}

/// Where a connection's place in the stack's lists is kept.
#[derive(Debug, Clone, Copy)]
pub struct Links {
    pub ready_next: u32,
    pub event_next: u32,
    pub group_next: u32,
    pub group_previous: u32,
    pub is_ready: bool,
    pub has_events: bool,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            ready_next: NONE,
            event_next: NONE,
            group_next: NONE,
            group_previous: NONE,
            is_ready: false,
            has_events: false,
        }
    }
}

/// The connection.
#[derive(Debug, Clone, Copy)]
pub struct Tcb {
    pub key: FlowKey,
    pub hash: u64,
    pub links: Links,
    pub state: State,
    pub cookie: u64,
    /// The listener's slot, until the connection is accepted.
    pub listener: Option<u32>,
    pub mac: MacAddress,
    /// The neighbour table's state when `mac` was looked up.
    pub mac_epoch: u32,

    pub terms: Terms,
    pub timestamps: Timestamps,

    pub sender: Sender,

    pub recovery: Recovery,
    pub tail: Tail,
    pub receiver: Receiver,
    /// Who reads its data.
    pub reader: u8,

    pub timers: Timers,
    pub notices: Notices,
}

impl Default for Tcb {
    fn default() -> Self {
        Self::new(
            FlowKey::default(),
            0,
            &TcpConfig::default(),
            536,
            Time::ZERO,
        )
    }
}

impl Tcb {
    /// A closed connection of `mss` bytes a segment.
    pub fn new(key: FlowKey, hash: u64, config: &TcpConfig, mss: u16, now: Time) -> Self {
        Self {
            key,
            hash,
            links: Links::default(),
            state: State::Closed,
            cookie: 0,
            listener: None,
            mac: MacAddress::default(),
            mac_epoch: 0,
            terms: Terms::new(mss),
            timestamps: Timestamps::new(0, now),
            sender: Sender::new(config, u32::from(mss), now),
            recovery: Recovery::default(),
            tail: Tail::default(),
            receiver: Receiver::default(),
            reader: 0,
            timers: Timers::new(now),
            notices: Notices::default(),
        }
    }

    /// Starts sending at `iss`.
    pub fn start_sending(&mut self, iss: u32) {
        self.sender.start(iss);
        self.recovery.start(iss);
        self.tail.begins_at(iss);
    }

    /// Most payload of a segment with the usual options.
    pub fn payload_mss(&self) -> u32 {
        self.terms.payload_mss()
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
        )
    }

    /// Whether [`Self::output`] may have another segment just after one; false only when it has
    /// none.
    pub fn may_have_more(&self) -> bool {
        self.sender.next() != self.sender.end()
            || self.receiver.acks().is_due()
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

    /// Both handshakes are done.
    pub const fn is_synchronized(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::SynSent | State::SynReceived
        )
    }

    /// A segment is sent again.
    pub fn count_retransmit(&mut self, context: &mut Context<'_>) {
        self.recovery.count_retransmit();
        context.counters.retransmits += 1;
    }

    /// Whether the byte at `at` is under way, or was acknowledged last.
    pub fn is_under_way(&self, at: u32) -> bool {
        let (una, max) = (self.sender.una(), self.sender.max());
        seq::le(una, at) && seq::le(at, max) && self.sender.is_waiting()
    }

    /// The path carries less than was thought: what is under way is sent again, in shorter segments
    /// (RFC 1191, 6.4).
    pub fn send_again(&mut self) {
        if self.may_send() {
            self.sender.rewind();
            self.sender.rto.stop_timing();
            self.recovery.repair_from(self.sender.una());
        }
    }

    /// When a retransmission timer that starts now runs out.
    pub fn timeout_at(&self, context: &Context<'_>) -> Time {
        context.now + self.sender.rto.timeout(context.config)
    }

    /// Ends the connection: all that it holds is the caller's again, but for data that waits to be
    /// handed up, unless nobody wants it.
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

    /// The next moment a timer of this connection is due.
    pub fn deadline(&self) -> Option<Time> {
        self.timers.deadline()
    }

    /// Whether the application is to be told something now.
    pub fn has_news(&self) -> bool {
        self.notices.any() || (self.receiver.is_readable() && self.notices.is_owned())
    }

    /// The application is done with data: the peer is told when it might be waiting for it. Says
    /// whether an acknowledgement is due.
    pub fn read(&mut self, bytes: u32, buffers: u32, config: &TcpConfig) -> bool {
        let may_receive = self.may_receive();
        self.receiver
            .read(bytes, buffers, may_receive, &self.terms, config);
        self.receiver.acks().is_due()
    }

    /// The reader goes on: the peer is told of the window.
    pub fn go_on(&mut self) {
        self.receiver.go_on();
        if !self.notices.has_ended() && self.may_receive() {
            self.receiver.acks_mut().demand();
        }
    }

    /// The connection has moved to another stack, with all its data: what is left here ends without
    /// a word.
    pub fn move_away(&mut self) {
        self.state = State::Closed;
        self.notices.end_silently();
        self.sender.queue.forget();
        self.receiver.forget_data();
    }

    /// Takes data to send: a prefix of `data`. Says how many bytes.
    pub fn take(&mut self, data: &[Chunk], context: &mut Context<'_>) -> u32 {
        let room = self.sender.room(context.config);
        self.sender.queue.push(data, room, context.chunks)
    }
}

impl Tcb {
    /// Our side closes behind what was sent (RFC 9293, 3.10.4).
    pub fn queue_fin(&mut self) {
        if !self.sender.queue_fin() {
            return;
        }
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            other => other,
        };
    }
}
