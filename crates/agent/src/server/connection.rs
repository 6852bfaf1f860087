//! One client: bounded buffers, and a deadline for its next progress.

use crate::wire::LONGEST_REQUEST_BYTES;
use nix::poll::PollFlags;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest silence of a control client between two requests.
pub(super) const IDLE: Duration = Duration::from_secs(60);
/// Longest time from the first byte of a request to its end.
pub(super) const REQUEST: Duration = Duration::from_secs(5);
/// Longest time for the control loop's answer.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// Longest time for the client to read an answer.
pub(super) const WRITE: Duration = Duration::from_secs(20);

/// Next action on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client sends a request.
    Reading,
    /// The control loop works on the answer.
    Waiting,
    /// The client reads its answer.
    Writing,
    /// The connection is over.
    Closed,
}

/// Result of reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// No complete message yet.
    Nothing,
    /// One line, without its end.
    Line(Vec<u8>),
    /// The message is longer than allowed.
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
    /// Whether to close after the answer.
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

    /// Events to poll for. A client is not read while its request is in work: it must wait too.
    pub fn interest(&self) -> PollFlags {
        match self.phase {
            Phase::Reading => PollFlags::POLLIN,
            Phase::Writing => PollFlags::POLLOUT,
            // Hang-ups are always reported.
            Phase::Waiting | Phase::Closed => PollFlags::empty(),
        }
    }

    /// Reads the available bytes, at most one message.
    pub fn read_input(&mut self) -> ReadOutcome {
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

    /// Takes the next complete message from the input.
    fn message(&mut self) -> ReadOutcome {
        match self.input.iter().position(|b| *b == b'\n') {
            Some(end) => {
                let mut line: Vec<u8> = self.input.drain(..=end).collect();
                line.pop();
                ReadOutcome::Line(line)
            }
            None if self.input.len() >= LONGEST_REQUEST_BYTES => ReadOutcome::TooLong,
            None => ReadOutcome::Nothing,
        }
    }

    /// Marks the request as handed to the control loop.
    pub fn wait(&mut self) {
        self.phase = Phase::Waiting;
        self.deadline = Instant::now() + ANSWER;
    }

    /// Sends the client its answer. With `last`, the connection closes after it.
    pub fn answer(&mut self, bytes: Vec<u8>, last: bool) {
        self.output = bytes;
        self.written = 0;
        self.last = last;
        self.phase = Phase::Writing;
        self.deadline = Instant::now() + WRITE;
        self.write();
    }

    /// Writes as many bytes as the client accepts.
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

    /// Takes a message that arrived while another was answered.
    pub fn next_message(&mut self) -> ReadOutcome {
        if self.phase != Phase::Reading || self.input.is_empty() {
            return ReadOutcome::Nothing;
        }
        self.deadline = Instant::now() + REQUEST;
        self.message()
    }
}
