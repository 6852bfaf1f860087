//! One listener: connections of the dataplane's and of the kernel's go into one queue.

use crate::internal::Internal;
use crate::real;
use crate::said::Said;
use crate::table::Listening;
use cofferdam_dataplane::Bound;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

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
    /// What the kernel has of it: loopback and the host's own addresses.
    kernel: Option<Internal>,
    is_kernel_ready: bool,
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
        kernel: Option<Internal>,
        (is_v6, backlog): (bool, u32),
    ) -> Listener {
        Listener {
            end,
            inode,
            shown,
            bounds: Vec::new(),
            kernel,
            is_kernel_ready: false,
            is_v6,
            most: backlog.max(1) as usize,
            queue: VecDeque::new(),
        }
    }

    /// The program's number is the pair's now: the kernel's socket is ours alone.
    pub fn kernel_ready(&mut self) {
        if let Some(kernel) = &self.kernel {
            let _ = real::set_nonblocking(kernel.as_raw_fd(), true);
            self.is_kernel_ready = true;
        }
        self.advance();
    }

    /// Whether the program has closed it.
    pub fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(self.end.as_fd(), PollFlags::empty())];
        let polled = poll(&mut fds, PollTimeout::ZERO);
        polled.is_ok() && fds[0].any() == Some(true)
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

    /// Our end takes more, or the kernel has more.
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
            let Some(fd) = self.accept_kernel() else {
                return;
            };
            self.queue.push_back((Said::Kernel, Some(fd)));
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

    fn accept_kernel(&self) -> Option<OwnedFd> {
        let kernel = self.kernel.as_ref().filter(|_| self.is_kernel_ready)?;
        let none = std::ptr::null_mut();
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = real::accept4(kernel.as_raw_fd(), none, none.cast(), flags);
        // SAFETY: just made, and nobody else's.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }
}
