//! Filters of system calls (seccomp(2)).

use nix::errno::Errno;
use std::io;

/// Installs `filter` for the system calls of the calling thread and of all that it starts. As the
/// kernel requires, these gain no rights by set-uid bits any more.
///
/// # Errors
/// The kernel has no filters, or refuses this one.
pub fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        // The kernel only reads it.
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
