//! Identifies the network namespace at the other end of a Unix socket. A pidfd refers to the
//! process (SO_PEERPIDFD, since 6.5), so that a reused process id cannot speak for another
//! namespace.

use cofferdam_types::NetnsId;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

const SO_PEERPIDFD: libc::c_int = 77;
/// `_IO(0xFF, 4)`, since 6.11 (commit 5b08bd408534).
const PIDFD_GET_NET_NAMESPACE: libc::c_ulong = 0xff04;

/// Identity of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Network namespace of the connecting process.
    pub netns: NetnsId,
    /// User of the process, in this process's user namespace.
    pub uid: u32,
}

/// Identifies the process that made the connection.
///
/// # Errors
/// The process has ended, or this kernel cannot identify it.
pub fn peer_of(stream: &UnixStream) -> io::Result<Peer> {
    let pidfd = peer_pidfd(stream)?;
    let namespace = match namespace_of(&pidfd) {
        Ok(file) => file,
        // Before 6.11: by the process id, valid only if the process still lives afterwards.
        Err(_) => {
            let file = File::open(format!("/proc/{}/ns/net", peer_pid(stream)?))?;
            if has_ended(&pidfd) {
                return Err(io::ErrorKind::NotFound.into());
            }
            file
        }
    };
    let inode = namespace.metadata()?.ino();
    let netns = u32::try_from(inode).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Peer {
        netns: NetnsId(netns),
        uid: credentials(stream)?.uid,
    })
}

fn option<T: Default>(stream: &UnixStream, name: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is plain data of `length` bytes that the kernel fills in; both outlive the
    // call.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match status {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn peer_pidfd(stream: &UnixStream) -> io::Result<OwnedFd> {
    match option::<libc::c_int>(stream, SO_PEERPIDFD) {
        // SAFETY: a new descriptor from the kernel, owned by nothing else.
        Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => open_pidfd(peer_pid(stream)?),
        Err(e) => Err(e),
    }
}

/// Opens a pidfd before 6.5: the process id could have been reused since the connection was made.
fn open_pidfd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match libc::c_int::try_from(fd) {
        // SAFETY: a new descriptor from the kernel, owned by nothing else.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[derive(Default)]
#[repr(C)]
struct Credentials {
    pid: libc::pid_t,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

fn credentials(stream: &UnixStream) -> io::Result<Credentials> {
    option(stream, libc::SO_PEERCRED)
}

fn peer_pid(stream: &UnixStream) -> io::Result<libc::pid_t> {
    match credentials(stream)?.pid {
        // The process is outside our own pid namespace.
        0 => Err(io::ErrorKind::NotFound.into()),
        pid => Ok(pid),
    }
}

fn namespace_of(pidfd: &OwnedFd) -> io::Result<File> {
    // SAFETY: this request takes no argument and returns a new descriptor.
    let fd = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_NET_NAMESPACE, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open, new, and owned by nothing else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Whether the process has ended: its pidfd is then readable.
fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: pidfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd that outlives the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_is_in_our_own_namespace() {
        let (a, _b) = UnixStream::pair().unwrap();
        let own = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
        let peer = peer_of(&a).unwrap();
        assert_eq!(u64::from(peer.netns.0), own);
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
    }
}
