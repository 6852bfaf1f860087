//! Wake-up of a thread that waits in poll.

use nix::poll::{PollFd, PollFlags};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// End of the thread that waits.
#[derive(Debug)]
pub(crate) struct Sleeper {
    stream: UnixStream,
    own: Waker,
}

/// End of a thread that wakes.
#[derive(Debug)]
pub(crate) struct Waker(UnixStream);

/// Creates both ends.
pub(crate) fn pair() -> io::Result<(Waker, Sleeper)> {
    let (wake, sleep) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    sleep.set_nonblocking(true)?;
    let own = Waker(wake.try_clone()?);
    Ok((Waker(wake), Sleeper { stream: sleep, own }))
}

impl Waker {
    /// Wakes the sleeper. Never blocks: a full pipe wakes as well.
    pub fn wake(&self) {
        let _ = (&self.0).write(&[1]);
    }

    /// Restores a waker from [`Waker::descriptor`].
    #[cfg(test)]
    pub fn from_descriptor(descriptor: OwnedFd) -> Waker {
        Waker(descriptor.into())
    }

    /// Descriptor for a signal handler.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone().map(OwnedFd::from)
    }
}

impl Sleeper {
    /// Descriptor that is readable once woken.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)
    }

    /// Wakes itself, because there is more to do.
    pub fn wake_self(&self) {
        self.own.wake();
    }

    /// Clears the wake-up, so that the next one is noticed.
    pub fn clear(&self) {
        let mut bytes = [0; 256];
        while matches!((&self.stream).read(&mut bytes), Ok(n) if n == bytes.len()) {}
    }
}
