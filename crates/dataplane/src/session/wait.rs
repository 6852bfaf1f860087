//! Waiting for the dataplane: first by polling, then asleep.

use super::Session;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

impl Session {
    /// Shows the calls and waits for an event, at most `limit` (`None`: without end).
    ///
    /// # Errors
    /// `ConnectionAborted` when the dataplane is gone.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.flush();
        if self.spin > Duration::ZERO {
            let start = Instant::now();
            while start.elapsed() < self.spin {
                if !self.doze(false) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        if self.doze(true) {
            self.sleep(limit)?;
        }
        self.doze(false);
        Ok(())
    }

    /// Tells every core that this application sleeps, or not; true when no condition waits.
    fn doze(&self, sleeps: bool) -> bool {
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
                fds[1].any().unwrap_or(false)
            }
            None => {
                pause(&mut [bell], timeout)?;
                false
            }
        };
        // Empty is no error: a timeout.
        let _ = self.bell.read();
        if hung_up && self.doze(false) {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the dataplane is gone, or has ended this application (its standard error says why)",
            ));
        }
        Ok(())
    }
}

/// Waits; a signal ends the wait as an event does.
fn pause(fds: &mut [PollFd<'_>], timeout: PollTimeout) -> io::Result<()> {
    match poll(fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
