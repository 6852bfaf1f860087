//! Sleep of the application until the dataplane wakes it.

use super::Session;
use crate::attach::reason;
use crate::bell::BellEnd;
use crate::tuning::session::{CHECK, LINGER};
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

impl Session {
    /// Publishes the calls and waits for an event, at most `limit` (`None`: without limit).
    ///
    /// # Errors
    /// `ConnectionAborted` if the dataplane has ended, or has ended this application, with the
    /// reason.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.flush();
        if self.linger(limit) {
            return Ok(());
        }
        if self.publish_sleep(true) {
            self.sleep(limit)?;
        }
        self.publish_sleep(false);
        Ok(())
    }

    /// Yields the CPU that the session may share with the dataplane, as long as that is awake. This
    /// costs a switch in each direction, and none of the four system calls of a wake-up. Returns
    /// true if an event is pending or the time is over.
    fn linger(&self, limit: Option<Duration>) -> bool {
        if !self.lingers() {
            return false;
        }
        let begun = Instant::now();
        let most = limit.map_or(LINGER, |limit| limit.min(LINGER));
        while self.is_empty() {
            let elapsed = begun.elapsed();
            if elapsed >= most || !self.lingers() {
                return limit.is_some_and(|limit| elapsed >= limit);
            }
            std::thread::yield_now();
        }
        true
    }

    /// Whether a loop that looks for calls may run on this CPU.
    pub(crate) fn lingers(&self) -> bool {
        let mut cores = self.cores.iter();
        self.yields && !cores.all(|core| core.end.dataplane_sleeps())
    }

    /// Descriptors that become readable when an event arrives or the dataplane ends, for an
    /// application that also waits for other files. Call [`Session::sleeps`] before, and
    /// [`Session::woken`] after the wait.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.bell.as_fd()).chain(self.socket.as_ref().map(AsFd::as_fd))
    }

    /// Moves the session's descriptors to `least` or above, closed on exec, apart from the
    /// process's own. Returns their numbers.
    ///
    /// # Errors
    /// No number is free there. Descriptors that were moved stay.
    pub fn move_descriptors(&mut self, least: RawFd) -> io::Result<Vec<RawFd>> {
        let moved = |fd: BorrowedFd<'_>| -> io::Result<OwnedFd> {
            let copy = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(least))?;
            // SAFETY: just made, and nobody else's.
            Ok(unsafe { OwnedFd::from_raw_fd(copy) })
        };
        let mut numbers = Vec::new();
        self.bell = BellEnd::from_owned_fd(moved(self.bell.as_fd())?);
        numbers.push(self.bell.as_fd().as_raw_fd());
        if let Some(socket) = &mut self.socket {
            *socket = moved(socket.as_fd())?;
            numbers.push(socket.as_raw_fd());
        }
        for core in &mut self.cores {
            numbers.push(core.move_door(moved)?);
        }
        Ok(numbers)
    }

    /// Publishes the calls and asks to be woken. Returns false if an event is pending already.
    pub fn sleeps(&mut self) -> bool {
        self.flush();
        self.publish_sleep(true)
    }

    /// Takes the wake-up.
    ///
    /// # Errors
    /// Errors of [`Session::wait`].
    pub fn woken(&mut self) -> io::Result<()> {
        let is_calm = self.publish_sleep(false);
        self.bell.take_rings();
        match &self.socket {
            Some(socket) if is_calm => {
                let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                pause(&mut fds, PollTimeout::ZERO)?;
                match fds[0].any() {
                    Some(true) => Err(self.end()),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Publishes to every core whether this application sleeps. Returns true if no condition is
    /// pending.
    fn publish_sleep(&self, sleeps: bool) -> bool {
        let ends = self.cores.iter().map(|core| core.end.sleep(sleeps));
        ends.fold(true, |calm, empty| calm & empty)
    }

    fn sleep(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let timeout = match limit {
            None => PollTimeout::NONE,
            Some(limit) => PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX),
        };
        let bell = PollFd::new(self.bell.as_fd(), PollFlags::POLLIN);
        let hung_up = match &self.socket {
            Some(socket) => {
                let mut fds = [bell, PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
                pause(&mut fds, timeout)?;
                let is_given_up = |fd: &PollFd<'_>| {
                    let events = fd.revents().unwrap_or(PollFlags::empty());
                    events.contains(PollFlags::POLLHUP)
                };
                if is_given_up(&fds[0]) && !fds[1].any().unwrap_or(false) {
                    // The loop has ended this application, and the reason follows.
                    pause(&mut fds[1..], timeout)?;
                }
                fds[1].any().unwrap_or(false)
            }
            None => {
                pause(&mut [bell], timeout)?;
                false
            }
        };
        self.bell.take_rings();
        if hung_up && self.publish_sleep(false) {
            return Err(self.end());
        }
        Ok(())
    }

    /// Checks whether the dataplane still runs, for an application that never waits. It looks at
    /// most ten times a second, so that it can be called whenever no event is pending.
    ///
    /// # Errors
    /// Errors of [`Session::wait`].
    pub fn check(&mut self) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let now = Instant::now();
        if now < self.next_check {
            return Ok(());
        }
        self.next_check = now + CHECK;
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        pause(&mut fds, PollTimeout::ZERO)?;
        match fds[0].any() {
            Some(true) if self.is_empty() => Err(self.end()),
            _ => Ok(()),
        }
    }

    fn end(&self) -> io::Error {
        let why = match self.socket.as_ref().and_then(reason) {
            Some(reason) => format!("the dataplane has terminated this application: {reason}"),
            None => "the dataplane is gone".to_owned(),
        };
        io::Error::new(io::ErrorKind::ConnectionAborted, why)
    }
}

/// Waits for a descriptor. A signal ends the wait as an event does.
fn pause(fds: &mut [PollFd<'_>], timeout: PollTimeout) -> io::Result<()> {
    match poll(fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
