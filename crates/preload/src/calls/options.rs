//! `getsockopt` and `setsockopt`.
//!
//! What a Unix socket has as TCP does (timeouts, buffer sizes), the kernel answers. An option that
//! asks the stack for something that it does not do is refused as by a kernel without it.

use super::done;
use crate::inside::Inside;
use crate::real;
use crate::table::{self, Connected, Kind, Sock};
use cofferdam_bsd::{Result, memory};
use libc::{c_int, c_void, socklen_t};
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// Whether closing the socket resets its connection: SO_LINGER with no time.
pub fn resets_at_close(fd: RawFd) -> bool {
    let mut linger = libc::linger {
        l_onoff: 0,
        l_linger: 0,
    };
    let mut len = size_of::<libc::linger>() as socklen_t;
    let place = (&raw mut linger).cast();
    let got = real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, place, &raw mut len);
    got == 0 && linger.l_onoff != 0 && linger.l_linger == 0
}

/// SO_SNDTIMEO as poll has it.
pub fn send_timeout_ms(fd: RawFd) -> c_int {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut len = size_of::<libc::timeval>() as socklen_t;
    let place = (&raw mut time).cast();
    let got = real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, place, &raw mut len);
    match (got, time.tv_sec, time.tv_usec) {
        (0, 0, 0) => -1,
        (0, s, us) => c_int::try_from(s.saturating_mul(1000) + us / 1000 + 1).unwrap_or(c_int::MAX),
        _ => -1,
    }
}

/// The socket, unless it is the kernel's, as one is still that only has an address.
fn of_the_dataplane(fd: c_int) -> Option<Sock> {
    table::find(fd).filter(|sock| !matches!(sock.kind, Kind::Bound(_)))
}

/// `getsockopt(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::getsockopt(fd, level, name, value, len);
    };
    let Some(sock) = of_the_dataplane(fd) else {
        return real::getsockopt(fd, level, name, value, len);
    };
    match answer(&sock, level, name) {
        Answer::Kernel => real::getsockopt(fd, level, name, value, len),
        Answer::Refused => done(Err(Errno::ENOPROTOOPT)),
        Answer::Error => {
            // The pair's own error is about nothing that the program knows.
            let pending = real::int_option(fd, level, name).unwrap_or(0);
            let error = match &sock.kind {
                Kind::Connection(connected) => match connected.take_error() {
                    0 if connected.is_here() => 0,
                    0 => pending,
                    error => error,
                },
                _ => 0,
            };
            done(put(error, value, len))
        }
        Answer::Value(answer) => done(put(answer, value, len)),
    }
}

fn put(answer: c_int, value: *mut c_void, len: *mut socklen_t) -> Result<()> {
    let room = memory::get(len)? as usize;
    let bytes = answer.to_ne_bytes();
    let part = &bytes[..room.min(bytes.len())];
    memory::write(value, part)?;
    memory::put(len, part.len() as socklen_t)
}

enum Answer {
    Kernel,
    Refused,
    Error,
    Value(c_int),
}

fn answer(sock: &Sock, level: c_int, name: c_int) -> Answer {
    let is_listener = matches!(sock.kind, Kind::Listener(_));
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => Answer::Error,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Answer::Value(match sock.is_v6 {
            true => libc::AF_INET6,
            false => libc::AF_INET,
        }),
        (libc::SOL_SOCKET, libc::SO_TYPE) => Answer::Value(libc::SOCK_STREAM),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Answer::Value(libc::IPPROTO_TCP),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => Answer::Value(is_listener.into()),
        (libc::SOL_SOCKET, libc::SO_PEERCRED | libc::SO_PASSCRED | libc::SO_PEERSEC) => {
            Answer::Refused
        }
        (libc::SOL_SOCKET, _) => Answer::Kernel,
        // The stack has no Nagle algorithm: what is written goes out.
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Answer::Value(1),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Answer::Value(0),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Answer::Value(0),
        _ => Answer::Refused,
    }
}

/// `setsockopt(2)`.
///
/// # Safety
/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let Some(_inside) = Inside::enter() else {
        return real::setsockopt(fd, level, name, value, len);
    };
    let Some(sock) = of_the_dataplane(fd) else {
        return real::setsockopt(fd, level, name, value, len);
    };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) => match &sock.kind {
            Kind::Connection(connected) => done(linger(fd, connected, value, len)),
            _ => real::setsockopt(fd, level, name, value, len),
        },
        (
            libc::SOL_SOCKET,
            libc::SO_PASSCRED
            | libc::SO_PASSSEC
            | libc::SO_ZEROCOPY
            | libc::SO_BINDTODEVICE
            | libc::SO_MARK
            | libc::SO_ATTACH_FILTER
            | libc::SO_ATTACH_BPF
            | libc::SO_ATTACH_REUSEPORT_CBPF
            | libc::SO_ATTACH_REUSEPORT_EBPF
            | libc::SO_TIMESTAMPING
            | libc::SO_MAX_PACING_RATE
            | libc::SO_BUSY_POLL,
        ) => done(Err(Errno::ENOPROTOOPT)),
        (libc::SOL_SOCKET, _) => real::setsockopt(fd, level, name, value, len),
        // Only advice about when a segment leaves: every write does at once.
        (libc::IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_QUICKACK) => done(
            memory::read(value, len as usize).and_then(|bytes| match bytes.len() {
                4.. => Ok(()),
                _ => Err(Errno::EINVAL),
            }),
        ),
        _ => done(Err(Errno::ENOPROTOOPT)),
    }
}

/// SO_LINGER: with no time, closing resets. A time to wait at close is the kernel's to refuse: a
/// pair's close does not wait.
fn linger(fd: RawFd, connected: &Connected, value: *const c_void, len: socklen_t) -> Result<()> {
    if (len as usize) < size_of::<libc::linger>() {
        return Err(Errno::EINVAL);
    }
    let onoff = memory::get(value.cast::<i32>())?;
    let time_s = memory::get(value.cast::<i32>().wrapping_add(1))?;
    let resets = onoff != 0 && time_s == 0;
    if resets && !connected.is_here() {
        // The process that closes it is another.
        return Err(Errno::ENOPROTOOPT);
    }
    connected.resets_at_close.store(resets, Ordering::Relaxed);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    Errno::result(real::setsockopt(fd, level, name, value, len)).map(drop)
}
