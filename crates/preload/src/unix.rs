//! Pairs of Unix sockets under the program's descriptors.

use crate::{epoll_sets, real};
use cofferdam_bsd::Result;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Filler that is sent before a connection is open, so that its end is not writable. More than a
/// quarter of the send buffer is needed, which is the kernel's criterion for "writable".
const FILLER: [u8; 16 << 10] = [0; 16 << 10];
const MOST_FILLERS: usize = 256;

/// Creates a pair: the program's end, the library's end, and the inode of the program's. Both are
/// non-blocking and closed on exec.
pub fn pair(kind: libc::c_int) -> Result<(OwnedFd, OwnedFd, u64)> {
    let mut fds = [-1; 2];
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the array has space for two descriptors.
    Errno::result(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: the descriptors are new and have no other owner.
    let [theirs, ours] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let inode = real::inode(theirs.as_raw_fd()).ok_or(Errno::ENOTSOCK)?;
    Ok((theirs, ours, inode))
}

/// SO_BUF_LOCK (asm-generic/socket.h) and its bits: the buffers whose size was set.
const SO_BUF_LOCK: libc::c_int = 72;
const SEND_LOCK: libc::c_int = 1;
const RECEIVE_LOCK: libc::c_int = 2;

/// Copies the options of the replaced socket to the program's end, as far as a Unix socket has
/// them. Returns the sizes of its send and receive buffers if they were set, else 0.
pub fn adopt(from: RawFd, end: &OwnedFd) -> [i32; 2] {
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        real::copy_option::<libc::timeval>(from, end.as_raw_fd(), name);
    }
    for name in [
        libc::SO_REUSEADDR,
        libc::SO_PRIORITY,
        libc::SO_RCVLOWAT,
        libc::SO_OOBINLINE,
        libc::SO_DONTROUTE,
        libc::SO_BROADCAST,
    ] {
        real::copy_option::<libc::c_int>(from, end.as_raw_fd(), name);
    }
    let option = |name| real::int_option(from, libc::SOL_SOCKET, name).unwrap_or(0);
    let locks = option(SO_BUF_LOCK);
    let requested_bytes = |bit: libc::c_int, name| match locks & bit {
        0 => 0,
        // The kernel returns twice the size that was set.
        _ => option(name) / 2,
    };
    let sizes = [
        requested_bytes(SEND_LOCK, libc::SO_SNDBUF),
        requested_bytes(RECEIVE_LOCK, libc::SO_RCVBUF),
    ];
    set_buffers(end, sizes);
    sizes
}

/// Sets the buffer sizes that are not 0.
pub fn set_buffers(end: &impl AsFd, [send_bytes, receive_bytes]: [i32; 2]) {
    set_bytes(end, libc::SO_SNDBUF, send_bytes);
    set_bytes(end, libc::SO_RCVBUF, receive_bytes);
}

/// Limits the library's end to the receive buffer of the program.
pub fn limit_send(end: &impl AsFd, receive_bytes: i32) {
    set_bytes(end, libc::SO_SNDBUF, receive_bytes);
}

fn set_bytes(end: &impl AsFd, name: libc::c_int, bytes: i32) {
    if bytes > 0 {
        let fd = end.as_fd().as_raw_fd();
        let len = size_of::<i32>() as libc::socklen_t;
        real::setsockopt(fd, libc::SOL_SOCKET, name, (&raw const bytes).cast(), len);
    }
}

/// Moves `end` to the program's descriptor, with its flags.
pub fn replace(fd: RawFd, end: OwnedFd) -> Result<()> {
    let (status, descriptor) = real::flags(fd)?;
    real::set_nonblocking(end.as_raw_fd(), status & libc::O_NONBLOCK != 0)?;
    let cloexec = match descriptor & libc::FD_CLOEXEC {
        0 => 0,
        _ => libc::O_CLOEXEC,
    };
    Errno::result(real::dup3(end.as_raw_fd(), fd, cloexec)).map(drop)
}

/// Moves `end` to the program's descriptor, also in the epoll sets that contain it.
pub fn replace_watched(fd: RawFd, end: OwnedFd) -> Result<()> {
    let mut sets = epoll_sets::of(fd);
    // Another process may also have the old end, which would stay in the set unreachably.
    sets.retain(|watch| watch.remove(fd));
    let replaced = replace(fd, end);
    for watch in &sets {
        watch.add(fd);
    }
    replaced
}

/// Fills the program's end until it is not writable. Returns the number of bytes.
pub fn fill(end: BorrowedFd<'_>) -> usize {
    let mut filled = 0;
    for _ in 0..MOST_FILLERS {
        if !is_writable(end) {
            break;
        }
        match send(end, &FILLER) {
            Ok(sent) => filled += sent,
            Err(_) => break,
        }
    }
    filled
}

fn is_writable(end: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::POLLOUT)];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    polled.is_ok() && fds[0].any() == Some(true)
}

/// Sends without waiting and without a signal.
pub fn send(end: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the slice is valid.
    let sent = unsafe { libc::send(end.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    Errno::result(sent).map(|sent| sent as usize)
}

/// Sends one message without waiting and without a signal.
pub fn send_parts(end: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> Result<usize> {
    // SAFETY: all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` has the layout of C's `iovec`.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let sent = crate::real::sendmsg(end.as_raw_fd(), &raw const message, flags);
    Errno::result(sent).map(|sent| sent as usize)
}

/// Receives one message without waiting.
pub fn receive_parts(end: BorrowedFd<'_>, parts: &mut [IoSliceMut<'_>]) -> Result<usize> {
    // SAFETY: all zeros are a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr().cast();
    message.msg_iovlen = parts.len();
    let got = crate::real::recvmsg(end.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT);
    Errno::result(got).map(|got| got as usize)
}

/// Whether all copies of the other end are closed.
pub fn is_closed(end: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::empty())];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    polled.is_ok() && fds[0].any() == Some(true)
}

/// Receives without waiting.
pub fn receive(end: &impl AsFd, bytes: &mut [u8]) -> Result<usize> {
    let fd = end.as_fd().as_raw_fd();
    // SAFETY: the slice is valid.
    let got = unsafe {
        libc::recv(
            fd,
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
        )
    };
    Errno::result(got).map(|got| got as usize)
}

/// Shuts down this end.
pub fn shutdown(end: &impl AsFd, how: libc::c_int) {
    // SAFETY: there are no pointers.
    unsafe { libc::shutdown(end.as_fd().as_raw_fd(), how) };
}

/// Leaves a byte unread at the library's end of the program's socket `fd`, if that still has this
/// inode: when the library's end closes, the program gets ECONNRESET.
pub fn leave_unread(fd: RawFd, inode: u64) {
    let Ok(copy) = real::copy_above(fd, 0) else {
        return;
    };
    if real::inode(copy.as_raw_fd()) == Some(inode) {
        let _ = send(copy.as_fd(), &[0]);
    }
}

/// Number of bytes that the other end has written and this end has not read.
pub fn waiting(end: &impl AsFd) -> Result<usize> {
    let mut bytes: libc::c_int = 0;
    let fd = end.as_fd().as_raw_fd();
    // SAFETY: the pointer is valid for the answer.
    Errno::result(unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::FIONREAD, &raw mut bytes) })?;
    Ok(bytes as usize)
}

/// Size of the data that this end has written and the other has not read, as the kernel counts it;
/// 0 if all was read.
pub fn unread(end: &impl AsFd) -> Result<usize> {
    let mut bytes: libc::c_int = 0;
    let fd = end.as_fd().as_raw_fd();
    // SAFETY: the pointer is valid for the answer.
    Errno::result(unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes as usize)
}
