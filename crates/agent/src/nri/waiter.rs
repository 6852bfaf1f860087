//! One descriptor that is readable when one of two is: what the control loop waits for beside the
//! runtime's.

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

    /// Whether to wait for room to write to `second`, too.
    pub fn want_room(&mut self, second: BorrowedFd<'_>, room: bool) {
        if room == self.room {
            return;
        }
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, room);
        let mut event = EpollEvent::new(flags, 1);
        // It was added by `new` and lives as long as this: nothing can fail but for lack of memory,
        // and then it is tried again with the next turn.
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
