//! Options of UDP sockets. The kernel socket stores them and answers as Linux does.

use super::UdpSocket;
use crate::calls::done;
use crate::calls::options::{is_unsupported, put};
use crate::udp::wants;
use crate::{process, real};
use cofferdam_bsd::memory;
use libc::{c_int, c_void, socklen_t};
use nix::errno::Errno;

/// `SO_MEMINFO` and its field of dropped datagrams (sock_diag.h).
const SO_MEMINFO: c_int = 55;
const MEMINFO_DROPS: usize = 8;

/// Whether the option requires something that the library does not implement.
fn is_refused(level: c_int, name: c_int) -> bool {
    match level {
        libc::SOL_SOCKET => {
            is_unsupported(name)
                || matches!(
                    name,
                    libc::SO_TIMESTAMP
                        | libc::SO_TIMESTAMPNS
                        | libc::SO_RXQ_OVFL
                        | libc::SO_PEEK_OFF
                )
        }
        libc::IPPROTO_IP => matches!(
            name,
            libc::IP_OPTIONS
                | libc::IP_RECVOPTS
                | libc::IP_RETOPTS
                | libc::IP_RECVTTL
                | libc::IP_RECVTOS
                | libc::IP_RECVORIGDSTADDR
                | libc::IP_HDRINCL
        ),
        libc::IPPROTO_IPV6 => matches!(
            name,
            libc::IPV6_RECVHOPLIMIT | libc::IPV6_RECVTCLASS | libc::IPV6_RECVORIGDSTADDR
        ),
        libc::SOL_UDP => true,
        _ => false,
    }
}

/// Whether the option concerns the queued datagrams, which are in the pair.
fn is_pair_option(level: c_int, name: c_int) -> bool {
    level == libc::SOL_SOCKET
        && matches!(
            name,
            libc::SO_RCVTIMEO | libc::SO_SNDTIMEO | libc::SO_SNDBUF | libc::SO_RCVBUF
        )
}

/// `setsockopt(2)`.
pub fn setsockopt(
    found: &UdpSocket,
    (level, name): (c_int, c_int),
    (value, len): (*const c_void, socklen_t),
) -> c_int {
    if is_refused(level, name) {
        return done(Err(Errno::ENOPROTOOPT));
    }
    let Some(kernel) = found.shown.kernel() else {
        // A child has only the pair.
        return match is_pair_option(level, name) {
            true => real::setsockopt(found.fd, level, name, value, len),
            false => done(Err(Errno::ENOPROTOOPT)),
        };
    };
    let set = real::setsockopt(kernel, level, name, value, len);
    if set != 0 {
        return set;
    }
    if is_pair_option(level, name) {
        real::setsockopt(found.fd, level, name, value, len);
    }
    let number = || match len {
        4.. => memory::get(value.cast::<c_int>()).unwrap_or(0),
        // IPv4's options may be one byte long.
        1.. => memory::read(value, 1).map_or(0, |byte| byte[0].into()),
        0 => 0,
    };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
            let (own, bytes) = (found.shown.name(), number());
            process::with_pump(|pump| pump.udp_limit_queue(own, bytes));
        }
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => found.shown.set_wants(wants::V4, number() != 0),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
            found.shown.set_wants(wants::V6, number() != 0);
        }
        _ => {}
    }
    0
}

/// `getsockopt(2)`.
pub fn getsockopt(
    found: &UdpSocket,
    (level, name): (c_int, c_int),
    (value, len): (*mut c_void, *mut socklen_t),
) -> c_int {
    let at = found.shown.kernel().unwrap_or(found.fd);
    let got = match (level, name) {
        // An option that is not implemented must not be reported as set.
        _ if is_refused(level, name) && level != libc::SOL_SOCKET => {
            return done(Err(Errno::ENOPROTOOPT));
        }
        (libc::SOL_SOCKET, libc::SO_TYPE | libc::SO_DOMAIN | libc::SO_PROTOCOL)
            if !found.shown.is_here() =>
        {
            let answer = match name {
                libc::SO_TYPE => libc::SOCK_DGRAM,
                libc::SO_PROTOCOL => libc::IPPROTO_UDP,
                _ if found.is_v6 => libc::AF_INET6,
                _ => libc::AF_INET,
            };
            return done(put(&answer.to_ne_bytes(), value, len));
        }
        _ => real::getsockopt(at, level, name, value, len),
    };
    if got == 0 && (level, name) == (libc::SOL_SOCKET, SO_MEMINFO) {
        let drops = value.cast::<u32>().wrapping_add(MEMINFO_DROPS);
        let room = memory::get(len).unwrap_or(0) as usize;
        if room >= (MEMINFO_DROPS + 1) * size_of::<u32>()
            && let Ok(kernels) = memory::get(drops)
        {
            let _ = memory::put(drops, kernels.wrapping_add(found.shown.drops()));
        }
    }
    got
}
