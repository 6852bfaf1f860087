//! Calls that block, as `read` and `accept`: the thread does the pump's work while it waits, as one in
//! `poll` does, and a reader takes what comes for it from where the dataplane put it.

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

/// Whether a descriptor can be read, without waiting.
fn look(fd: RawFd) -> c_int {
    wait::look_at(&mut readable(fd), 1)
}

/// Waits until `look` finds something, for the descriptor's `SO_RCVTIMEO`.
///
/// # Errors
/// `EAGAIN`: in vain. `EINTR`, where a signal may have come whose handler does not take calls up again.
/// Which one has come is not known: where any such handler is there, the program is ready for it.
fn wait(fd: RawFd, home: Option<Home>, mut look: impl FnMut() -> c_int) -> Result<()> {
    let limit = timeout(fd, libc::SO_RCVTIMEO);
    let fds = [readable(fd)];
    loop {
        match wait::wait(&fds, home, limit, std::ptr::null(), &mut look) {
            Ok(0) => return Err(Errno::EAGAIN),
            // A call with a limit is not taken up again at all (signal(7)).
            Err(Errno::EINTR) if limit.is_none() && !signals::may_end_calls() => {}
            result => return result.map(drop),
        }
    }
}

/// Waits until a call that blocks on a descriptor has something; not at all where it does not block, or
/// nothing of it is the dataplane's. For the library's caller, who is inside already.
///
/// # Errors
/// As the call, see [`wait()`].
pub fn until_readable(fd: RawFd) -> Result<()> {
    if !process::has_pump() || !real::blocks(fd) {
        return Ok(());
    }
    wait(fd, None, || look(fd))
}

/// Reads from a connection as a call that blocks; bytes, or none where the kernel has the answer. For the
/// library's caller, who is inside already.
///
/// # Errors
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
            None => look(fd),
        }
    });
    if taken.is_none() {
        process::with_pump(|pump| pump.give_up(name));
    }
    waited?;
    Ok(taken)
}
