//! One connection: bytes in, lines out, each within its limits.

use super::peer::Peer;
use super::protocol::{Form, MAX_LINE_BYTES};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Most bytes of answers that are buffered for a client that does not read; then its requests wait.
pub const OUT_BYTES: usize = 64 << 10;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Waiting for a request.
    Idle,
    /// Answering `read`: up to this number.
    Reading {
        /// Form of the lines.
        form: Form,
        /// End, as of the request.
        end: u64,
        /// Samples returned so far.
        returned: u64,
        /// Samples discarded before they were returned.
        lost: u64,
    },
    /// Answering `follow`.
    Following {
        /// Form of the lines.
        form: Form,
    },
}

/// A connected client.
pub struct Client {
    stream: UnixStream,
    /// The peer, which decides the reports that it may see.
    pub peer: Peer,
    /// State of the connection.
    pub mode: Mode,
    /// Number of the next sample to return.
    pub cursor: u64,
    /// Time of the last byte in either direction.
    pub active: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whether the last answer was given: the connection closes once the output is written.
    pub closing: bool,
    /// Whether the connection has ended.
    pub is_gone: bool,
}

impl Client {
    /// Takes over a connection.
    pub fn new(stream: UnixStream, peer: Peer) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client {
            stream,
            peer,
            mode: Mode::Idle,
            cursor: 0,
            active: Instant::now(),
            input: Vec::new(),
            output: Vec::new(),
            closing: false,
            is_gone: false,
        })
    }

    /// Returns the descriptor to wait for.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether there is something to write.
    pub fn wants_to_write(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether requests are taken: not while answers pile up.
    pub fn wants_to_read(&self) -> bool {
        !self.closing && self.room() > 0 && self.input.len() < MAX_LINE_BYTES
    }

    /// Returns the bytes of answers that may still be added.
    pub fn room(&self) -> usize {
        OUT_BYTES.saturating_sub(self.output.len())
    }

    /// Adds text to the answer.
    pub fn push_text(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }

    /// Reads the available bytes, at most one buffer.
    pub fn fill(&mut self) {
        let mut bytes = [0; MAX_LINE_BYTES];
        let room = MAX_LINE_BYTES - self.input.len().min(MAX_LINE_BYTES);
        match self.stream.read(&mut bytes[..room]) {
            Ok(0) if room > 0 => self.end_of_requests(),
            Ok(n) => {
                self.active = Instant::now();
                self.input.extend_from_slice(&bytes[..n]);
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Handles the end of requests (`echo read | nc -U`): the client still gets its answer.
    fn end_of_requests(&mut self) {
        if !self.input.is_empty() && self.input.last() != Some(&b'\n') {
            self.input.push(b'\n');
        }
        self.closing = true;
    }

    /// Takes the next whole line without its end; an error if it is too long.
    pub fn line(&mut self) -> Option<Result<Vec<u8>, ()>> {
        if let Some(end) = self.input.iter().position(|b| *b == b'\n') {
            let mut line: Vec<u8> = self.input.drain(..=end).collect();
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Some(Ok(line));
        }
        (self.input.len() >= MAX_LINE_BYTES).then(|| {
            self.input.clear();
            Err(())
        })
    }

    /// Writes as many bytes as the client takes.
    pub fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => {
                    self.is_gone = true;
                    return;
                }
                Ok(n) => {
                    self.active = Instant::now();
                    self.output.drain(..n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.is_gone
            || (self.closing
                && self.output.is_empty()
                && self.input.is_empty()
                && !matches!(self.mode, Mode::Reading { .. }))
    }
}
