//! Listener: connections of the dataplane and of the kernel in one queue.

use crate::accept_message::AcceptMessage;
use crate::internal::Internal;
use crate::real;
use crate::table::ListenerState;
use cofferdam_dataplane::BoundAddress;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Additional source of connections.
pub enum Source<T> {
    /// Kernel socket that listens at loopback and the host's own addresses.
    Kernel(T),
    /// Queue of the process from which this one has inherited the listener.
    Queue(T),
}

impl<T> Source<T> {
    /// The source with another descriptor.
    pub fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Source<U>, E> {
        Ok(match self {
            Source::Kernel(fd) => Source::Kernel(change(fd)?),
            Source::Queue(fd) => Source::Queue(change(fd)?),
        })
    }
}

impl Source<Internal> {
    /// Descriptor of the source.
    pub fn fd(&self) -> RawFd {
        match self {
            Source::Kernel(fd) | Source::Queue(fd) => fd.as_raw_fd(),
        }
    }

    /// Next connection, without waiting.
    fn next(&self) -> Option<(AcceptMessage, OwnedFd)> {
        match self {
            Source::Kernel(kernel) => {
                let none = std::ptr::null_mut();
                let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
                let fd = real::accept4(kernel.as_raw_fd(), none, none.cast(), flags);
                // SAFETY: the descriptor is new and has no other owner.
                let fd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
                Some((AcceptMessage::Kernel, fd))
            }
            Source::Queue(queue) => loop {
                let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
                match AcceptMessage::receive(queue.as_raw_fd(), flags).ok()? {
                    (Some(said), Some(fd)) => return Some((said, fd)),
                    // Failures of the other process do not concern this one.
                    (Some(_), None) => {}
                    (None, _) => return None,
                }
            },
        }
    }
}

/// Listener of the program.
pub struct Listener {
    /// Library's end of the pair.
    end: Internal,
    /// Inode of the program's end.
    pub inode: u64,
    /// State that calls of the program see.
    pub shown: Arc<ListenerState>,
    /// Addresses at the dataplane, with the dataplane's names.
    pub bounds: Vec<(BoundAddress, SocketAddr)>,
    /// Additional source of connections.
    source: Option<Source<Internal>>,
    is_source_ready: bool,
    /// Whether it is an IPv6 socket.
    pub is_v6: bool,
    most: usize,
    /// Messages that the library's end has not accepted yet.
    queue: VecDeque<(AcceptMessage, Option<OwnedFd>)>,
}

impl Listener {
    pub fn new(
        end: Internal,
        inode: u64,
        shown: Arc<ListenerState>,
        source: Option<Source<Internal>>,
        (is_v6, backlog): (bool, u32),
    ) -> Listener {
        Listener {
            end,
            inode,
            shown,
            bounds: Vec::new(),
            source,
            is_source_ready: false,
            is_v6,
            most: backlog.max(1) as usize,
            queue: VecDeque::new(),
        }
    }

    /// Starts to take connections from the source, because the program's descriptor is the pair
    /// now. The kernel socket becomes non-blocking; the flags of a queue stay, as other processes
    /// share it.
    pub fn source_ready(&mut self) {
        if let Some(Source::Kernel(kernel)) = &self.source {
            let _ = real::set_nonblocking(kernel.as_raw_fd(), true);
        }
        self.is_source_ready = true;
        self.advance();
    }

    /// Removes the source, which has ended.
    pub fn end_source(&mut self) -> Option<Source<Internal>> {
        self.source.take()
    }

    /// Whether the program has closed the listener.
    pub fn is_closed(&self) -> bool {
        crate::unix::is_closed(self.end.as_fd())
    }

    /// Whether another connection may wait.
    pub fn has_room(&self) -> bool {
        self.queue.len() < self.most
    }

    /// Queues a connection or an error.
    pub fn put(&mut self, message: AcceptMessage, fd: Option<OwnedFd>) {
        self.queue.push_back((message, fd));
        self.advance();
    }

    /// Moves messages to the library's end, and connections from the source to the queue.
    pub fn advance(&mut self) {
        loop {
            while let Some((message, fd)) = self.queue.front() {
                match self.pass(message, fd.as_ref()) {
                    Ok(()) => {
                        self.queue.pop_front();
                    }
                    Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ETOOMANYREFS) => return,
                    // All copies of the program's end are closed.
                    Err(_) => {
                        self.queue.clear();
                        return;
                    }
                }
            }
            let source = self.source.as_ref().filter(|_| self.is_source_ready);
            let Some((message, fd)) = source.and_then(Source::next) else {
                return;
            };
            self.queue.push_back((message, Some(fd)));
        }
    }

    fn pass(&self, message: &AcceptMessage, fd: Option<&OwnedFd>) -> Result<(), Errno> {
        let bytes = message.encode();
        let fds: Vec<i32> = fd.map(AsRawFd::as_raw_fd).into_iter().collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control: &[ControlMessage<'_>] = if fds.is_empty() { &[] } else { &rights };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let parts = [IoSlice::new(&bytes)];
        sendmsg::<()>(self.end.as_raw_fd(), &parts, control, flags, None).map(drop)
    }
}
