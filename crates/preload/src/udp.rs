//! A UDP socket, as calls of the program see it.

use crate::table;
use libc::c_int;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// With whom a socket is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub remote: SocketAddr,
    /// Our address toward it.
    pub local: IpAddr,
    /// The kernel talks to it.
    pub is_kernels: bool,
}

/// What a call may change.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The address that the program has bound, or the unspecified one.
    pub ip: IpAddr,
    /// The port; 0 while it has none.
    pub port: u16,
    /// The program has bound it, whether it named a port or not.
    pub is_bound: bool,
    pub peer: Option<Peer>,
}

impl State {
    /// What `getsockname` says.
    pub fn name(&self) -> SocketAddr {
        let ip = match self.peer {
            Some(peer) if self.ip.is_unspecified() => peer.local,
            _ => self.ip,
        };
        SocketAddr::new(ip, self.port)
    }

    /// Whether a datagram is for this socket, of those that have its port.
    pub fn takes(&self, remote: SocketAddr, local: IpAddr) -> bool {
        self.peer
            .is_none_or(|peer| !peer.is_kernels && (peer.remote, peer.local) == (remote, local))
    }
}

/// Options that the library must know of: control messages, and families.
pub mod wants {
    /// `IP_PKTINFO`.
    pub const V4: u8 = 1;
    /// `IPV6_RECVPKTINFO`.
    pub const V6: u8 = 2;
    /// No message, but no IPv4 either: `IPV6_V6ONLY`.
    pub const ONLY_V6: u8 = 4;
}

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    state: Mutex<State>,
    /// The kernel's socket in whose place the pair is.
    kernel: AtomicI32,
    name: AtomicU64,
    is_here: AtomicBool,
    /// Bits of [`wants`].
    wants: AtomicU8,
    /// Datagrams that found no room.
    drops: AtomicU32,
    /// The program has shut it for reading, or for writing.
    shut: [AtomicBool; 2],
    /// The process that had the other end is gone, and this one could not take its place.
    is_over: AtomicBool,
}

impl Udp {
    pub fn new(state: State, kernel: RawFd, wanted: u8) -> Udp {
        Udp {
            state: Mutex::new(state),
            kernel: AtomicI32::new(kernel),
            name: AtomicU64::new(0),
            is_here: AtomicBool::new(true),
            wants: AtomicU8::new(wanted),
            drops: AtomicU32::new(0),
            shut: [const { AtomicBool::new(false) }; 2],
            is_over: AtomicBool::new(false),
        }
    }

    /// Uses the state. Only with the pump or the tables held: a child must not inherit the lock locked.
    pub fn with<T>(&self, body: impl FnOnce(&mut State) -> T) -> T {
        body(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The state now.
    pub fn state(&self) -> State {
        let _held = table::hold();
        self.with(|state| *state)
    }

    /// The kernel's socket, where this process has it.
    pub fn kernel(&self) -> Option<RawFd> {
        self.is_here().then(|| self.kernel.load(Ordering::Relaxed))
    }

    /// What the pump calls it.
    pub fn name(&self) -> u64 {
        self.name.load(Ordering::Relaxed)
    }

    pub fn is_named(&self, name: u64) {
        self.name.store(name, Ordering::Relaxed);
    }

    /// Whether this process' pump has the other end.
    pub fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Relaxed)
    }

    /// This process is a child: the other end is its parent's.
    pub fn is_elsewhere(&self) {
        self.is_here.store(false, Ordering::Relaxed);
    }

    /// The control messages that the program wants, as bits of [`wants`].
    pub fn wanted(&self) -> u8 {
        self.wants.load(Ordering::Relaxed)
    }

    pub fn set_wants(&self, kind: u8, on: bool) {
        match on {
            true => self.wants.fetch_or(kind, Ordering::Relaxed),
            false => self.wants.fetch_and(!kind, Ordering::Relaxed),
        };
    }

    /// The process that had the other end is gone, and this one cannot take its place.
    pub fn ends(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A datagram found no room.
    pub fn drop_one(&self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }

    pub fn drops(&self) -> u32 {
        self.drops.load(Ordering::Relaxed)
    }

    /// See `shutdown(2)`.
    pub fn shut(&self, how: c_int) {
        let [reading, writing] = &self.shut;
        if how != libc::SHUT_WR {
            reading.store(true, Ordering::Release);
        }
        if how != libc::SHUT_RD {
            writing.store(true, Ordering::Release);
        }
    }

    pub fn is_shut_for_reading(&self) -> bool {
        self.shut[0].load(Ordering::Acquire)
    }

    pub fn is_shut_for_writing(&self) -> bool {
        self.shut[1].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connected_socket_is_named_by_its_way_and_takes_its_peers_datagrams_alone() {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let (peer, other) = (SocketAddr::new(ip("10.0.0.2"), 53), ip("10.0.0.3"));
        let mut state = State {
            ip: ip("0.0.0.0"),
            port: 50_000,
            is_bound: false,
            peer: None,
        };
        assert!(state.takes(peer, ip("10.0.0.9")));
        assert_eq!(state.name(), SocketAddr::new(ip("0.0.0.0"), 50_000));
        state.peer = Some(Peer {
            remote: peer,
            local: ip("10.0.0.9"),
            is_kernels: false,
        });
        assert!(state.takes(peer, ip("10.0.0.9")));
        assert!(!state.takes(peer, ip("10.0.0.8")));
        assert!(!state.takes(SocketAddr::new(other, 53), ip("10.0.0.9")));
        assert!(!state.takes(SocketAddr::new(peer.ip(), 54), ip("10.0.0.9")));
        assert_eq!(state.name(), SocketAddr::new(ip("10.0.0.9"), 50_000));
        state.ip = ip("10.0.0.8");
        assert_eq!(state.name().ip(), ip("10.0.0.8"), "what it has bound");
    }
}
