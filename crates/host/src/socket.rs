//! Sockets of ours that foreign processes connect to.

use std::os::fd::{AsFd, AsRawFd};

/// Whether a Unix socket takes descriptors (SCM_RIGHTS). Linux 6.16, commit 0e81cfd971dc.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Makes the kernel refuse descriptors sent to `socket`, and to the connections it will accept. The
/// receiver of a descriptor closes it even if unread, and closing may take as long as the sender
/// likes: a TCP socket lingers. False before Linux 6.16, which has no such option.
pub fn refuse_descriptors(socket: &impl AsFd) -> bool {
    let no: libc::c_int = 0;
    // SAFETY: `no` is an int and lives during the call; the descriptor is open.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    outcome == 0
}
