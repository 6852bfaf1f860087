//! Wake-ups between the dataplane and an application.
//!
//! No descriptor here can make the loop wait. Passed descriptors share one open file description,
//! and with it O_NONBLOCK, which the application may clear. The loop therefore neither reads nor
//! writes a file that the application has too.
//!
//! - It wakes the application over a socket pair: two descriptions, and MSG_DONTWAIT with each
//!   send. Rejected: eventfd (its flag is shared), a pipe (its lock is taken while the other side
//!   copies, for as long as a page fault of that side lasts), timerfd (three times the cost).
//! - The application wakes it by an eventfd that it only polls, edge-triggered, so that it reads
//!   nothing.
//!
//! The cost of a ring grows with the number of waiters at the bell, which the application chooses:
//! see [`crate::ringer`].

use crate::ringer::{Bell, Trust};
use crate::tuning::MOST_APPLICATIONS;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, recv, send, shutdown, socketpair,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// The application's end of its bell.
#[derive(Debug)]
pub(crate) struct BellEnd(OwnedFd);

/// Creates both ends of a bell.
pub(crate) fn bell(trust: Arc<Trust>) -> io::Result<(Bell, BellEnd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    // The application cannot send this way: the loop would have to close descriptors in its
    // messages.
    shutdown(ours.as_raw_fd(), Shutdown::Read)?;
    Ok((Bell::new(ours, trust), BellEnd(theirs)))
}

/// Rings a bell. An application that takes no rings is awake or has ended, and needs none.
pub(crate) fn ring(bell: RawFd) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let _ = send(bell, &[1], flags);
}

impl BellEnd {
    /// The end whose descriptor a dataplane has sent.
    pub fn from_owned_fd(fd: OwnedFd) -> BellEnd {
        BellEnd(fd)
    }

    /// Takes the rings so far. Never waits.
    pub fn take_rings(&self) {
        let mut rings = [0; 64];
        while recv(self.0.as_raw_fd(), &mut rings, MsgFlags::MSG_DONTWAIT) == Ok(rings.len()) {}
    }
}

impl AsFd for BellEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Doors to one core's loop, by which its applications wake it.
#[derive(Debug)]
pub(crate) struct Doors(Epoll);

impl Doors {
    pub fn new() -> io::Result<Arc<Doors>> {
        Ok(Arc::new(Doors(Epoll::new(
            EpollCreateFlags::EPOLL_CLOEXEC,
        )?)))
    }

    /// Creates a door of one application, with the descriptor that it rings.
    pub fn door(self: &Arc<Doors>) -> io::Result<(Door, EventFd)> {
        let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let copy = event.as_fd().try_clone_to_owned()?;
        let edges = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        self.0.add(&event, EpollEvent::new(edges, 0))?;
        let door = Door {
            event,
            doors: self.clone(),
        };
        // SAFETY: the descriptor is a copy of an eventfd's.
        Ok((door, unsafe { EventFd::from_owned_fd(copy) }))
    }

    /// Forgets the rings so far.
    pub fn take_rings(&self) {
        let mut events = [EpollEvent::empty(); MOST_APPLICATIONS];
        let _ = self.0.wait(&mut events, EpollTimeout::ZERO);
    }
}

impl AsFd for Doors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

/// One application's door to one core.
#[derive(Debug)]
pub(crate) struct Door {
    event: EventFd,
    doors: Arc<Doors>,
}

impl Drop for Door {
    fn drop(&mut self) {
        // The application may keep its copy, and continue to ring.
        let _ = self.doors.0.delete(&self.event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_lab::fixtures::time_limit;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(10);

    fn is_ready(fd: &impl AsFd) -> bool {
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("polled") > 0
    }

    /// Promise 69.
    #[test]
    fn a_bell_that_its_owner_blocks_never_delays_the_ringer() {
        time_limit(LIMIT, || {
            let (bell, end) = bell(Arc::default()).expect("a bell");
            let flags = fcntl(&end, FcntlArg::F_GETFL).expect("flags");
            let blocking = OFlag::from_bits_retain(flags) - OFlag::O_NONBLOCK;
            fcntl(&end, FcntlArg::F_SETFL(blocking)).expect("set");
            (0..100_000).for_each(|_| bell.ring());
            assert!(is_ready(&end));
            end.take_rings();
            assert!(!is_ready(&end), "all were taken");
            bell.ring();
            assert!(is_ready(&end), "it rings again");
            drop(end);
            bell.ring();
        });
    }

    /// Promise 69.
    #[test]
    fn an_application_can_put_nothing_into_its_bell() {
        let (_bell, end) = bell(Arc::default()).expect("a bell");
        let flags = MsgFlags::MSG_NOSIGNAL;
        assert_eq!(
            send(end.as_fd().as_raw_fd(), &[1], flags),
            Err(nix::errno::Errno::EPIPE)
        );
    }

    /// Promise 69.
    #[test]
    fn each_ring_wakes_although_the_counter_is_full_and_blocking() {
        time_limit(LIMIT, || {
            let doors = Doors::new().expect("doors");
            let (door, theirs) = doors.door().expect("a door");
            assert!(!is_ready(&*doors));
            for _ in 0..3 {
                theirs.write(1).expect("rung");
                assert!(is_ready(&*doors));
                doors.take_rings();
                assert!(!is_ready(&*doors), "a ring wakes once");
            }
            fcntl(&theirs, FcntlArg::F_SETFL(OFlag::empty())).expect("set");
            theirs.write(u64::MAX - 4).expect("full");
            assert!(is_ready(&*doors));
            doors.take_rings();
            assert!(!is_ready(&*doors));
            drop(door);
            assert_eq!(theirs.read(), Ok(u64::MAX - 1));
            theirs.write(1).expect("rung");
            assert!(!is_ready(&*doors), "a closed door wakes no loop");
        });
    }
}
