//! One connection: bytes in, lines out, never more of either than its limits.

use super::peer::Peer;
use super::protocol::{Form, MAX_LINE_BYTES};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// Bytes of answers kept for a client that does not read; then its requests wait.
pub const OUT_BYTES: usize = 64 << 10;

/// What a connection is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Waiting for a request.
    Idle,
    /// Answering `read`: up to this number.
    Reading {
        /// How.
        form: Form,
        /// End, as it was when the request came.
        end: u64,
        /// Samples returned so far.
        told: u64,
        /// Samples discarded before they were returned.
        lost: u64,
    },
    /// Answering `follow`.
    Following {
        /// How.
        form: Form,
    },
}

/// A connected client.
pub struct Client {
    stream: UnixStream,
    /// Where it comes from: whose reports it may see.
    pub peer: Peer,
    /// What it is in the middle of.
    pub mode: Mode,
    /// Number of the next sample to return.
    pub cursor: u64,
    /// Of the last byte in either direction.
    pub active: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Answered for the last time: closed once the output is written.
    pub closing: bool,
    /// Gone.
    pub gone: bool,
}

impl Client {
    /// Takes a connection over.
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
            gone: false,
        })
    }

    /// The descriptor to wait for.
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

    /// Bytes of answers that may still be added.
    pub fn room(&self) -> usize {
        OUT_BYTES.saturating_sub(self.output.len())
    }

    /// Adds to the answer.
    pub fn say(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }

    /// Reads what is available, at most one buffer.
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
            Err(_) => self.gone = true,
        }
    }

    /// The client has closed its side (`echo read | nc -U`): it still gets its answer.
    fn end_of_requests(&mut self) {
        if !self.input.is_empty() && self.input.last() != Some(&b'\n') {
            self.input.push(b'\n');
        }
        self.closing = true;
    }

    /// The next whole line without its end; an error when it is too long.
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

    /// Writes what the other end takes.
    pub fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => {
                    self.gone = true;
                    return;
                }
                Ok(n) => {
                    self.active = Instant::now();
                    self.output.drain(..n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.gone
            || (self.closing
                && self.output.is_empty()
                && self.input.is_empty()
                && !matches!(self.mode, Mode::Reading { .. }))
    }
}
