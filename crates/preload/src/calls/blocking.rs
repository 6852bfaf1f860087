//! Blocking calls such as `read` and `accept`. The thread does the pump's work while it waits, as
//! one in `poll` does, and a reader copies data from the dataplane's memory.

use super::options::timeout;
use super::wait::{self, readable};
use crate::process::{self, Home};
use crate::pump::Name;
use crate::real;
use crate::signals;
use cofferdam_bsd::Result;
use libc::c_int;
use nix::errno::Errno;
use std::io::IoSliceMut;
use std::os::fd::RawFd;

/// Whether a descriptor is readable, without waiting.
fn poll_readable(fd: RawFd) -> c_int {
    wait::poll_now(&mut readable(fd), 1)
}

/// Waits until `look` finds something, at most for the descriptor's `SO_RCVTIMEO`.
///
/// # Errors
///
/// `EAGAIN` after the timeout. `EINTR` if a signal may have arrived whose handler ends system
/// calls. The library does not know which signal arrived: if the program has any such handler, it
/// expects `EINTR`.
fn wait(fd: RawFd, home: Option<Home>, mut look: impl FnMut() -> c_int) -> Result<()> {
    let limit = timeout(fd, libc::SO_RCVTIMEO);
    let fds = [readable(fd)];
    loop {
        match wait::wait(&fds, home, limit, std::ptr::null(), &mut look) {
            Ok(0) => return Err(Errno::EAGAIN),
            // A call with a timeout is never restarted (signal(7)).
            Err(Errno::EINTR) if limit.is_none() && !signals::may_end_calls() => {}
            result => return result.map(drop),
        }
    }
}

/// Waits until a blocking call on a descriptor has a result. Returns at once if the descriptor does
/// not block or the process has no pump. The caller is already inside.
///
/// # Errors
///
/// See [`wait()`].
pub fn until_readable(fd: RawFd) -> Result<()> {
    if !process::has_pump() || !real::blocks(fd) {
        return Ok(());
    }
    wait(fd, None, || poll_readable(fd))
}

/// Reads from a connection as a blocking call. Returns `None` if the kernel has the answer. The
/// caller is already inside.
///
/// # Errors
///
/// See [`wait()`].
/// See [`wait()`].
pub fn read(
    fd: RawFd,
    (name, inode): (Name, u64),
    parts: &mut [IoSliceMut<'_>],
) -> Result<Option<usize>> {
    let mut taken = None;
    let waited = wait(fd, Some(Home::Read(name)), || {
        taken = process::with_pump(|pump| pump.receive(name, inode, parts)).flatten();
        match taken {
            Some(_) => 1,
            None => poll_readable(fd),
        }
    });
    if taken.is_none() {
        process::with_pump(|pump| pump.deliver(name));
    }
    waited?;
    Ok(taken)
}
