//! `getsockopt` and `setsockopt`.
//!
//! The kernel answers the options that a Unix socket shares with TCP (timeouts, buffer sizes). An
//! option for which the stack has no implementation is refused as by a kernel without it.

use super::{done, udp, wait};
use crate::inside::Inside;
use crate::settings::ANSWER_PATIENCE;
use crate::table::{self, ConnectionState, Kind, Sock, Stage};
use crate::{process, real, unix};
use cofferdam_bsd::{
    CLOSED, Defaults, KEEPALIVE, LISTEN, Result, SocketMeasurements, TcpOptions, memory,
};
use cofferdam_bsd::{tcp_info, tcp_info_of_state};
use cofferdam_dataplane::ConnectionInfo;
use libc::{c_int, c_void, socklen_t};
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Whether closing the socket resets its connection (SO_LINGER with a time of zero).
pub fn resets_at_close(fd: RawFd) -> bool {
    let mut linger = libc::linger {
        l_onoff: 0,
        l_linger: 0,
    };
    let mut len = size_of::<libc::linger>() as socklen_t;
    let pointer = (&raw mut linger).cast();
    let got = real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, pointer, &raw mut len);
    got == 0 && linger.l_onoff != 0 && linger.l_linger == 0
}

/// Longest time that calls on a socket wait (SO_SNDTIMEO or SO_RCVTIMEO).
pub fn timeout(fd: RawFd, name: c_int) -> Option<Duration> {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut len = size_of::<libc::timeval>() as socklen_t;
    let pointer = (&raw mut time).cast();
    let got = real::getsockopt(fd, libc::SOL_SOCKET, name, pointer, &raw mut len);
    let limit = wait::duration_of(time)?;
    (got == 0 && !limit.is_zero()).then_some(limit)
}

/// Options that the program has set on a kernel socket before the dataplane serves it.
pub fn of_kernel(fd: RawFd) -> TcpOptions {
    let mut options = TcpOptions::default();
    let option = |level, name| real::int_option(fd, level, name);
    options.keepalive = option(libc::SOL_SOCKET, libc::SO_KEEPALIVE).is_ok_and(|on| on != 0);
    for name in [
        libc::TCP_NODELAY,
        libc::TCP_CORK,
        libc::TCP_KEEPIDLE,
        libc::TCP_KEEPINTVL,
        libc::TCP_KEEPCNT,
        libc::TCP_SYNCNT,
        libc::TCP_USER_TIMEOUT,
        libc::TCP_DEFER_ACCEPT,
        libc::TCP_LINGER2,
    ] {
        if let Ok(value) = option(libc::IPPROTO_TCP, name) {
            let _ = options.set(name, value);
        }
    }
    // The kernel's value 536 is either its default or set by the program. Only the latter would
    // limit segments, so it is ignored.
    match option(libc::IPPROTO_TCP, libc::TCP_MAXSEG) {
        Ok(bytes) if bytes != UNKNOWN_SEGMENT_BYTES => {
            let _ = options.set(libc::TCP_MAXSEG, bytes);
        }
        _ => {}
    }
    options
}

/// Value of TCP_MAXSEG for a socket without a connection (TCP_MSS_DEFAULT).
const UNKNOWN_SEGMENT_BYTES: c_int = 536;
/// Default number of SYN retransmissions in Linux and in the stack.
const SYN_RETRIES: u8 = 6;
/// Largest length of an algorithm's name in bytes (TCP_CA_NAME_MAX).
const NAME_BYTES: usize = 16;

/// The socket under a descriptor, unless the kernel still serves it because it only has an address.
fn of_the_dataplane(fd: c_int) -> Option<Sock> {
    table::find(fd).filter(|sock| !matches!(sock.kind, Kind::Bound(_)))
}

/// Current state of a connection, if it is open and belongs to this process.
fn info(connected: &ConnectionState) -> Option<ConnectionInfo> {
    let name = connected.name();
    let query = process::with_pump(|pump| pump.ask_info(name)).flatten()?;
    wait::for_answer(ANSWER_PATIENCE, |pump| pump.info(name, query)).ok()?
}

/// Contents of TCP_INFO.
///
/// # Errors
///
/// `ENOPROTOOPT` if another process has the connection.
fn info_bytes(kind: &Kind) -> Result<Vec<u8>> {
    let Kind::Connection(connected) = kind else {
        return Ok(tcp_info_of_state(LISTEN));
    };
    if !connected.is_here() {
        return Err(Errno::ENOPROTOOPT);
    }
    Ok(match connected.stage() {
        Stage::Connecting => tcp_info_of_state("SYN-SENT"),
        Stage::Failed => tcp_info_of_state(CLOSED),
        Stage::Open => match info(connected) {
            Some(info) => {
                let waiting = info.send_queue_bytes.saturating_sub(info.flight_bytes);
                let counts = SocketMeasurements {
                    advertised_bytes: info.mss_bytes,
                    not_sent_bytes: waiting,
                    ..SocketMeasurements::default()
                };
                tcp_info(&info, &counts)
            }
            None => tcp_info_of_state(CLOSED),
        },
    })
}

/// `getsockopt(2)`.
///
/// # Safety
/// The contract of the system call.
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
    if let Some(found) = udp::served(fd) {
        return udp::getsockopt(&found, (level, name), (value, len));
    }
    let Some(sock) = of_the_dataplane(fd) else {
        return real::getsockopt(fd, level, name, value, len);
    };
    done(match answer(&sock, level, name) {
        Answer::Kernel => return real::getsockopt(fd, level, name, value, len),
        Answer::Refused => Err(Errno::ENOPROTOOPT),
        Answer::Error => {
            // The error of the pair is unknown to the program.
            let pending = real::int_option(fd, level, name).unwrap_or(0);
            let error = match &sock.kind {
                Kind::Connection(connected) => match connected.take_error() {
                    0 if connected.is_here() => 0,
                    0 => pending,
                    error => error,
                },
                _ => 0,
            };
            put(&error.to_ne_bytes(), value, len)
        }
        Answer::Value(answer) => put(&answer.to_ne_bytes(), value, len),
        Answer::Bytes(bytes) => bytes.and_then(|bytes| put(&bytes, value, len)),
    })
}

/// Writes an answer, truncated to the program's buffer.
pub fn put(answer: &[u8], value: *mut c_void, len: *mut socklen_t) -> Result<()> {
    let room = c_int::try_from(memory::get(len)?).map_err(|_| Errno::EINVAL)?;
    let part = &answer[..answer.len().min(room as usize)];
    memory::write(value, part)?;
    memory::put(len, part.len() as socklen_t)
}

enum Answer {
    Kernel,
    Refused,
    Error,
    Value(c_int),
    Bytes(Result<Vec<u8>>),
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
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
            Answer::Value(tcp_options(sock).map_or(0, |options| options.keepalive.into()))
        }
        (libc::SOL_SOCKET, libc::SO_PEERCRED | libc::SO_PASSCRED | libc::SO_PEERSEC) => {
            Answer::Refused
        }
        (libc::SOL_SOCKET, _) => Answer::Kernel,
        (libc::IPPROTO_TCP, libc::TCP_INFO) => Answer::Bytes(info_bytes(&sock.kind)),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let name = process::with_pump(|pump| pump.last_served().congestion.clone());
            let mut bytes = name.unwrap_or_default().into_bytes();
            bytes.resize(NAME_BYTES, 0);
            Answer::Bytes(Ok(bytes))
        }
        (libc::IPPROTO_TCP, _) => {
            let segment_bytes = match &sock.kind {
                Kind::Connection(connected) if name == libc::TCP_MAXSEG => {
                    info(connected).map(|info| info.mss_bytes)
                }
                _ => None,
            };
            let defaults = Defaults {
                // The value is Linux's default; the stack sends written data at once in any case.
                nagle: true,
                keepalive: KEEPALIVE,
                syn_retries: SYN_RETRIES,
                segment_bytes,
            };
            let options = tcp_options(sock).unwrap_or_default();
            match options.value(name, &defaults) {
                Some(value) => Answer::Value(value),
                None => Answer::Refused,
            }
        }
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Answer::Value(0),
        _ => Answer::Refused,
    }
}

fn tcp_options(sock: &Sock) -> Option<TcpOptions> {
    let _held = table::hold();
    match &sock.kind {
        Kind::Bound(_) | Kind::Udp(_) => None,
        Kind::Listener(listening) => Some(*listening.options()),
        Kind::Connection(connected) => Some(*connected.options()),
    }
}

/// `setsockopt(2)`.
///
/// # Safety
/// The contract of the system call.
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
    if let Some(found) = udp::served(fd) {
        return udp::setsockopt(&found, (level, name), (value, len));
    }
    let Some(sock) = of_the_dataplane(fd) else {
        return real::setsockopt(fd, level, name, value, len);
    };
    let number = || match len {
        4.. => memory::get(value.cast::<c_int>()),
        _ => Err(Errno::EINVAL),
    };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) => match &sock.kind {
            Kind::Connection(connected) => done(linger(fd, connected, value, len)),
            _ => real::setsockopt(fd, level, name, value, len),
        },
        (libc::SOL_SOCKET, name) if is_unsupported(name) => done(Err(Errno::ENOPROTOOPT)),
        (
            libc::SOL_SOCKET,
            libc::SO_PASSCRED | libc::SO_PASSSEC | libc::SO_MAX_PACING_RATE | libc::SO_BUSY_POLL,
        ) => done(Err(Errno::ENOPROTOOPT)),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => done(number().and_then(|on| {
            change(&sock.kind, |options| {
                options.keepalive = on != 0;
                Ok(())
            })
        })),
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => {
            let set = real::setsockopt(fd, level, name, value, len);
            if let (0, Ok(bytes)) = (set, number()) {
                keep_buffer(&sock.kind, name, bytes);
            }
            set
        }
        (libc::SOL_SOCKET, _) => real::setsockopt(fd, level, name, value, len),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => done(choose_congestion(value, len)),
        (libc::IPPROTO_TCP, _) => done(number().and_then(|number| {
            if let Kind::Connection(connected) = &sock.kind
                && !connected.is_here()
                && !is_advice(name)
            {
                // Another process owns the connection in the stack.
                return Err(Errno::ENOPROTOOPT);
            }
            change(&sock.kind, |options| options.set(name, number))
        })),
        _ => done(Err(Errno::ENOPROTOOPT)),
    }
}

/// Whether a `SOL_SOCKET` option concerns the kernel's packet path, which packets of the dataplane
/// do not take. TCP and UDP sockets refuse it.
pub fn is_unsupported(name: c_int) -> bool {
    matches!(
        name,
        libc::SO_ZEROCOPY
            | libc::SO_BINDTODEVICE
            | libc::SO_MARK
            | libc::SO_ATTACH_FILTER
            | libc::SO_ATTACH_BPF
            | libc::SO_ATTACH_REUSEPORT_CBPF
            | libc::SO_ATTACH_REUSEPORT_EBPF
            | libc::SO_TIMESTAMPING
    )
}

/// Whether an option only advises when to send: every write is sent at once.
fn is_advice(name: c_int) -> bool {
    matches!(
        name,
        libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_QUICKACK | libc::TCP_LINGER2
    )
}

/// Changes TCP options, and passes them to the stack.
fn change(kind: &Kind, set: impl FnOnce(&mut TcpOptions) -> Result<()>) -> Result<()> {
    match kind {
        Kind::Bound(_) | Kind::Udp(_) => Err(Errno::ENOPROTOOPT),
        Kind::Listener(listening) => {
            let _held = table::hold();
            set(&mut listening.options())
        }
        Kind::Connection(connected) => {
            let (before, after) = {
                let _held = table::hold();
                let mut options = connected.options();
                let before = options.of_connection();
                set(&mut options)?;
                (before, options.of_connection())
            };
            if after != before && connected.is_here() {
                process::with_pump(|pump| pump.set_options(connected.name(), after));
            }
            Ok(())
        }
    }
}

/// Stores a buffer size for a listener's connections, or applies it to the data that the library
/// sends to a connection's reader.
fn keep_buffer(kind: &Kind, name: c_int, bytes: c_int) {
    match kind {
        Kind::Bound(_) | Kind::Udp(_) => {}
        Kind::Listener(listening) => {
            let index = usize::from(name == libc::SO_RCVBUF);
            if let Some(stored) = listening.buffers_bytes.get(index) {
                stored.store(bytes, Ordering::Relaxed);
            }
        }
        Kind::Connection(connected) if name == libc::SO_RCVBUF => {
            let name = connected.name();
            process::with_pump(|pump| pump.with_end(name, |end| unix::limit_send(end, bytes)));
        }
        Kind::Connection(_) => {}
    }
}

/// Accepts the dataplane's congestion control algorithm, which is the same for all sockets.
///
/// # Errors
///
/// `ENOENT` for another algorithm, as in a kernel without it.
fn choose_congestion(value: *const c_void, len: socklen_t) -> Result<()> {
    let bytes = memory::read(value, (len as usize).min(NAME_BYTES - 1))?;
    let wanted = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_ours = process::with_pump(|pump| pump.last_served().congestion.as_bytes() == wanted);
    match (wanted.is_empty(), is_ours) {
        (true, _) => Err(Errno::EINVAL),
        (false, Some(true)) => Ok(()),
        (false, _) => Err(Errno::ENOENT),
    }
}

/// Sets SO_LINGER. With a time of zero, closing resets the connection. The kernel handles other
/// times; the close of a pair does not wait.
fn linger(
    fd: RawFd,
    connected: &ConnectionState,
    value: *const c_void,
    len: socklen_t,
) -> Result<()> {
    if (len as usize) < size_of::<libc::linger>() {
        return Err(Errno::EINVAL);
    }
    let onoff = memory::get(value.cast::<i32>())?;
    let time_s = memory::get(value.cast::<i32>().wrapping_add(1))?;
    let resets = onoff != 0 && time_s == 0;
    if resets && !connected.is_here() {
        // Another process closes the connection.
        return Err(Errno::ENOPROTOOPT);
    }
    connected.resets_at_close.store(resets, Ordering::Relaxed);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    Errno::result(real::setsockopt(fd, level, name, value, len)).map(drop)
}
