//! What the application and the stack around it ask of a connection.

use super::context::Context;
use super::state::{State, Tcb};
use crate::api::{Chunk, TcpConfig, Time};
use crate::core::chunks::{Chunks, List, Node};

impl Tcb {
    /// Whether small segments are held back (RFC 9293, 3.7.4).
    pub const fn set_nagle(&mut self, nagle: bool) {
        self.sender.set_nagle(nagle);
    }

    /// Takes data to send: a prefix of `data`. Says how many bytes.
    pub fn take(&mut self, data: &[Chunk], context: &mut Context<'_>) -> u32 {
        let room = self.sender.room(context.config);
        self.sender.queue.push(data, room, context.chunks)
    }

    /// Takes data to send as urgent (RFC 9293, 3.8.5). Says how many bytes. The peer learns of it also
    /// while its window is closed.
    pub fn take_urgent(&mut self, data: &[Chunk], context: &mut Context<'_>) -> u32 {
        let taken = self.take(data, context);
        if taken > 0 {
            self.sender.mark_urgent();
            if self.sender.peer_window() <= self.sender.flight() {
                self.receiver.acks_mut().demand();
            }
        }
        taken
    }

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

    /// The application closes the connection: it wants no more data, and our side closes behind
    /// what was sent. `false` when the peer is to be reset instead: it does not know of the
    /// connection yet, or data that was never handed up is lost (RFC 2525, 2.17).
    pub fn close(&mut self, config: &TcpConfig, now: Time) -> bool {
        let unread = self.receiver.has_data();
        self.receiver.deafen();
        if !self.is_open() || unread {
            return false;
        }
        self.notices.forget_peer_closed();
        self.queue_fin();
        if self.state == State::FinWait2 {
            self.timers.set_idle(now + config.fin_wait_2);
        }
        true
    }

    /// The application wants no more data.
    pub fn deafen(&mut self) {
        self.receiver.deafen();
    }

    /// Takes the first range of received data that waits to be handed up.
    pub fn take_received(&mut self, chunks: &mut Chunks) -> Option<Node> {
        self.receiver.take_data(chunks)
    }

    /// The reader is stopped, and data waits for it.
    pub fn hold_up(&mut self) {
        self.receiver.hold_up();
    }

    /// Nothing can be sent to the peer now: when to try again.
    pub fn try_later(&mut self, config: &TcpConfig, now: Time) -> Time {
        let timeout = self.sender.rto.timeout(config);
        self.timers.start_retransmission(now + timeout)
    }

    /// The application is done with data: the peer learns of the window when it may be waiting for
    /// it. Says whether an acknowledgement is due.
    pub fn read(&mut self, bytes: u32, buffers: u32, config: &TcpConfig) -> bool {
        let may_receive = self.may_receive();
        self.receiver
            .read(bytes, buffers, may_receive, &self.terms, config);
        self.receiver.acks().is_due()
    }

    /// The reader resumes: the window is announced to the peer.
    pub fn resume(&mut self) {
        self.receiver.resume();
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

    /// The ranges of data to send, to be emptied or filled when the connection moves.
    pub fn send_list(&mut self) -> &mut List {
        self.sender.queue.list()
    }

    /// The ranges of received data, those to be handed up and those out of order, to be emptied or
    /// filled when the connection moves.
    pub fn received_lists(&mut self) -> [&mut List; 2] {
        self.receiver.lists()
    }
}
