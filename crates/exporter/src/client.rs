//! One client: bounded buffers, and a deadline for its next progress.

use crate::http;
use nix::poll::PollFlags;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Longest time for a complete request.
pub const REQUEST: Duration = Duration::from_secs(5);
/// Longest time for the client to read its answer.
const WRITE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// Empty until there is a request.
    output: Vec<u8>,
    written: usize,
    pub deadline: Instant,
}

impl Client {
    pub fn new(stream: TcpStream) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        Ok(Client {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            deadline: Instant::now() + REQUEST,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether a complete request has arrived.
    pub fn is_answered(&self) -> bool {
        !self.output.is_empty()
    }

    /// Number of bytes of the answer that the client has not read.
    pub fn pending_bytes(&self) -> usize {
        self.output.len().saturating_sub(self.written)
    }

    pub fn interest(&self) -> PollFlags {
        match self.is_answered() {
            true => PollFlags::POLLOUT,
            false => PollFlags::POLLIN,
        }
    }

    /// Reads or writes. `answer` builds the answer to a request's head. Returns false when the
    /// connection is over.
    pub fn serve(&mut self, answer: impl FnOnce(&[u8]) -> Vec<u8>) -> bool {
        if !self.is_answered() {
            let is_open = self.read();
            self.output = match http::head_length(&self.input) {
                Some(end) => answer(&self.input[..end]),
                None if self.input.len() >= http::LONGEST_REQUEST_BYTES => http::too_long(),
                None => return is_open,
            };
            self.deadline = Instant::now() + WRITE;
        }
        self.write()
    }

    /// Reads the available bytes. Returns false at the end of the stream.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        while self.input.len() < http::LONGEST_REQUEST_BYTES {
            let room = bytes
                .len()
                .min(http::LONGEST_REQUEST_BYTES - self.input.len());
            match self.stream.read(&mut bytes[..room]) {
                Ok(0) => return false,
                Ok(n) => self.input.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Writes as many bytes as the client accepts. Returns false when all are sent, or the client
    /// has gone.
    fn write(&mut self) -> bool {
        while let Some(left) = self.output.get(self.written..).filter(|l| !l.is_empty()) {
            match self.stream.write(left) {
                Ok(0) => return false,
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn client() -> (Client, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (stream, _) = listener.accept().expect("accepted");
        (Client::new(stream).expect("nonblocking"), peer)
    }

    /// Promise 71.
    #[test]
    fn an_answer_that_is_not_taken_has_its_deadline() {
        let (mut client, mut peer) = client();
        peer.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        let before = Instant::now();
        // Larger than the buffers of the socket.
        while !client.is_answered() {
            assert!(
                client.serve(|_| vec![b'x'; 32 << 20]),
                "it is not all taken"
            );
        }
        assert!(client.deadline >= before + WRITE);
        assert!(client.deadline <= Instant::now() + WRITE);
    }

    /// Promise 71.
    #[test]
    fn a_request_that_is_too_long_is_refused() {
        let (mut client, mut peer) = client();
        let _ = peer.write_all(&[b'x'; 2 * http::LONGEST_REQUEST_BYTES]);
        while !client.is_answered() {
            client.serve(|_| panic!("no request"));
        }
        assert_eq!(client.input.len(), http::LONGEST_REQUEST_BYTES);
        assert_eq!(client.output, http::too_long());
    }
}
