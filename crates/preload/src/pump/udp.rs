//! UDP sockets of the program. Datagrams of the dataplane, and of the kernel if a socket has
//! addresses of both, go through one pair of Unix sockets, each behind a [`Heading`].
//!
//! The calling thread passes the program's datagrams to the session. Datagrams of children, and
//! datagrams for which the session has no space, go through the pair.

mod moving;
mod places;
mod sending;
mod socket;

pub use socket::Reuse;

use super::slots::Slots;
use super::{Name, Pump};
use crate::heading::Heading;
use crate::internal::Internal;
use crate::table;
use crate::udp::{State, Udp};
use crate::unix;
use cofferdam_bsd::Result;
use cofferdam_dataplane::{BoundAddress, Refusal, ServedDevice};
use nix::errno::Errno;
use places::{Place, Places};
use socket::Socket;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Event of the epoll set about a socket's pair; see [`super`].
pub const UDP: u64 = 6 << 56;
/// Event of the epoll set about a kernel socket.
pub const UDP_KERNEL: u64 = 7 << 56;

/// UDP sockets of the process.
pub struct UdpSockets {
    sockets: Slots<Socket>,
    places: Places,
    /// Addresses of a session that has ended.
    lost: Vec<Place>,
    /// Sockets whose pair may contain more to send.
    unsent: Vec<Name>,
    /// Sockets whose pair may contain more to send once the session has space.
    unsent_for_room: Vec<Name>,
    /// Sockets whose kernel socket may have received more.
    unheard: Vec<Name>,
    /// Numbers in this namespace of the devices with the dataplane's addresses.
    interfaces: Vec<(IpAddr, u32)>,
}

/// Result of a request for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// Another socket of this process has the address and shares it.
    Shared,
    /// The address is refused.
    Refused(Refusal),
    /// The dataplane will answer, see [`Pump::answer`].
    Pending(BoundAddress),
}

/// Result of passing a datagram to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The session has accepted it.
    Done,
    /// The kernel must send it, from this socket.
    Kernel(RawFd),
    /// The pair must carry it, behind this heading.
    Pair(Heading),
    /// The socket has no address yet from which it reaches this one.
    NeedsAddress(IpAddr),
}

/// Number of the loopback device, in every network namespace.
const LOOPBACK: u32 = 1;

impl UdpSockets {
    pub fn new() -> UdpSockets {
        UdpSockets {
            sockets: Slots::new(),
            places: Places::default(),
            lost: Vec::new(),
            unsent: Vec::new(),
            unsent_for_room: Vec::new(),
            unheard: Vec::new(),
            interfaces: Vec::new(),
        }
    }

    /// Sets the dataplane's devices. Loopback represents a device in another network namespace.
    pub fn set_devices(&mut self, devices: &[ServedDevice]) {
        let numbered = devices.iter().flat_map(|device| {
            let number = nix::net::if_::if_nametoindex(device.name.as_str());
            let number = number.unwrap_or(LOOPBACK);
            device.addresses.iter().map(move |own| (*own, number))
        });
        self.interfaces = numbered.collect();
    }

    /// Number of the device that has the address.
    fn interface_of(&self, own: IpAddr) -> u32 {
        let mut interfaces = self.interfaces.iter();
        let found = interfaces.find(|(ip, _)| *ip == own);
        found.map_or(LOOPBACK, |(_, number)| *number)
    }
}

impl Pump {
    /// Adds a socket that replaces the kernel socket `kernel` and has no address at the dataplane
    /// yet.
    pub fn add_udp(
        &mut self,
        (ours, inode): (OwnedFd, u64),
        kernel: OwnedFd,
        (is_v6, reuse): (bool, Reuse),
        (state, wanted): (State, u8),
    ) -> Result<(Name, Arc<Udp>)> {
        let (end, kernel) = (Internal::new(ours)?, Internal::new(kernel)?);
        let (fd, kernel_fd) = (end.as_raw_fd(), kernel.as_raw_fd());
        let shown = Arc::new(Udp::new(state, kernel_fd, wanted));
        let socket = Socket {
            end,
            inode,
            shown: shown.clone(),
            kernel,
            hears_kernel: false,
            is_v6,
            reuse,
            places: Vec::new(),
            heard: Vec::new(),
            has_spilled: false,
        };
        let name = self.udp.sockets.add(|_| socket);
        shown.set_name(name);
        self.watch(fd, libc::EPOLLIN | libc::EPOLLET, UDP | name);
        Ok((name, shown))
    }

    /// Starts to move datagrams of the kernel socket, because the program's descriptor is the pair
    /// now.
    pub fn udp_hears_kernel(&mut self, name: Name) {
        if let Some(socket) = self.udp.sockets.get_mut(name)
            && !std::mem::replace(&mut socket.hears_kernel, true)
        {
            let fd = socket.kernel.as_raw_fd();
            self.watch(fd, libc::EPOLLIN | libc::EPOLLET, UDP_KERNEL | name);
        }
    }

    /// Limits the queued datagrams to the size that the program has set (`SO_RCVBUF`).
    pub fn udp_limit_queue(&mut self, name: Name, bytes: i32) {
        if let Some(socket) = self.udp.sockets.get_mut(name) {
            unix::limit_send(&socket.end, bytes);
        }
    }

    /// Requests an address for a socket.
    ///
    /// # Errors
    ///
    /// `ENETDOWN` if the dataplane is not running.
    pub fn udp_request_address(&mut self, name: Name, local: SocketAddr) -> Result<BindOutcome> {
        let session = self.session.as_mut().ok_or(Errno::ENETDOWN)?;
        let sockets = &mut self.udp.sockets;
        let Some(reuse) = sockets.get_mut(name).map(|socket| socket.reuse) else {
            return Err(Errno::EBADF);
        };
        if let Some(bound) = self.udp.places.find(local)
            && let Some(place) = self.udp.places.get_mut(bound)
        {
            let all = |shares: fn(Reuse) -> bool| {
                let mut users = place.users.iter();
                shares(reuse)
                    && users.all(|user| sockets.get_mut(*user).is_some_and(|s| shares(s.reuse)))
            };
            let mut all = all;
            if !all(|reuse| reuse.address) && !all(|reuse| reuse.port) {
                return Ok(BindOutcome::Refused(Refusal::InUse));
            }
            place.users.push(name);
            if let Some(socket) = sockets.get_mut(name) {
                socket.places.push((bound, local));
            }
            return Ok(BindOutcome::Shared);
        }
        let bound = session.udp_bind(local);
        session.flush();
        let users = vec![name];
        self.udp.places.add(bound, Place { local, users });
        if let Some(socket) = sockets.get_mut(name) {
            socket.places.push((bound, local));
        }
        Ok(BindOutcome::Pending(bound))
    }

    /// Removes an address that the dataplane has refused.
    pub(in crate::pump) fn udp_refused(&mut self, bound: BoundAddress) {
        let users = self.udp.places.remove(bound).map(|place| place.users);
        for name in users.unwrap_or_default() {
            if let Some(socket) = self.udp.sockets.get_mut(name) {
                socket.places.retain(|(other, _)| *other != bound);
            }
        }
    }

    /// Releases all addresses of a socket at the dataplane.
    pub fn udp_release(&mut self, name: Name) {
        let socket = self.udp.sockets.get_mut(name);
        let places = socket.map(|socket| std::mem::take(&mut socket.places));
        for (bound, _) in places.unwrap_or_default() {
            if self.udp.places.leave(bound, name)
                && let Some(session) = &mut self.session
            {
                session.unbind(bound);
            }
        }
        if let Some(session) = &mut self.session {
            session.flush();
        }
    }

    /// Whether a socket has an address at the dataplane for datagrams to `remote`.
    pub fn udp_has_address(&mut self, name: Name, remote: IpAddr) -> bool {
        let socket = self.udp.sockets.get_mut(name);
        socket.is_some_and(|socket| socket.address_for(remote, None).is_some())
    }

    /// Drops UDP sockets that the program has closed.
    pub(in crate::pump) fn udp_sweep(&mut self) {
        for name in self.udp.sockets.names() {
            let socket = self.udp.sockets.get_mut(name);
            if socket.is_some_and(|socket| unix::is_closed(socket.end.as_fd())) {
                self.udp_woken(name, true);
            }
        }
    }

    /// Drops a socket that the program has closed, or whose address was refused.
    pub fn drop_udp(&mut self, name: Name) {
        self.udp_release(name);
        if let Some(socket) = self.udp.sockets.remove(name) {
            table::remove(socket.inode);
        }
    }

    /// Handles the end of the session.
    pub(in crate::pump) fn udp_handle_session_end(&mut self) {
        let places = self.udp.places.take_all();
        self.udp.lost.extend(places);
        for name in self.udp.sockets.names() {
            if let Some(socket) = self.udp.sockets.get_mut(name) {
                socket.places.clear();
            }
        }
    }

    /// Requests the sockets' addresses again in a new session.
    pub(in crate::pump) fn udp_request_again(&mut self) {
        for place in std::mem::take(&mut self.udp.lost) {
            for name in place.users {
                let _ = self.udp_request_address(name, place.local);
            }
        }
    }

    /// Whether all datagrams of the ending process have left.
    pub(in crate::pump) fn udp_is_finished(&mut self) -> bool {
        self.udp.unsent.is_empty()
            && self.udp.unsent_for_room.is_empty()
            && (self.session.as_ref()).is_none_or(|session| session.unsent_datagrams() == 0)
    }

    /// Sends the datagrams that are in the pairs of the ending process.
    pub(in crate::pump) fn udp_flush(&mut self) {
        let names = self.udp.sockets.names();
        self.udp.unsent.extend(names);
    }
}
