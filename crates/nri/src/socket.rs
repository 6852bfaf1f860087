//! Non-blocking socket of a session.

use crate::session::{Event, Session, SessionError};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Size of one read.
const READ_BYTES: usize = 64 << 10;
/// Most reads per turn: others have to get their turns as well.
const READS: usize = 32;

/// Connection to the runtime.
#[derive(Debug)]
pub struct Socket {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Socket {
    /// Connects to the runtime that listens at `path`.
    ///
    /// # Errors
    /// Fails if no runtime listens, or too many connections wait to be accepted.
    pub fn connect(path: &Path) -> io::Result<Socket> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
        Ok(Socket {
            stream: fd.into(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Writes pending bytes, and reads received ones.
    ///
    /// # Errors
    /// Fails if the session has ended.
    pub fn turn(
        &mut self,
        session: &mut Session,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        self.flush(session)?;
        for _ in 0..READS {
            let read = match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(SessionError::Closed),
                Ok(read) => read,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            };
            session.handle(&self.buffer[..read], events)?;
            if read < self.buffer.len() {
                break;
            }
        }
        self.flush(session)
    }

    /// Writes as many pending bytes as the socket accepts.
    ///
    /// # Errors
    /// Fails if the session has ended.
    pub fn flush(&mut self, session: &mut Session) -> Result<(), SessionError> {
        while !session.unsent().is_empty() {
            match self.stream.write(session.unsent()) {
                Ok(written) => session.sent(written),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
