//! System calls, because this library replaces the C library's functions of the same names.

use cofferdam_bsd::Result;
use libc::{
    c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t,
    pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};
use nix::errno::Errno;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Result of a system call in C's form: −1 and `errno`.
fn call(result: c_long) -> c_int {
    result as c_int
}

fn done(result: c_int) -> Result<()> {
    Errno::result(result).map(drop)
}

pub fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the kernel checks the pointer.
    call(unsafe { libc::syscall(libc::SYS_bind, fd, address, len) })
}

pub fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the kernel checks the pointer.
    call(unsafe { libc::syscall(libc::SYS_connect, fd, address, len) })
}

pub fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: there are no pointers.
    call(unsafe { libc::syscall(libc::SYS_listen, fd, backlog) })
}

pub fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    // SAFETY: the kernel checks the pointers.
    call(unsafe { libc::syscall(libc::SYS_accept4, fd, address, len, flags) })
}

pub fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the kernel checks the pointers.
    call(unsafe { libc::syscall(libc::SYS_getsockname, fd, address, len) })
}

pub fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the kernel checks the pointers.
    call(unsafe { libc::syscall(libc::SYS_getpeername, fd, address, len) })
}

pub fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the kernel checks the pointers.
    call(unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) })
}

pub fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the kernel checks the pointer.
    call(unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, value, len) })
}

pub fn close(fd: c_int) -> c_int {
    // SAFETY: the caller closes its own descriptor, or the kernel refuses.
    call(unsafe { libc::syscall(libc::SYS_close, fd) })
}

pub fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: as `close`.
    call(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) })
}

pub fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: there are no pointers.
    call(unsafe { libc::syscall(libc::SYS_dup3, from, to, flags) })
}

pub fn exit(status: c_int) -> ! {
    loop {
        // SAFETY: the call ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Value of an integer option.
pub fn int_option(fd: RawFd, level: c_int, name: c_int) -> Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    done(getsockopt(
        fd,
        level,
        name,
        (&raw mut value).cast(),
        &raw mut len,
    ))?;
    Ok(value)
}

/// Copies an option from one socket to another if both have it.
pub fn copy_option<T>(from: RawFd, to: RawFd, name: c_int) {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    let pointer = value.as_mut_ptr();
    if getsockopt(from, libc::SOL_SOCKET, name, pointer.cast(), &raw mut len) == 0 {
        setsockopt(to, libc::SOL_SOCKET, name, pointer.cast(), len);
    }
}

/// Copies a descriptor to `least` or above, closed on exec.
pub fn copy_above(fd: RawFd, least: RawFd) -> Result<OwnedFd> {
    // SAFETY: there are no pointers.
    let copy = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, least) };
    let copy = Errno::result(copy)? as RawFd;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Status flags and descriptor flags, in particular O_NONBLOCK and FD_CLOEXEC.
pub fn flags(fd: RawFd) -> Result<(c_int, c_int)> {
    // SAFETY: there are no pointers.
    let get = |what: c_int| unsafe { libc::syscall(libc::SYS_fcntl, fd, what) };
    let status = Errno::result(get(libc::F_GETFL))? as c_int;
    let descriptor = Errno::result(get(libc::F_GETFD))? as c_int;
    Ok((status, descriptor))
}

/// Whether calls on a file block.
pub fn blocks(fd: RawFd) -> bool {
    // SAFETY: there are no pointers.
    let status = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    status >= 0 && status as c_int & libc::O_NONBLOCK == 0
}

/// Sets or clears O_NONBLOCK of a file.
pub fn set_nonblocking(fd: RawFd, nonblocking: bool) -> Result<()> {
    let (status, _) = flags(fd)?;
    let wanted = match nonblocking {
        true => status | libc::O_NONBLOCK,
        false => status & !libc::O_NONBLOCK,
    };
    // SAFETY: there are no pointers.
    let set = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFL, wanted) };
    Errno::result(set).map(drop)
}

/// Inode, which identifies a socket for all copies of its descriptor, in this process and in
/// children.
pub fn inode(fd: RawFd) -> Option<u64> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the pointer is valid for the answer.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the kernel has filled it.
    let stat = unsafe { stat.assume_init() };
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

pub fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the kernel checks the pointer.
    (unsafe { libc::syscall(libc::SYS_write, fd, bytes, len) }) as ssize_t
}

pub fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the kernel checks the pointers.
    (unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) }) as ssize_t
}

pub fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    to: (*const sockaddr, socklen_t),
) -> ssize_t {
    // SAFETY: the kernel checks the pointers.
    (unsafe { libc::syscall(libc::SYS_sendto, fd, bytes, len, flags, to.0, to.1) }) as ssize_t
}

pub fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the kernel checks the pointers.
    (unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, flags) }) as ssize_t
}

pub fn read(fd: c_int, bytes: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the kernel checks the pointer.
    (unsafe { libc::syscall(libc::SYS_read, fd, bytes, len) }) as ssize_t
}

pub fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the kernel checks the pointers.
    (unsafe { libc::syscall(libc::SYS_readv, fd, parts, count) }) as ssize_t
}

pub fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    from: (*mut sockaddr, *mut socklen_t),
) -> ssize_t {
    // SAFETY: the kernel checks the pointers.
    (unsafe { libc::syscall(libc::SYS_recvfrom, fd, bytes, len, flags, from.0, from.1) }) as ssize_t
}

pub fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the kernel checks the pointers.
    (unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, flags) }) as ssize_t
}

pub fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: the kernel checks the pointers.
    call(unsafe { libc::syscall(libc::SYS_sendmmsg, fd, messages, count, flags) })
}

pub fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    // SAFETY: the kernel checks the pointers.
    call(unsafe { libc::syscall(libc::SYS_recvmmsg, fd, messages, count, flags, timeout) })
}

pub fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: as the caller of ioctl(2) guarantees; the kernel checks the requests that it knows.
    call(unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) })
}

pub fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: there are no pointers.
    call(unsafe { libc::syscall(libc::SYS_shutdown, fd, how) })
}

/// `epoll_ctl(2)`.
pub fn epoll_ctl(set: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    // SAFETY: the kernel checks the pointer.
    call(unsafe { libc::syscall(libc::SYS_epoll_ctl, set, what, fd, event) })
}

/// `epoll_pwait(2)`.
pub fn epoll_pwait(
    fd: c_int,
    events: (*mut epoll_event, c_int),
    timeout_ms: c_int,
    signals: *const sigset_t,
) -> c_int {
    let (place, most) = events;
    // SAFETY: the kernel checks the pointers.
    call(unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            fd,
            place,
            most,
            timeout_ms,
            signals,
            SIGNALS_BYTES,
        )
    })
}

/// `epoll_pwait2(2)`.
pub fn epoll_pwait2(
    fd: c_int,
    events: (*mut epoll_event, c_int),
    timeout: *const timespec,
    signals: *const sigset_t,
) -> c_int {
    let (place, most) = events;
    // SAFETY: the kernel checks the pointers.
    call(unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            fd,
            place,
            most,
            timeout,
            signals,
            SIGNALS_BYTES,
        )
    })
}

/// `ppoll(2)`; the kernel may change the timeout.
pub fn ppoll(
    fds: (*mut pollfd, nfds_t),
    timeout: *mut timespec,
    signals: *const sigset_t,
) -> c_int {
    // SAFETY: the kernel checks the pointers.
    call(unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            fds.0,
            fds.1,
            timeout,
            signals,
            SIGNALS_BYTES,
        )
    })
}

/// `pselect6(2)`; the kernel changes the sets and the timeout.
pub fn pselect(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: *mut timespec,
    signals: *const sigset_t,
) -> c_int {
    let signals = (signals, SIGNALS_BYTES);
    // SAFETY: the kernel checks the pointers.
    call(unsafe {
        libc::syscall(
            libc::SYS_pselect6,
            count,
            sets[0],
            sets[1],
            sets[2],
            timeout,
            &raw const signals,
        )
    })
}

/// Size of the kernel's signal set in bytes.
pub const SIGNALS_BYTES: size_t = 8;
