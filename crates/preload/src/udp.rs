//! State of a UDP socket that calls of the program see.

use crate::table;
use libc::c_int;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Peer of a connected socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub remote: SocketAddr,
    /// Local address toward the peer.
    pub local: IpAddr,
    /// Whether the kernel communicates with the peer.
    pub is_kernels: bool,
}

/// Part of the state that calls may change.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Address that the program has bound, or the unspecified one.
    pub ip: IpAddr,
    /// Port; 0 if there is none yet.
    pub port: u16,
    /// Whether the program has bound the socket, with or without a port.
    pub is_bound: bool,
    pub peer: Option<Peer>,
}

impl State {
    /// Address for `getsockname`.
    pub fn name(&self) -> SocketAddr {
        let ip = match self.peer {
            Some(peer) if self.ip.is_unspecified() => peer.local,
            _ => self.ip,
        };
        SocketAddr::new(ip, self.port)
    }

    /// Whether a datagram to the socket's port is for this socket.
    pub fn takes(&self, remote: SocketAddr, local: IpAddr) -> bool {
        self.peer
            .is_none_or(|peer| !peer.is_kernels && (peer.remote, peer.local) == (remote, local))
    }
}

/// Options that the library must know: control messages and families.
pub mod wants {
    /// `IP_PKTINFO`.
    pub const V4: u8 = 1;
    /// `IPV6_RECVPKTINFO`.
    pub const V6: u8 = 2;
    /// `IPV6_V6ONLY`, which excludes IPv4.
    pub const ONLY_V6: u8 = 4;
}

/// UDP socket.
#[derive(Debug)]
pub struct Udp {
    state: Mutex<State>,
    /// Kernel socket that the pair has replaced.
    kernel: AtomicI32,
    name: AtomicU64,
    is_here: AtomicBool,
    /// Bits of [`wants`].
    wants: AtomicU8,
    /// Number of dropped datagrams.
    drops: AtomicU32,
    /// Whether the program has shut it down for reading, and for writing.
    shut: [AtomicBool; 2],
    /// Whether the process with the library's end has ended and this one could not replace it.
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

    /// Uses the state. The caller has locked the pump or the tables: a child must not inherit this
    /// lock locked.
    pub fn with<T>(&self, body: impl FnOnce(&mut State) -> T) -> T {
        body(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Current state.
    pub fn state(&self) -> State {
        let _held = table::hold();
        self.with(|state| *state)
    }

    /// Kernel socket, if this process has it.
    pub fn kernel(&self) -> Option<RawFd> {
        self.is_here().then(|| self.kernel.load(Ordering::Relaxed))
    }

    /// Name in the pump.
    pub fn name(&self) -> u64 {
        self.name.load(Ordering::Relaxed)
    }

    pub fn set_name(&self, name: u64) {
        self.name.store(name, Ordering::Relaxed);
    }

    /// Whether this process' pump has the library's end.
    pub fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Relaxed)
    }

    /// Records that this process is a child: its parent has the library's end.
    pub fn mark_inherited(&self) {
        self.is_here.store(false, Ordering::Relaxed);
    }

    /// Control messages that the program has requested, as bits of [`wants`].
    pub fn wanted(&self) -> u8 {
        self.wants.load(Ordering::Relaxed)
    }

    pub fn set_wants(&self, kind: u8, on: bool) {
        match on {
            true => self.wants.fetch_or(kind, Ordering::Relaxed),
            false => self.wants.fetch_and(!kind, Ordering::Relaxed),
        };
    }

    /// Records that the process with the library's end has ended and this one cannot replace it.
    pub fn mark_ended(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Counts a dropped datagram.
    pub fn drop_one(&self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }

    pub fn drops(&self) -> u32 {
        self.drops.load(Ordering::Relaxed)
    }

    /// Records a `shutdown(2)`.
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
    fn a_connected_socket_receives_only_from_its_peer() {
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
