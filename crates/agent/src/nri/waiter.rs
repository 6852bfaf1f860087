//! Descriptor that is readable when one of two is: the control loop's own, and the runtime's
//! socket.

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

#[derive(Debug)]
pub(super) struct Waiter {
    epoll: Epoll,
    /// Whether it waits for room to write, too.
    room: bool,
}

impl Waiter {
    pub fn new(first: BorrowedFd<'_>, second: BorrowedFd<'_>) -> io::Result<Waiter> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for (data, fd) in [(0, first), (1, second)] {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, data))?;
        }
        Ok(Waiter { epoll, room: false })
    }

    /// Sets whether to wait for room to write to `second`, too.
    pub fn wait_for_room(&mut self, second: BorrowedFd<'_>, room: bool) {
        if room == self.room {
            return;
        }
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, room);
        let mut event = EpollEvent::new(flags, 1);
        // `new` added the descriptor, and it lives as long as this. Only a lack of memory can make
        // the call fail, and the next turn retries it.
        if self.epoll.modify(second, &mut event).is_ok() {
            self.room = room;
        }
    }
}

impl AsFd for Waiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
