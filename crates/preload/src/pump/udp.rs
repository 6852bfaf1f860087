//! UDP sockets of the program: datagrams of the dataplane's, and of the kernel's where a socket has
//! addresses of both, go through one pair of Unix sockets, each behind a [`Heading`].
//!
//! What the program sends goes from the calling thread into the session. What children send, and what
//! the session has no room for, goes through the pair.

use super::places::{Place, Places};
use super::slots::Slots;
use super::{Name, Pump};
use crate::control;
use crate::heading::{self, Heading};
use crate::internal::Internal;
use crate::real;
use crate::table;
use crate::udp::{Peer, State, Udp};
use crate::unix;
use cofferdam_bsd::{Result, parse_address, with_bytes};
use cofferdam_dataplane::{Bound, LARGEST_DATAGRAM_BYTES, Received, Refusal};
use nix::errno::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// What an event of the epoll set is about, as in [`super`].
pub const UDP: u64 = 6 << 56;
/// The kernel's socket of one.
pub const UDP_KERNEL: u64 = 7 << 56;

/// Datagrams of the kernel's, or of the program's, that are moved before others have their turn.
const MOST_AT_ONCE: usize = 256;
/// Senders that a socket remembers.
const MOST_HEARD: usize = 64;

/// How a socket shares its address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reuse {
    pub address: bool,
    pub port: bool,
}

/// A UDP socket.
pub struct Socket {
    /// Our end of the pair.
    end: Internal,
    /// Inode of the program's end.
    inode: u64,
    /// What calls of the program see.
    pub shown: Arc<Udp>,
    /// The kernel's socket in whose place the pair is: it keeps the options, and sends and receives what
    /// is not the dataplane's.
    kernel: Internal,
    /// It receives from the kernel's socket as well.
    hears_kernel: bool,
    pub is_v6: bool,
    pub reuse: Reuse,
    /// Its addresses at the dataplane.
    places: Vec<(Bound, SocketAddr)>,
    /// Who was last heard through the kernel: the answer goes the same way. By a hash of the address.
    heard: Vec<Option<SocketAddr>>,
    /// The program has put datagrams into the pair: the next ones go behind them.
    has_spilled: bool,
}

/// All of them.
pub struct UdpSockets {
    sockets: Slots<Socket>,
    places: Places,
    /// Places of a session that has ended.
    lost: Vec<Place>,
    /// Whose end of the pair may have more to send.
    unsent: Vec<Name>,
    /// Whose kernel's socket may have more.
    unheard: Vec<Name>,
    /// The number of the dataplane's device here.
    interface: u32,
}

/// What came of asking for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Another socket of this process has it, and shares it.
    Given,
    /// It does not.
    Refused(Refusal),
    /// The dataplane answers, see [`Pump::answer`].
    Waits(Bound),
}

/// What came of sending a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The session has it.
    Done,
    /// It is the kernel's to send, from this socket.
    Kernel(RawFd),
    /// Through the pair, behind this.
    Pair(Heading),
    /// From here the socket has no address yet.
    Unplaced(IpAddr),
}

impl UdpSockets {
    pub fn new() -> UdpSockets {
        UdpSockets {
            sockets: Slots::new(),
            places: Places::default(),
            lost: Vec::new(),
            unsent: Vec::new(),
            unheard: Vec::new(),
            interface: 1,
        }
    }

    /// The dataplane's device; where it is in another network namespace, loopback stands for it.
    pub fn set_device(&mut self, name: &str) {
        self.interface = nix::net::if_::if_nametoindex(name).unwrap_or(1);
    }
}

fn slot(remote: SocketAddr) -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    remote.hash(&mut hash);
    hash.finish() as usize % MOST_HEARD
}

impl Socket {
    /// Puts a datagram into the program's socket; one that finds no room is lost.
    fn deliver(&self, heading: &Heading, data: &[u8]) {
        let heading = heading.encode();
        let parts = [IoSlice::new(&heading), IoSlice::new(data)];
        match unix::send_parts(self.end.as_fd(), &parts) {
            // The program has shut it for reading, or has closed it.
            Ok(_) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
            Err(_) => self.shown.drop_one(),
        }
    }

    fn was_heard(&self, remote: SocketAddr) -> bool {
        self.heard.get(slot(remote)) == Some(&Some(remote))
    }

    fn hears(&mut self, remote: SocketAddr, is_kernels: bool) {
        if is_kernels && self.heard.is_empty() {
            self.heard.resize(MOST_HEARD, None);
        }
        if let Some(place) = self.heard.get_mut(slot(remote)) {
            match is_kernels {
                true => *place = Some(remote),
                false if *place == Some(remote) => *place = None,
                false => {}
            }
        }
    }

    /// Its address at the dataplane from which datagrams go to `remote`.
    fn place(&self, remote: IpAddr, source: Option<IpAddr>) -> Option<Bound> {
        let is_family = |at: &SocketAddr| at.is_ipv4() == remote.is_ipv4();
        let family = || self.places.iter().filter(|(_, at)| is_family(at));
        let own = family().find(|(_, at)| Some(at.ip()) == source);
        let wide = || family().find(|(_, at)| at.ip().is_unspecified());
        let any = || match source {
            None => family().next(),
            Some(_) => None,
        };
        own.or_else(wide).or_else(any).map(|(bound, _)| *bound)
    }

    /// The next datagram of the kernel's.
    fn next_of_kernel(&self, buffer: &mut [u8]) -> Result<(Heading, usize)> {
        let mut storage = [0_u64; 16];
        let mut controls = [0_u64; 32];
        let mut part = IoSliceMut::new(buffer);
        // SAFETY: all zeros are a value of it.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = storage.as_mut_ptr().cast();
        message.msg_namelen = size_of_val(&storage) as libc::socklen_t;
        message.msg_iov = (&raw mut part).cast();
        message.msg_iovlen = 1;
        message.msg_control = controls.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&controls);
        let kernel = self.kernel.as_raw_fd();
        let got = real::recvmsg(kernel, &raw mut message, libc::MSG_DONTWAIT);
        let got = Errno::result(got)? as usize;
        // SAFETY: the kernel has filled both.
        let (name, told) = unsafe {
            let name = storage.as_ptr().cast::<u8>();
            let len = (message.msg_namelen as usize).min(size_of_val(&storage));
            let name = std::slice::from_raw_parts(name, len);
            (name, control::read(&message).unwrap_or_default())
        };
        let remote = parse_address(name)?;
        let local = told.local.unwrap_or(crate::calls::any(self.is_v6));
        let heading = Heading {
            remote,
            local,
            interface: told.interface,
            error: 0,
        };
        Ok((heading, got))
    }
}

impl Pump {
    /// A socket in the place of the kernel's `kernel`; it has no address at the dataplane yet.
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
        shown.is_named(name);
        self.watch(fd, libc::EPOLLIN | libc::EPOLLET, UDP | name);
        Ok((name, shown))
    }

    /// The program's number is the pair's now: what the kernel's socket receives is moved, if it may
    /// receive anything.
    pub fn udp_hears_kernel(&mut self, name: Name) {
        if let Some(socket) = self.udp.sockets.get_mut(name)
            && !std::mem::replace(&mut socket.hears_kernel, true)
        {
            let fd = socket.kernel.as_raw_fd();
            self.watch(fd, libc::EPOLLIN | libc::EPOLLET, UDP_KERNEL | name);
        }
    }

    /// What waits for the program is bounded as it asks (`SO_RCVBUF`).
    pub fn udp_limit(&mut self, name: Name, bytes: i32) {
        if let Some(socket) = self.udp.sockets.get_mut(name) {
            unix::limit_send(&socket.end, bytes);
        }
    }

    /// Asks for an address for a socket.
    ///
    /// # Errors
    /// `ENETDOWN`: the dataplane is not there.
    pub fn udp_ask(&mut self, name: Name, local: SocketAddr) -> Result<Asked> {
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
                return Ok(Asked::Refused(Refusal::InUse));
            }
            place.users.push(name);
            if let Some(socket) = sockets.get_mut(name) {
                socket.places.push((bound, local));
            }
            return Ok(Asked::Given);
        }
        let bound = session.udp_bind(local);
        session.flush();
        let users = vec![name];
        self.udp.places.add(bound, Place { local, users });
        if let Some(socket) = sockets.get_mut(name) {
            socket.places.push((bound, local));
        }
        Ok(Asked::Waits(bound))
    }

    /// The dataplane does not give an address.
    pub(super) fn udp_refused(&mut self, bound: Bound) {
        let users = self.udp.places.remove(bound).map(|place| place.users);
        for name in users.unwrap_or_default() {
            if let Some(socket) = self.udp.sockets.get_mut(name) {
                socket.places.retain(|(known, _)| *known != bound);
            }
        }
    }

    /// A socket gives its addresses at the dataplane back.
    pub fn udp_leave(&mut self, name: Name) {
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

    /// Whether a socket has an address at the dataplane from which datagrams go to `remote`.
    pub fn udp_is_placed(&mut self, name: Name, remote: IpAddr) -> bool {
        let socket = self.udp.sockets.get_mut(name);
        socket.is_some_and(|socket| socket.place(remote, None).is_some())
    }

    /// Sends a datagram of the program's, to `to` or the peer, from `source` if that is given.
    ///
    /// # Errors
    /// As `sendto(2)`.
    pub fn udp_send(
        &mut self,
        (name, inode): (Name, u64),
        parts: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        source: Option<IpAddr>,
    ) -> Result<Sending> {
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return Err(Errno::EBADF);
        };
        if socket.inode != inode {
            return Err(Errno::EBADF);
        }
        let state = socket.shown.with(|state| *state);
        let (remote, is_kernels) = match (to, state.peer) {
            (Some(to), _) => (to, self.is_kernels(name, &state, to, source)),
            (None, Some(peer)) => (peer.remote, peer.is_kernels),
            (None, None) => return Err(Errno::EDESTADDRREQ),
        };
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return Err(Errno::EBADF);
        };
        if is_kernels {
            return Ok(Sending::Kernel(socket.kernel.as_raw_fd()));
        }
        let served = &self.served;
        if self.session.is_none() {
            return Err(Errno::ENETDOWN);
        }
        if remote.port() == 0 {
            return Err(Errno::EINVAL);
        }
        if !served.reaches(remote.ip()) || served.is_broadcast(remote.ip()) {
            return Err(Errno::ENETUNREACH);
        }
        if served.is_own(remote.ip()) {
            return Err(Errno::EHOSTUNREACH);
        }
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let most = served.most_datagram_bytes(remote.ip());
        if len > most.min(LARGEST_DATAGRAM_BYTES) {
            return Err(Errno::EMSGSIZE);
        }
        let own = [state.ip, state.peer.map_or(state.ip, |peer| peer.local)];
        let own = own.into_iter().find(|ip| !ip.is_unspecified());
        let source = source.or(own);
        let Some(bound) = socket.place(remote.ip(), source) else {
            return Ok(Sending::Unplaced(remote.ip()));
        };
        let heading = Heading {
            remote,
            local: source.unwrap_or(crate::calls::any(remote.is_ipv6())),
            interface: 0,
            error: 0,
        };
        if socket.has_spilled {
            return Ok(Sending::Pair(heading));
        }
        if !self.has_room() {
            self.turn();
        }
        match self.hand_over(bound, source, remote, parts) {
            true => Ok(Sending::Done),
            false => {
                if let Some(socket) = self.udp.sockets.get_mut(name) {
                    socket.has_spilled = true;
                }
                Ok(Sending::Pair(heading))
            }
        }
    }

    fn has_room(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(cofferdam_dataplane::Session::has_room_for_datagram)
    }

    fn hand_over(
        &mut self,
        bound: Bound,
        source: Option<IpAddr>,
        remote: SocketAddr,
        parts: &[IoSlice<'_>],
    ) -> bool {
        let Some(session) = self.session.as_mut() else {
            return false;
        };
        if !session.has_room_for_datagram() {
            return false;
        }
        let sent = match parts {
            [one] => session.send_datagram_from(bound, source, remote, one),
            [] => session.send_datagram_from(bound, source, remote, &[]),
            several => {
                let mut whole = 0;
                for part in several {
                    if let Some(place) = self.buffer.get_mut(whole..whole + part.len()) {
                        place.copy_from_slice(part);
                        whole += part.len();
                    }
                }
                session.send_datagram_from(bound, source, remote, &self.buffer[..whole])
            }
        };
        session.flush();
        sent
    }

    /// Whether a datagram to an address is the kernel's to send.
    fn is_kernels(
        &mut self,
        name: Name,
        state: &State,
        remote: SocketAddr,
        source: Option<IpAddr>,
    ) -> bool {
        let served = &self.served;
        if let Some(source) = source {
            return !served.is_own(source);
        }
        if !state.ip.is_unspecified() {
            return !served.is_own(state.ip);
        }
        let ip = remote.ip();
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return true;
        };
        let is_placed = socket.place(ip, None).is_some();
        let is_served = served.reaches(ip) && !served.is_broadcast(ip);
        !is_served || socket.was_heard(remote) || !is_placed && !served.connect
    }

    /// With whom a socket would be connected at an address.
    pub fn udp_way(&mut self, name: Name, remote: SocketAddr) -> Option<Peer> {
        let socket = self.udp.sockets.get_mut(name)?;
        let state = socket.shown.with(|state| State {
            peer: None,
            ..*state
        });
        let is_kernels = self.is_kernels(name, &state, remote, None);
        let local = match state.ip.is_unspecified() {
            true => self.served.local_for(remote.ip()).unwrap_or(state.ip),
            false => state.ip,
        };
        Some(Peer {
            remote,
            local,
            is_kernels,
        })
    }

    /// A datagram has come from the dataplane.
    pub(super) fn datagram(
        &mut self,
        bound: Bound,
        data: &Received,
        (remote, local): (SocketAddr, IpAddr),
    ) {
        let UdpSockets {
            sockets,
            places,
            interface,
            ..
        } = &mut self.udp;
        let taker = places.taker(sockets, bound, (remote, local));
        if let Some(socket) = taker.and_then(|name| sockets.get_mut(name)) {
            socket.hears(remote, false);
            let heading = Heading {
                remote,
                local,
                interface: *interface,
                error: 0,
            };
            socket.deliver(&heading, data);
        }
    }

    /// Our end of a socket's pair has changed.
    pub(super) fn udp_woken(&mut self, name: Name, is_closed: bool) {
        if is_closed {
            // What was sent through the pair goes first.
            self.udp_collect(name);
            self.drop_udp(name);
        } else {
            self.udp.unsent.push(name);
        }
    }

    pub(super) fn udp_kernel_woken(&mut self, name: Name) {
        self.udp.unheard.push(name);
    }

    /// Moves what is there: of the kernel's to the program, and of the program's that came through a
    /// pair; true when there is more.
    pub(super) fn udp_turn(&mut self) -> bool {
        let mut has_more = false;
        for name in std::mem::take(&mut self.udp.unheard) {
            if self.udp_hear(name) {
                self.udp.unheard.push(name);
                has_more = true;
            }
        }
        for name in std::mem::take(&mut self.udp.unsent) {
            match self.udp_collect(name) {
                Collected::All => {}
                Collected::Part => {
                    self.udp.unsent.push(name);
                    has_more = true;
                }
                // The next event of the session makes some.
                Collected::NoRoom => self.udp.unsent.push(name),
            }
        }
        has_more
    }

    /// From the kernel's socket to the program; true when there is more.
    fn udp_hear(&mut self, name: Name) -> bool {
        let Some(socket) = self.udp.sockets.get_mut(name) else {
            return false;
        };
        for _ in 0..MOST_AT_ONCE {
            match socket.next_of_kernel(&mut self.buffer) {
                Ok((heading, len)) => {
                    let peer = socket.shown.with(|state| state.peer);
                    if peer.is_none_or(|peer| peer.is_kernels && peer.remote == heading.remote) {
                        socket.hears(heading.remote, true);
                        socket.deliver(&heading, &self.buffer[..len]);
                    }
                }
                Err(Errno::EAGAIN) => return false,
                Err(Errno::EINTR) => {}
                Err(error) => {
                    socket.deliver(&Heading::of_error(error as i32), &[]);
                    return false;
                }
            }
        }
        true
    }

    /// From the program's end of a pair to where it goes.
    fn udp_collect(&mut self, name: Name) -> Collected {
        let mut buffer = std::mem::take(&mut self.buffer);
        let collected = self.udp_collect_into(name, &mut buffer);
        self.buffer = buffer;
        collected
    }

    fn udp_collect_into(&mut self, name: Name, buffer: &mut [u8]) -> Collected {
        for _ in 0..MOST_AT_ONCE {
            let has_room = self.has_room();
            let Some(socket) = self.udp.sockets.get_mut(name) else {
                return Collected::All;
            };
            if !has_room && self.session.is_some() {
                return Collected::NoRoom;
            }
            let mut bytes = [0; heading::BYTES];
            let got = {
                let parts = &mut [IoSliceMut::new(&mut bytes), IoSliceMut::new(buffer)];
                unix::receive_parts(socket.end.as_fd(), parts)
            };
            let Ok(got) = got else {
                socket.has_spilled = false;
                return Collected::All;
            };
            if got == 0 {
                // It is shut for writing.
                return Collected::All;
            }
            let heading = Heading::decode(&bytes[..got.min(heading::BYTES)]);
            let data = &buffer[..got.saturating_sub(heading::BYTES)];
            let Some(heading) = heading else {
                socket.shown.drop_one();
                continue;
            };
            let source = Some(heading.local).filter(|ip| !ip.is_unspecified());
            let state = socket.shown.with(|state| *state);
            let (kernel, is_v6) = (socket.kernel.as_raw_fd(), socket.is_v6);
            let bound = socket.place(heading.remote.ip(), source);
            if self.is_kernels(name, &state, heading.remote, source) {
                with_bytes(heading.remote, is_v6, |name| {
                    let to = (name.as_ptr().cast(), name.len() as libc::socklen_t);
                    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                    real::sendto(kernel, data.as_ptr().cast(), data.len(), flags, to);
                });
            } else if let (Some(session), Some(bound)) = (&mut self.session, bound) {
                session.send_datagram_from(bound, source, heading.remote, data);
            }
        }
        Collected::Part
    }

    /// UDP sockets that the program has closed.
    pub(super) fn udp_sweep(&mut self) {
        for name in self.udp.sockets.names() {
            let socket = self.udp.sockets.get_mut(name);
            if socket.is_some_and(|socket| unix::is_closed(socket.end.as_fd())) {
                self.udp_woken(name, true);
            }
        }
    }

    /// The program has closed a socket, or it could not be given its address.
    pub fn drop_udp(&mut self, name: Name) {
        self.udp_leave(name);
        if let Some(socket) = self.udp.sockets.remove(name) {
            table::remove(socket.inode);
        }
    }

    /// The session has ended.
    pub(super) fn udp_lose(&mut self) {
        let places = self.udp.places.take_all();
        self.udp.lost.extend(places);
        for name in self.udp.sockets.names() {
            if let Some(socket) = self.udp.sockets.get_mut(name) {
                socket.places.clear();
            }
        }
    }

    /// There is another session: sockets get their addresses back.
    pub(super) fn udp_return(&mut self) {
        for place in std::mem::take(&mut self.udp.lost) {
            for name in place.users {
                let _ = self.udp_ask(name, place.local);
            }
        }
    }

    /// The process ends: whether all that it has sent has left.
    pub(super) fn udp_is_finished(&mut self) -> bool {
        self.udp.unsent.is_empty()
            && (self.session.as_ref()).is_none_or(|session| session.unsent_datagrams() == 0)
    }

    /// The process ends: what is in the pairs is sent.
    pub(super) fn udp_exits(&mut self) {
        let names = self.udp.sockets.names();
        self.udp.unsent.extend(names);
    }
}

/// How much of what was in a pair has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collected {
    All,
    Part,
    NoRoom,
}
