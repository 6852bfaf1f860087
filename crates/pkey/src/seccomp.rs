//! Filters of system calls (seccomp(2)).

use nix::errno::Errno;
use std::io;

/// From now on `filter` decides about the system calls of the calling thread and of all that it starts, which gains no
/// rights by set-uid bits either: a filter requires that.
///
/// # Errors
/// The kernel has no filters, or does not take this one.
pub fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        // The kernel reads it alone.
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program is the caller's, with its length; both calls concern this thread alone.
    unsafe {
        Errno::result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        let mode = libc::SECCOMP_MODE_FILTER;
        Errno::result(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program))?;
    }
    Ok(())
}
