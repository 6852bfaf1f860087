//! `connect` of UDP sockets.

use super::UdpSocket;
use super::replacement::{give_address, toward};
use crate::calls::done;
use crate::udp::{Peer, State};
use crate::{process, real, table};
use cofferdam_bsd::{Result, memory, read_address};
use libc::{c_int, sa_family_t, sockaddr, socklen_t};
use nix::errno::Errno;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// `connect(2)`. `found` is the socket if the dataplane already serves it.
pub fn connect(
    fd: RawFd,
    found: Option<UdpSocket>,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    let kernel = || real::connect(fd, address, len);
    if let Some(found) = &found
        && len as usize >= size_of::<sa_family_t>()
        && family(address) == Ok(libc::AF_UNSPEC)
    {
        return done(leave(found));
    }
    let remote = match (read_address(address, len), &found) {
        (Ok(remote), _) => remote,
        (Err(_), None) => return kernel(),
        (Err(error), Some(_)) => return done(Err(error)),
    };
    let found = match found {
        Some(found) => found,
        None => match toward(fd, remote) {
            Ok(Some(found)) => found,
            Ok(None) => return kernel(),
            Err(error) => return done(Err(error)),
        },
    };
    if remote.is_ipv6() && !found.is_v6 {
        return done(Err(Errno::EAFNOSUPPORT));
    }
    done(enter(&found, remote, (address, len)))
}

fn family(address: *const sockaddr) -> Result<c_int> {
    let bytes = memory::read(address.cast(), size_of::<sa_family_t>())?;
    let bytes = bytes.first_chunk().copied().unwrap_or_default();
    Ok(sa_family_t::from_ne_bytes(bytes).into())
}

fn enter(found: &UdpSocket, remote: SocketAddr, at: (*const sockaddr, socklen_t)) -> Result<()> {
    let Some(kernel) = found.shown.kernel() else {
        // The parent filters received datagrams and would not know the peer.
        return Err(Errno::EOPNOTSUPP);
    };
    let name = found.shown.name();
    let peer = process::with_pump(|pump| pump.udp_peer_for(name, remote)).flatten();
    let peer = peer.ok_or(Errno::ENETDOWN)?;
    if peer.is_kernels {
        Errno::result(real::connect(kernel, at.0, at.1))?;
        let local = crate::calls::kernel_name(kernel)?.ip();
        set_peer(found, Some(Peer { local, ..peer }));
        return Ok(());
    }
    let (is_own, is_reached, is_placed) = process::attached(|pump| {
        let is_placed = pump.udp_has_address(name, remote.ip());
        let served = pump.last_served();
        let ip = remote.ip();
        let is_reached = served.reaches(ip) && !served.is_broadcast(ip);
        (served.is_own(ip), is_reached, is_placed)
    })?;
    if is_own {
        return Err(Errno::EHOSTUNREACH);
    }
    if !is_reached {
        return Err(Errno::ENETUNREACH);
    }
    if !is_placed {
        give_address(found, remote.ip())?;
    }
    set_peer(found, Some(peer));
    Ok(())
}

fn set_peer(found: &UdpSocket, peer: Option<Peer>) -> Option<State> {
    let before = process::with_pump(|_| {
        found.shown.with(|state| {
            let before = *state;
            state.peer = peer;
            before
        })
    });
    let was_kernels = before
        .and_then(|state| state.peer)
        .is_some_and(|peer| peer.is_kernels);
    if was_kernels
        && peer.is_none_or(|peer| !peer.is_kernels)
        && let Some(kernel) = found.shown.kernel()
    {
        let none = sockaddr {
            sa_family: libc::AF_UNSPEC as sa_family_t,
            sa_data: [0; 14],
        };
        real::connect(kernel, &raw const none, size_of::<sockaddr>() as socklen_t);
    }
    before
}

/// Removes the peer, and the port unless the program has bound it.
fn leave(found: &UdpSocket) -> Result<()> {
    if !found.shown.is_here() {
        return Err(Errno::EOPNOTSUPP);
    }
    let before = set_peer(found, None);
    if before.is_some_and(|before| !before.is_bound && before.peer.is_some()) {
        let name = found.shown.name();
        process::with_pump(|pump| pump.udp_release(name));
        let _held = table::hold();
        found.shown.with(|state| state.port = 0);
    }
    Ok(())
}
