//! One client: bounded buffers, and a deadline for its next progress.

use crate::wire::LONGEST_REQUEST_BYTES;
use nix::poll::PollFlags;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A control client may be silent between two requests for so long.
pub(super) const IDLE: Duration = Duration::from_secs(60);
/// A request must be complete so long after its first byte.
pub(super) const REQUEST: Duration = Duration::from_secs(5);
/// The control loop must have answered by then.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// An answer must have been taken, whole, by then.
pub(super) const WRITE: Duration = Duration::from_secs(20);

/// What comes next on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client speaks.
    Reading,
    /// The control loop works.
    Waiting,
    /// The client takes its answer.
    Writing,
    /// It is over.
    Closed,
}

/// What reading brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Not a whole message yet.
    Nothing,
    /// One line, without its end.
    Line(Vec<u8>),
    /// More bytes than a message may have.
    TooLong,
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    pub uid: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    phase: Phase,
    pub deadline: Instant,
    /// Close once the answer is out.
    last: bool,
}

impl Connection {
    pub fn new(stream: UnixStream) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        let uid = getsockopt(&stream, PeerCredentials)?.uid();
        Ok(Connection {
            stream,
            uid,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            phase: Phase::Reading,
            deadline: Instant::now() + IDLE,
            last: false,
        })
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// What to wait for. A client whose request is at work is not read: it must wait too.
    pub fn interest(&self) -> PollFlags {
        match self.phase {
            Phase::Reading => PollFlags::POLLIN,
            Phase::Writing => PollFlags::POLLOUT,
            // Hang-ups are always reported.
            Phase::Waiting | Phase::Closed => PollFlags::empty(),
        }
    }

    /// Takes what has come, at most one message's worth.
    pub fn hear(&mut self) -> Heard {
        let limit = LONGEST_REQUEST_BYTES;
        let fresh = self.input.is_empty();
        let mut bytes = [0; 4096];
        while self.input.len() < limit {
            let room = bytes.len().min(limit - self.input.len());
            match self.stream.read(&mut bytes[..room]) {
                Ok(0) => {
                    self.phase = Phase::Closed;
                    break;
                }
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.phase = Phase::Closed;
                    break;
                }
            }
        }
        if fresh && !self.input.is_empty() {
            self.deadline = self.deadline.min(Instant::now() + REQUEST);
        }
        self.message()
    }

    /// The next message of those that have come.
    fn message(&mut self) -> Heard {
        match self.input.iter().position(|b| *b == b'\n') {
            Some(end) => {
                let mut line: Vec<u8> = self.input.drain(..=end).collect();
                line.pop();
                Heard::Line(line)
            }
            None if self.input.len() >= LONGEST_REQUEST_BYTES => Heard::TooLong,
            None => Heard::Nothing,
        }
    }

    /// The control loop has the request now.
    pub fn wait(&mut self) {
        self.phase = Phase::Waiting;
        self.deadline = Instant::now() + ANSWER;
    }

    /// Gives the client its answer; `last` closes the connection after it.
    pub fn answer(&mut self, bytes: Vec<u8>, last: bool) {
        self.output = bytes;
        self.written = 0;
        self.last = last;
        self.phase = Phase::Writing;
        self.deadline = Instant::now() + WRITE;
        self.write();
    }

    /// Hands over as much as the client takes. Returns a request that had come meanwhile.
    pub fn write(&mut self) {
        while self.written < self.output.len() {
            let left = &self.output[self.written..];
            match self.stream.write(left) {
                Ok(0) => return self.phase = Phase::Closed,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.phase = Phase::Closed,
            }
        }
        self.output = Vec::new();
        self.phase = if self.last {
            Phase::Closed
        } else {
            Phase::Reading
        };
        self.deadline = Instant::now() + IDLE;
    }

    /// A message that had come while another was answered.
    pub fn next_message(&mut self) -> Heard {
        if self.phase != Phase::Reading || self.input.is_empty() {
            return Heard::Nothing;
        }
        self.deadline = Instant::now() + REQUEST;
        self.message()
    }
}
