//! Serving of an inherited socket whose original process has ended, as when a server becomes a
//! daemon. This process binds the same addresses itself.

use super::UdpSocket;
use super::replacement::{PendingSocket, ask, prepare_from};
use crate::calls::listen::{ask_all, silence};
use crate::errors::{of_refusal, say_once};
use crate::real;
use crate::table::{Kind, Sock};
use crate::udp::wants;
use cofferdam_bsd::{Result, with_bytes};
use cofferdam_dataplane::Refusal;
use libc::c_int;
use nix::errno::Errno;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time limit for the dataplane to release the addresses of a process that has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves the socket in this process. If it may not, the descriptor stays silent: every poll would
/// report an ended pair.
///
/// # Errors
///
/// `ENETDOWN` if this process cannot serve the socket.
pub fn take_over(found: &UdpSocket) -> Result<UdpSocket> {
    if found.shown.is_over() {
        return Err(Errno::ENETDOWN);
    }
    match serve(found) {
        Ok(found) => Ok(found),
        Err(why) => {
            found.shown.mark_ended();
            say_once(&format!(
                "the process that bound a UDP socket has ended, and this process, which inherited \
                 the socket, cannot bind it ({why}): restart the program"
            ));
            let kind = Kind::Udp(found.shown.clone());
            let is_v6 = found.is_v6;
            silence(found.fd, Sock { kind, is_v6 })?;
            Err(Errno::ENETDOWN)
        }
    }
}

fn serve(found: &UdpSocket) -> Result<UdpSocket> {
    let state = found.shown.state();
    let is_wide = state.ip.is_unspecified();
    let at = SocketAddr::new(state.ip, state.port);
    let until = Instant::now() + PATIENCE;
    loop {
        let pending = attempt(found, at, is_wide);
        match pending {
            Err(Errno::EADDRINUSE) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            pending => return pending?.install(is_wide),
        }
    }
}

fn attempt(found: &UdpSocket, at: SocketAddr, is_wide: bool) -> Result<PendingSocket> {
    let kernel = kernel_socket(found, is_wide.then_some(at))?;
    let kernel_fd = kernel.as_raw_fd();
    let pending = prepare_from(found.fd, kernel, found.is_v6, found.shown.state())?;
    let answers = match is_wide {
        true => ask_all(kernel_fd, found.is_v6, at.port(), |local| {
            ask(pending.name(), local)
        }),
        false => Ok(vec![ask(pending.name(), at)]),
    };
    let refused = answers.and_then(|answers| {
        let is_served = answers.iter().any(|answer| matches!(answer, Ok(Ok(()))));
        let refused = answers.into_iter().find_map(|answer| match answer {
            Ok(Err(Refusal::InUse)) => Some(Errno::EADDRINUSE),
            Ok(Err(refusal)) if !is_served => Some(of_refusal(refusal)),
            Ok(_) => None,
            Err(error) => Some(error),
        });
        refused.map_or(Ok(()), Err)
    });
    match refused {
        Ok(()) => Ok(pending),
        Err(error) => {
            pending.discard();
            Err(error)
        }
    }
}

/// A kernel socket with the options that the library knows, bound to `at`.
fn kernel_socket(found: &UdpSocket, at: Option<SocketAddr>) -> Result<OwnedFd> {
    let family = if found.is_v6 {
        libc::AF_INET6
    } else {
        libc::AF_INET
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: there are no pointers.
    let kernel = Errno::result(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the descriptor is new and has no other owner.
    let kernel = unsafe { OwnedFd::from_raw_fd(kernel) };
    let on: c_int = 1;
    let wanted = found.shown.wanted();
    for (bit, level, name) in [
        (wants::V4, libc::IPPROTO_IP, libc::IP_PKTINFO),
        (wants::V6, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        (wants::ONLY_V6, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    ] {
        if wanted & bit != 0 {
            let len = size_of::<c_int>() as libc::socklen_t;
            real::setsockopt(kernel.as_raw_fd(), level, name, (&raw const on).cast(), len);
        }
    }
    if let Some(at) = at {
        with_bytes(at, found.is_v6, |name| {
            let len = name.len() as libc::socklen_t;
            Errno::result(real::bind(kernel.as_raw_fd(), name.as_ptr().cast(), len))
        })?;
    }
    Ok(kernel)
}
