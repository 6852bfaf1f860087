//! Conversion of a kernel UDP socket: a pair of Unix sockets replaces it under the descriptor, and
//! the library keeps the kernel socket for its options and for the kernel's traffic.

use super::UdpSocket;
use crate::calls::listen::ReplacementGuard;
use crate::calls::{Inet, any, inet, kernel_name, wait};
use crate::errors::of_refusal;
use crate::process;
use crate::pump::{BindOutcome, Name, Reuse};
use crate::settings::ANSWER_PATIENCE;
use crate::table::{self, Kind, Sock};
use crate::udp::{State, wants};
use crate::{real, unix};
use cofferdam_bsd::Result;
use cofferdam_dataplane::Refusal;
use cofferdam_dataplane::policy::DYNAMIC_PORTS;
use nix::errno::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Ports that are tried for a socket that names none.
const MOST_TRIES: usize = 64;

/// Socket that the pump knows and that is not under the program's descriptor yet.
pub struct PendingSocket {
    pub found: UdpSocket,
    theirs: OwnedFd,
    before: u64,
}

/// Registers a replacement of the kernel socket under `fd`, which is bound as in `state`.
pub fn prepare(fd: RawFd, is_v6: bool, state: State) -> Result<PendingSocket> {
    prepare_from(fd, real::copy_above(fd, 0)?, is_v6, state)
}

/// Registers a replacement of a kernel socket for the descriptor `fd`.
pub fn prepare_from(
    fd: RawFd,
    kernel: OwnedFd,
    is_v6: bool,
    state: State,
) -> Result<PendingSocket> {
    let before = real::inode(fd).ok_or(Errno::ENOTSOCK)?;
    let (theirs, ours, inode) = unix::pair(libc::SOCK_SEQPACKET)?;
    let options_of = kernel.as_raw_fd();
    let [_, receive_bytes] = unix::adopt(fd, &theirs);
    unix::limit_send(&ours, receive_bytes);
    let is_on = |level, name| real::int_option(options_of, level, name).is_ok_and(|on| on != 0);
    let reuse = Reuse {
        address: is_on(libc::SOL_SOCKET, libc::SO_REUSEADDR),
        port: is_on(libc::SOL_SOCKET, libc::SO_REUSEPORT),
    };
    let mut wanted = 0;
    if is_on(libc::IPPROTO_IP, libc::IP_PKTINFO) {
        wanted |= wants::V4;
    }
    if is_v6 && is_on(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) {
        wanted |= wants::V6;
    }
    if is_v6 && is_on(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) {
        wanted |= wants::ONLY_V6;
    }
    let added = process::attached(|pump| {
        pump.add_udp((ours, inode), kernel, (is_v6, reuse), (state, wanted))
    });
    let (_, shown) = added??;
    Ok(PendingSocket {
        found: UdpSocket {
            fd,
            shown,
            inode,
            is_v6,
        },
        theirs,
        before,
    })
}

impl PendingSocket {
    pub fn name(&self) -> Name {
        self.found.shown.name()
    }

    /// Drops the replacement.
    pub fn discard(self) {
        process::with_pump(|pump| pump.drop_udp(self.name()));
    }

    /// Moves the pair to the program's descriptor. `hears_kernel`: the kernel socket receives too.
    pub fn install(self, hears_kernel: bool) -> Result<UdpSocket> {
        let PendingSocket {
            found,
            theirs,
            before,
        } = self;
        let kind = Kind::Udp(found.shown.clone());
        table::put(
            found.inode,
            Sock {
                kind,
                is_v6: found.is_v6,
            },
        );
        if let Err(error) = unix::replace_watched(found.fd, theirs) {
            process::with_pump(|pump| pump.drop_udp(found.shown.name()));
            return Err(error);
        }
        table::remove(before);
        table::set_udp_descriptor(found.fd);
        if hears_kernel {
            process::with_pump(|pump| pump.udp_hears_kernel(found.shown.name()));
        }
        Ok(found)
    }
}

/// Asks the dataplane for an address, and waits for the answer.
///
/// # Errors
///
/// `ENETDOWN` if there is no answer.
pub fn ask(name: Name, local: SocketAddr) -> Result<std::result::Result<(), Refusal>> {
    match process::attached(|pump| pump.udp_request_address(name, local))?? {
        BindOutcome::Shared => Ok(Ok(())),
        BindOutcome::Refused(refusal) => Ok(Err(refusal)),
        BindOutcome::Pending(bound) => wait::for_answer(ANSWER_PATIENCE, |pump| pump.answer(bound)),
    }
}

/// Binds an address with a port that the program does not name: `wanted` if it is available, or
/// any. Returns the port.
///
/// # Errors
///
/// See `bind(2)`.
pub fn ask_for_any_port(name: Name, ip: IpAddr, wanted: u16) -> Result<u16> {
    let mut last = None;
    let others = std::iter::repeat_with(random_port).take(MOST_TRIES);
    for port in std::iter::once(wanted)
        .filter(|port| *port != 0)
        .chain(others)
    {
        match ask(name, SocketAddr::new(ip, port))? {
            Ok(()) => return Ok(port),
            // Another port may be free or allowed.
            Err(refusal @ (Refusal::InUse | Refusal::Forbidden)) => last = Some(refusal),
            Err(refusal) => return Err(of_refusal(refusal)),
        }
    }
    Err(last.map_or(Errno::EADDRINUSE, of_refusal))
}

fn random_port() -> u16 {
    let mut bytes = [0; 2];
    // SAFETY: the buffer has that size.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let (first, last) = (*DYNAMIC_PORTS.start(), *DYNAMIC_PORTS.end());
    first + u16::from_ne_bytes(bytes) % (last - first + 1)
}

/// Binds an address of the dataplane from which the socket reaches `remote`.
///
/// # Errors
///
/// See `bind(2)`.
pub fn give_address(found: &UdpSocket, remote: IpAddr) -> Result<()> {
    let state = found.shown.state();
    let port = ask_for_any_port(found.shown.name(), any(remote.is_ipv6()), state.port)?;
    let _held = table::hold();
    found.shown.with(|state| {
        if state.port == 0 {
            state.port = port;
        }
    });
    Ok(())
}

/// Converts the kernel socket under a descriptor if the dataplane sends datagrams to `remote`.
/// Returns `None` if the kernel sends them.
///
/// # Errors
///
/// See `bind(2)`.
pub fn toward(fd: RawFd, remote: SocketAddr) -> Result<Option<UdpSocket>> {
    let ip = remote.ip();
    if ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
        return Ok(None);
    }
    let Some((Inet::Udp, is_v6)) = inet(fd) else {
        return Ok(None);
    };
    if ip.is_ipv6() && !is_v6 {
        return Ok(None);
    }
    let is_served = process::attached(|pump| {
        let served = pump.last_served();
        served.connect && served.reaches(ip) && !served.is_broadcast(ip)
    });
    if !is_served? {
        return Ok(None);
    }
    let _one = ReplacementGuard::enter();
    if let Some(found) = super::served(fd) {
        // Another thread has converted it.
        return Ok(Some(found));
    }
    let at = kernel_name(fd)?;
    if !at.ip().is_unspecified() {
        // The program has bound the socket to one of the kernel's addresses.
        return Ok(None);
    }
    let state = State {
        ip: at.ip(),
        port: at.port(),
        is_bound: at.port() != 0,
        peer: None,
    };
    let pending = prepare(fd, is_v6, state)?;
    if let Err(error) = give_address(&pending.found, ip) {
        pending.discard();
        return match error {
            Errno::EACCES | Errno::EADDRNOTAVAIL => Ok(None),
            error => Err(error),
        };
    }
    pending.install(true).map(Some)
}
