//! `bind` of UDP sockets.

use super::replacement::{ask, ask_for_any_port, prepare};
use crate::calls::listen::{ReplacementGuard, ask_all};
use crate::calls::{done, kernel_name};
use crate::errors::of_refusal;
use crate::pump::Pump;
use crate::udp::State;
use crate::{process, real};
use cofferdam_bsd::{Result, read_address};
use cofferdam_dataplane::Refusal;
use libc::{c_int, sockaddr, socklen_t};
use nix::errno::Errno;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// `bind(2)`. Only the dataplane serves one of its addresses; both serve the unspecified address.
pub fn bind(fd: RawFd, is_v6: bool, address: *const sockaddr, len: socklen_t) -> c_int {
    let Ok(local) = read_address(address, len) else {
        return real::bind(fd, address, len);
    };
    process::with_pump(Pump::sweep);
    if local.ip().is_loopback() || local.ip().is_multicast() {
        return real::bind(fd, address, len);
    }
    if local.ip().is_unspecified() {
        if real::bind(fd, address, len) != 0 {
            return -1;
        }
        return done(bind_wide(fd, is_v6, local.port() != 0));
    }
    match process::attached(|pump| pump.last_served().is_own(local.ip())) {
        Ok(false) => real::bind(fd, address, len),
        Ok(true) => done(bind_own(fd, local, is_v6)),
        Err(error) => done(Err(error)),
    }
}

fn bind_own(fd: RawFd, local: SocketAddr, is_v6: bool) -> Result<()> {
    let _one = ReplacementGuard::enter();
    if kernel_name(fd)?.port() != 0 {
        return Err(Errno::EINVAL);
    }
    let state = State {
        ip: local.ip(),
        port: local.port(),
        is_bound: true,
        peer: None,
    };
    let pending = prepare(fd, is_v6, state)?;
    let port = match local.port() {
        0 => ask_for_any_port(pending.name(), local.ip(), 0),
        port => match ask(pending.name(), local) {
            Ok(Ok(())) => Ok(port),
            Ok(Err(refusal)) => Err(of_refusal(refusal)),
            Err(error) => Err(error),
        },
    };
    match port {
        Ok(port) => {
            // No other thread knows the socket yet.
            process::with_pump(|_| pending.found.shown.with(|state| state.port = port));
            pending.install(false).map(drop)
        }
        Err(error) => {
            pending.discard();
            Err(error)
        }
    }
}

/// Serves a socket that the kernel has bound to all its addresses. `is_chosen`: the program named
/// the port.
fn bind_wide(fd: RawFd, is_v6: bool, is_chosen: bool) -> Result<()> {
    let _one = ReplacementGuard::enter();
    let at = kernel_name(fd)?;
    let state = State {
        ip: at.ip(),
        port: at.port(),
        is_bound: true,
        peer: None,
    };
    let pending = prepare(fd, is_v6, state)?;
    let answers = ask_all(fd, is_v6, at.port(), |local| ask(pending.name(), local))?;
    let is_served = answers.iter().any(|answer| matches!(answer, Ok(Ok(()))));
    let refused = answers.into_iter().find_map(|answer| match answer {
        Ok(Err(Refusal::InUse)) if is_chosen => Some(Errno::EADDRINUSE),
        Err(error) => Some(error),
        _ => None,
    });
    match (is_served, refused) {
        (true, None) => pending.install(true).map(drop),
        (_, refused) => {
            pending.discard();
            // Only the kernel serves the socket, unless there is an error.
            refused.map_or(Ok(()), Err)
        }
    }
}
