//! The function table that packetdrill hands to `packetdrill_interface_init` to be filled in:
//! `struct packetdrill_interface` of its `packetdrill.h`. Only names, order and types are taken
//! from that header; a test pins the size and the offset of each entry.

use libc::{
    c_int, c_long, c_longlong, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, nfds_t,
    pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval,
};

/// Type of one entry of the table. Every function takes [`Interface::userdata`] first.
macro_rules! entry {
    ($($argument:ty),* => $result:ty) => {
        Option<unsafe extern "C" fn(*mut c_void $(, $argument)*) -> $result>
    };
}

/// `struct packetdrill_interface`. Each function behaves as the system call of its name: on failure
/// it returns −1 and sets `errno`.
///
/// `fcntl` and `ioctl` are variadic in C. Their one optional argument is declared here as an
/// integer of register width, which the calling conventions of x86-64 and arm64 Linux pass in the
/// same way.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "system calls by name")]
pub struct Interface {
    pub userdata: *mut c_void,
    pub free: entry!(=> ()),
    pub socket: entry!(c_int, c_int, c_int => c_int),
    pub bind: entry!(c_int, *const sockaddr, socklen_t => c_int),
    pub listen: entry!(c_int, c_int => c_int),
    pub accept: entry!(c_int, *mut sockaddr, *mut socklen_t => c_int),
    pub connect: entry!(c_int, *const sockaddr, socklen_t => c_int),
    pub read: entry!(c_int, *mut c_void, size_t => ssize_t),
    pub readv: entry!(c_int, *const iovec, c_int => ssize_t),
    pub recv: entry!(c_int, *mut c_void, size_t, c_int => ssize_t),
    pub recvfrom: entry!(
        c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t => ssize_t
    ),
    pub recvmsg: entry!(c_int, *mut msghdr, c_int => ssize_t),
    pub write: entry!(c_int, *const c_void, size_t => ssize_t),
    pub writev: entry!(c_int, *const iovec, c_int => ssize_t),
    pub send: entry!(c_int, *const c_void, size_t, c_int => ssize_t),
    pub sendto: entry!(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t => ssize_t),
    pub sendmsg: entry!(c_int, *const msghdr, c_int => ssize_t),
    pub fcntl: entry!(c_int, c_int, c_long => c_int),
    pub ioctl: entry!(c_int, c_ulong, *mut c_int => c_int),
    pub close: entry!(c_int => c_int),
    pub shutdown: entry!(c_int, c_int => c_int),
    pub getsockopt: entry!(c_int, c_int, c_int, *mut c_void, *mut socklen_t => c_int),
    pub setsockopt: entry!(c_int, c_int, c_int, *const c_void, socklen_t => c_int),
    pub poll: entry!(*mut pollfd, nfds_t, c_int => c_int),
    /// Delivers an IP packet to the stack.
    pub netdev_send: entry!(*const c_void, size_t => c_int),
    /// Returns the next IP packet from the stack, its length, and the time it left in µs.
    pub netdev_receive: entry!(*mut c_void, *mut size_t, *mut c_longlong => c_int),
    pub usleep: entry!(c_uint => c_int),
    pub gettimeofday: entry!(*mut timeval, *mut c_void => c_int),
    pub epoll_create: entry!(c_int => c_int),
    pub epoll_ctl: entry!(c_int, c_int, c_int, *mut epoll_event => c_int),
    pub epoll_wait: entry!(c_int, *mut epoll_event, c_int, c_int => c_int),
    pub pipe: entry!(*mut c_int => c_int),
    pub splice: entry!(c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint => ssize_t),
}
