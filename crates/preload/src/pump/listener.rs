//! One listener: connections of the dataplane's and of the kernel's go into one queue.

use crate::internal::Internal;
use crate::real;
use crate::said::Said;
use crate::table::Listening;
use cofferdam_dataplane::Bound;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Where else connections come from.
pub enum Source<T> {
    /// The kernel's listener: at loopback and the host's own addresses.
    Kernel(T),
    /// The queue of the process that this one has inherited the listener from.
    Queue(T),
}

impl<T> Source<T> {
    /// With another descriptor.
    pub fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Source<U>, E> {
        Ok(match self {
            Source::Kernel(fd) => Source::Kernel(change(fd)?),
            Source::Queue(fd) => Source::Queue(change(fd)?),
        })
    }
}

impl Source<Internal> {
    /// Its descriptor.
    pub fn fd(&self) -> RawFd {
        match self {
            Source::Kernel(fd) | Source::Queue(fd) => fd.as_raw_fd(),
        }
    }

    /// The next, without waiting.
    fn next(&self) -> Option<(Said, OwnedFd)> {
        match self {
            Source::Kernel(kernel) => {
                let none = std::ptr::null_mut();
                let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
                let fd = real::accept4(kernel.as_raw_fd(), none, none.cast(), flags);
                // SAFETY: just made, and nobody else's.
                let fd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
                Some((Said::Kernel, fd))
            }
            Source::Queue(queue) => loop {
                let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
                match Said::receive(queue.as_raw_fd(), flags).ok()? {
                    (Some(said), Some(fd)) => return Some((said, fd)),
                    // Its own failures are no other's.
                    (Some(_), None) => {}
                    (None, _) => return None,
                }
            },
        }
    }
}

/// A listener.
pub struct Listener {
    /// Our end of the pair.
    end: Internal,
    /// Inode of the program's end.
    pub inode: u64,
    /// What calls of the program see.
    pub shown: Arc<Listening>,
    /// Addresses at the dataplane, with the names that it gave them.
    pub bounds: Vec<(Bound, SocketAddr)>,
    /// Where connections come from that are not the session's.
    source: Option<Source<Internal>>,
    is_source_ready: bool,
    /// Of the family of IPv6.
    pub is_v6: bool,
    most: usize,
    /// What our end did not take yet.
    queue: VecDeque<(Said, Option<OwnedFd>)>,
}

impl Listener {
    pub fn new(
        end: Internal,
        inode: u64,
        shown: Arc<Listening>,
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

    /// The program's number is the pair's now: the kernel's socket is ours alone. A queue is that of
    /// other processes as well: its flags stay.
    pub fn source_ready(&mut self) {
        if let Some(Source::Kernel(kernel)) = &self.source {
            let _ = real::set_nonblocking(kernel.as_raw_fd(), true);
        }
        self.is_source_ready = true;
        self.advance();
    }

    /// Takes the source away, which has ended.
    pub fn end_source(&mut self) -> Option<Source<Internal>> {
        self.source.take()
    }

    /// Whether the program has closed it.
    pub fn is_closed(&self) -> bool {
        crate::unix::is_closed(self.end.as_fd())
    }

    /// Whether another connection may wait.
    pub fn has_room(&self) -> bool {
        self.queue.len() < self.most
    }

    /// Puts a connection, or an error, behind those that wait.
    pub fn put(&mut self, said: Said, fd: Option<OwnedFd>) {
        self.queue.push_back((said, fd));
        self.advance();
    }

    /// Our end takes more, or the source has more.
    pub fn advance(&mut self) {
        loop {
            while let Some((said, fd)) = self.queue.front() {
                match self.pass(said, fd.as_ref()) {
                    Ok(()) => {
                        self.queue.pop_front();
                    }
                    Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ETOOMANYREFS) => return,
                    // Nobody listens any more.
                    Err(_) => {
                        self.queue.clear();
                        return;
                    }
                }
            }
            let source = self.source.as_ref().filter(|_| self.is_source_ready);
            let Some((said, fd)) = source.and_then(Source::next) else {
                return;
            };
            self.queue.push_back((said, Some(fd)));
        }
    }

    fn pass(&self, said: &Said, fd: Option<&OwnedFd>) -> Result<(), Errno> {
        let bytes = said.encode();
        let fds: Vec<i32> = fd.map(AsRawFd::as_raw_fd).into_iter().collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control: &[ControlMessage<'_>] = if fds.is_empty() { &[] } else { &rights };
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let parts = [IoSlice::new(&bytes)];
        sendmsg::<()>(self.end.as_raw_fd(), &parts, control, flags, None).map(drop)
    }
}
