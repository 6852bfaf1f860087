//! The pairs of Unix sockets under a program's descriptors.

use crate::{real, watched};
use cofferdam_bsd::Result;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What is sent before a connection is open, so that its end is not writable: more than a quarter
/// of the send buffer, the kernel's measure of "writable".
const FILLER: [u8; 16 << 10] = [0; 16 << 10];
const MOST_FILLERS: usize = 256;

/// Both ends, the program's first, and the inode of that; closed on exec and not blocking.
pub fn pair(kind: libc::c_int) -> Result<(OwnedFd, OwnedFd, u64)> {
    let mut fds = [-1; 2];
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: there is room for two.
    Errno::result(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: just made, and nobody else's.
    let [theirs, ours] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let inode = real::inode(theirs.as_raw_fd()).ok_or(Errno::ENOTSOCK)?;
    Ok((theirs, ours, inode))
}

/// SO_BUF_LOCK (asm-generic/socket.h) and its bits: which buffers were asked for.
const SO_BUF_LOCK: libc::c_int = 72;
const SEND_LOCK: libc::c_int = 1;
const RECEIVE_LOCK: libc::c_int = 2;

/// Gives the program's end what was set at the socket in whose place it comes, as far as a Unix
/// socket has it. The sizes of its buffers, for sending and receiving, as they were asked for; 0 where they were not.
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
    let asked = |bit: libc::c_int, name| match locks & bit {
        0 => 0,
        // The kernel says twice what was asked for.
        _ => option(name) / 2,
    };
    let sizes = [
        asked(SEND_LOCK, libc::SO_SNDBUF),
        asked(RECEIVE_LOCK, libc::SO_RCVBUF),
    ];
    set_buffers(end, sizes);
    sizes
}

/// Sets the sizes of buffers that were asked for.
pub fn set_buffers(end: &impl AsFd, [send_bytes, receive_bytes]: [i32; 2]) {
    set_bytes(end, libc::SO_SNDBUF, send_bytes);
    set_bytes(end, libc::SO_RCVBUF, receive_bytes);
}

/// A program that receives less at once is sent less at once: for our end.
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

/// Puts `end` in the place of the program's descriptor, with its flags.
pub fn replace(fd: RawFd, end: OwnedFd) -> Result<()> {
    let (status, descriptor) = real::flags(fd)?;
    real::set_nonblocking(end.as_raw_fd(), status & libc::O_NONBLOCK != 0)?;
    let cloexec = match descriptor & libc::FD_CLOEXEC {
        0 => 0,
        _ => libc::O_CLOEXEC,
    };
    Errno::result(real::dup3(end.as_raw_fd(), fd, cloexec)).map(drop)
}

/// As [`replace`], also in the epoll sets where the program waits for it.
pub fn replace_watched(fd: RawFd, end: OwnedFd) -> Result<()> {
    let mut sets = watched::of(fd);
    // Another process may have the old end as well: it would stay in the set, out of reach.
    sets.retain(|watch| watch.remove(fd));
    let replaced = replace(fd, end);
    for watch in &sets {
        watch.add(fd);
    }
    replaced
}

/// Fills the program's end until it is not writable; how many bytes that took.
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
    // SAFETY: the slice is memory of ours.
    let sent = unsafe { libc::send(end.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    Errno::result(sent).map(|sent| sent as usize)
}

/// Sends one message without waiting and without a signal.
pub fn send_parts(end: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> Result<usize> {
    // SAFETY: all zeros are a value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // Slices of this kind are laid out as C's.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let sent = crate::real::sendmsg(end.as_raw_fd(), &raw const message, flags);
    Errno::result(sent).map(|sent| sent as usize)
}

/// Receives one message without waiting.
pub fn receive_parts(end: BorrowedFd<'_>, parts: &mut [IoSliceMut<'_>]) -> Result<usize> {
    // SAFETY: all zeros are a value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr().cast();
    message.msg_iovlen = parts.len();
    let got = crate::real::recvmsg(end.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT);
    Errno::result(got).map(|got| got as usize)
}

/// Whether the other end is gone, all copies of it.
pub fn is_closed(end: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::empty())];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    polled.is_ok() && fds[0].any() == Some(true)
}

/// Receives without waiting.
pub fn receive(end: &impl AsFd, bytes: &mut [u8]) -> Result<usize> {
    let fd = end.as_fd().as_raw_fd();
    // SAFETY: the slice is memory of ours.
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

/// No more comes from this end.
pub fn shutdown(end: &impl AsFd, how: libc::c_int) {
    // SAFETY: no pointers.
    unsafe { libc::shutdown(end.as_fd().as_raw_fd(), how) };
}

/// Leaves a byte unread at the other end of the program's socket `fd`, if that still is the one
/// with this inode: when the other end closes, the program gets ECONNRESET.
pub fn leave_unread(fd: RawFd, inode: u64) {
    let Ok(copy) = real::copy_above(fd, 0) else {
        return;
    };
    if real::inode(copy.as_raw_fd()) == Some(inode) {
        let _ = send(copy.as_fd(), &[0]);
    }
}

/// Bytes that the other end has written and this one has not read.
pub fn waiting(end: &impl AsFd) -> Result<usize> {
    let mut bytes: libc::c_int = 0;
    let fd = end.as_fd().as_raw_fd();
    // SAFETY: the place is one for the answer.
    Errno::result(unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::FIONREAD, &raw mut bytes) })?;
    Ok(bytes as usize)
}

/// What this end has written and the other has not read, in the kernel's count; 0 where it has all.
pub fn unread(end: &impl AsFd) -> Result<usize> {
    let mut bytes: libc::c_int = 0;
    let fd = end.as_fd().as_raw_fd();
    // SAFETY: the place is one for the answer.
    Errno::result(unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes as usize)
}
