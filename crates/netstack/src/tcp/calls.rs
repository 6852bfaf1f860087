//! Operations of the application and of the stack on a connection.

use super::context::Context;
use super::state::{State, Tcb};
use crate::api::{Chunk, TcpConfig, Time};
use crate::core::chunks::{Chunks, List, Node};

impl Tcb {
    /// Turns Nagle's algorithm on or off (RFC 9293, 3.7.4).
    pub const fn set_nagle(&mut self, nagle: bool) {
        self.sender.set_nagle(nagle);
    }

    /// Queues a prefix of `data` for sending. Returns its length in bytes.
    pub fn take(&mut self, data: &[Chunk], context: &mut Context<'_>) -> u32 {
        let room = self.sender.room(context.config);
        self.sender.queue.push(data, room, context.chunks)
    }

    /// Queues a prefix of `data` as urgent data (RFC 9293, 3.8.5). Returns its length in bytes. The
    /// urgent pointer is announced even while the peer's window is closed.
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

    /// Closes our side after the queued data (RFC 9293, 3.10.4).
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

    /// Closes the connection for the application: discards further received data, and closes our
    /// side after the queued data. Returns `false` if the peer must be reset instead: the
    /// connection is not open yet, or received data was not delivered (RFC 2525, 2.17).
    pub fn close(&mut self, config: &TcpConfig, now: Time) -> bool {
        let unread = self.receiver.has_data();
        self.receiver.stop_receiving();
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

    /// Discards received data from now on.
    pub fn stop_receiving(&mut self) {
        self.receiver.stop_receiving();
    }

    /// Removes the first range of received data for the application.
    pub fn take_received(&mut self, chunks: &mut Chunks) -> Option<Node> {
        self.receiver.take_data(chunks)
    }

    /// Records that the reader is stopped while data waits for it.
    pub fn suspend(&mut self) {
        self.receiver.suspend();
    }

    /// Starts the retransmission timer because nothing can be sent now. Returns its expiry.
    pub fn try_later(&mut self, config: &TcpConfig, now: Time) -> Time {
        let timeout = self.sender.rto.timeout(config);
        self.timers.start_retransmission(now + timeout)
    }

    /// Records that the application has finished with data. Returns whether an acknowledgement is
    /// due because the window opens for a peer that may wait for it.
    pub fn read(&mut self, bytes: u32, buffers: u32, config: &TcpConfig) -> bool {
        let may_receive = self.may_receive();
        self.receiver
            .read(bytes, buffers, may_receive, &self.terms, config);
        self.receiver.acks().is_due()
    }

    /// Records that the reader resumes, and announces the window to the peer.
    pub fn resume(&mut self) {
        self.receiver.resume();
        if !self.notices.has_ended() && self.may_receive() {
            self.receiver.acks_mut().demand();
        }
    }

    /// Ends this copy of a connection that has moved to another stack with all its data. No event
    /// is reported.
    pub fn end_after_move(&mut self) {
        self.state = State::Closed;
        self.notices.end_silently();
        self.sender.queue.forget();
        self.receiver.forget_data();
    }

    /// Ranges of data to send. The move of a connection empties or fills the list.
    pub fn send_list(&mut self) -> &mut List {
        self.sender.queue.list()
    }

    /// Ranges of received data in order and out of order. The move of a connection empties or fills
    /// the lists.
    pub fn received_lists(&mut self) -> [&mut List; 2] {
        self.receiver.lists()
    }
}
