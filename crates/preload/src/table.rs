//! Sockets of the process that the dataplane serves, by the inode of the program's end: copies of a
//! descriptor refer to the same socket.

use crate::real;
use crate::udp::Udp;
use cofferdam_bsd::TcpOptions;
use nix::errno::Errno;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// The peer has not answered.
    Connecting = 0,
    /// The connection is open, or was.
    Open = 1,
    /// The connection could not be opened, or was reset.
    Failed = 2,
}

/// State of a connection that calls of the program see.
#[derive(Debug)]
pub struct ConnectionState {
    /// Local address before the connection is open: the dataplane chooses the port.
    local: SocketAddr,
    /// Local address of the open connection.
    opened_at: OnceLock<SocketAddr>,
    /// Address of the peer.
    pub remote: SocketAddr,
    stage: AtomicU8,
    /// Next answer to SO_ERROR, returned once.
    error: AtomicI32,
    /// Descriptor by which the program used it last, or −1.
    fd: AtomicI32,
    /// Whether closing resets it (SO_LINGER with a time of zero).
    pub resets_at_close: AtomicBool,
    is_here: AtomicBool,
    /// Whether the program has shut it down for writing.
    pub is_shut: AtomicBool,
    /// Name in the pump.
    name: AtomicU64,
    options: Mutex<TcpOptions>,
    watch: Mutex<Watch>,
}

/// Epoll set: its descriptor, and how many sets had that number before.
pub type Set = (RawFd, u32);

/// Use of epoll for a connection's data.
#[derive(Clone, Copy, Debug, Default)]
enum Watch {
    #[default]
    Nowhere,
    /// The connection is in this set: the data that the set returns, and whether the library may
    /// report events (EPOLLIN without EPOLLONESHOT and EPOLLEXCLUSIVE).
    In { set: Set, data: u64, is_plain: bool },
    /// The connection is in several sets, or was read past the library: its data goes through the
    /// pair.
    Never,
}

/// State of a listener that calls of the program see.
#[derive(Debug)]
pub struct ListenerState {
    /// Address and port.
    pub local: SocketAddr,
    options: Mutex<TcpOptions>,
    /// SO_SNDBUF and SO_RCVBUF in bytes if the program has set them, else 0. Connections inherit
    /// them.
    pub buffers_bytes: [AtomicI32; 2],
    /// Name of the group of processes that share its addresses.
    pub group: u64,
    /// Addresses at the dataplane.
    addresses: Mutex<Vec<SocketAddr>>,
    is_here: AtomicBool,
}

impl ListenerState {
    pub fn new(
        local: SocketAddr,
        options: TcpOptions,
        buffers_bytes: [i32; 2],
        group: u64,
    ) -> ListenerState {
        ListenerState {
            local,
            options: Mutex::new(options),
            buffers_bytes: buffers_bytes.map(AtomicI32::new),
            group,
            addresses: Mutex::default(),
            is_here: AtomicBool::new(true),
        }
    }

    /// A copy for the process that inherited it.
    pub fn inherited(&self) -> ListenerState {
        let buffers = self.buffers_bytes.each_ref();
        let buffers = buffers.map(|bytes| bytes.load(Ordering::Relaxed));
        ListenerState::new(self.local, *self.options(), buffers, self.group)
    }

    /// Addresses at the dataplane.
    pub fn addresses(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        lock(&self.addresses)
    }

    /// Whether this process' pump has the library's end.
    pub fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Relaxed)
    }

    /// TCP options, which connections inherit.
    pub fn options(&self) -> MutexGuard<'_, TcpOptions> {
        lock(&self.options)
    }
}

impl ConnectionState {
    pub fn new(
        local: SocketAddr,
        remote: SocketAddr,
        stage: Stage,
        is_here: bool,
    ) -> ConnectionState {
        ConnectionState {
            local,
            remote,
            stage: AtomicU8::new(stage as u8),
            error: AtomicI32::new(0),
            fd: AtomicI32::new(-1),
            resets_at_close: AtomicBool::new(false),
            is_here: AtomicBool::new(is_here),
            is_shut: AtomicBool::new(false),
            name: AtomicU64::new(0),
            opened_at: OnceLock::new(),
            options: Mutex::default(),
            watch: Mutex::default(),
        }
    }

    /// The connection with these TCP options.
    pub fn with_options(self, options: TcpOptions) -> ConnectionState {
        *self.options() = options;
        self
    }

    /// TCP options.
    pub fn options(&self) -> MutexGuard<'_, TcpOptions> {
        lock(&self.options)
    }

    /// Records a change of the events of an epoll set; `None` removes the connection from it.
    pub fn record_registration(&self, set: Set, event: Option<(u32, u64)>) {
        let mut watch = lock(&self.watch);
        *watch = match (*watch, event) {
            (Watch::Nowhere, Some((events, data))) => Watch::In {
                set,
                data,
                is_plain: is_plain(events),
            },
            (Watch::In { set: own, .. }, Some((events, data))) if own == set => Watch::In {
                set,
                data,
                is_plain: is_plain(events),
            },
            (Watch::In { set: own, .. }, None) if own == set => Watch::Nowhere,
            (Watch::Nowhere, None) => Watch::Nowhere,
            _ => Watch::Never,
        };
    }

    /// Data that the set returns for the connection if the library may report events of the set.
    pub fn in_set(&self, set: Set) -> Option<u64> {
        match *lock(&self.watch) {
            Watch::In {
                set: own,
                data,
                is_plain: true,
            } if own == set => Some(data),
            _ => None,
        }
    }

    /// Whether the connection is or was in an epoll set.
    pub fn is_watched(&self) -> bool {
        !matches!(*lock(&self.watch), Watch::Nowhere)
    }

    /// Records that data was reported to the program, which did not read it through the library.
    pub fn stop_buffering(&self) {
        *lock(&self.watch) = Watch::Never;
    }

    /// Local address. Its port is 0 until a connection that the program opens is open.
    pub fn local(&self) -> SocketAddr {
        self.opened_at.get().copied().unwrap_or(self.local)
    }

    /// Records that the connection is open at this local address.
    pub fn opened(&self, local: SocketAddr) {
        let _ = self.opened_at.set(local);
        self.set_stage(Stage::Open);
    }

    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Connecting,
            1 => Stage::Open,
            _ => Stage::Failed,
        }
    }

    pub fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// Whether this process' pump has the library's end.
    pub fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Relaxed)
    }

    /// Records that the connection has ended with this error, which SO_ERROR returns once.
    pub fn fail(&self, error: Errno) {
        self.error.store(error as i32, Ordering::Release);
        self.set_stage(Stage::Failed);
    }

    /// Takes the error.
    pub fn take_error(&self) -> i32 {
        self.error.swap(0, Ordering::AcqRel)
    }

    /// Records the descriptor by which the program uses it.
    pub fn set_descriptor(&self, fd: RawFd) {
        self.fd.store(fd, Ordering::Relaxed);
        hint(fd, true);
    }

    /// Records its name in the pump.
    pub fn set_name(&self, name: u64) {
        self.name.store(name, Ordering::Relaxed);
    }

    /// Name in the pump.
    pub fn name(&self) -> u64 {
        self.name.load(Ordering::Relaxed)
    }

    /// Descriptor by which the program used it last.
    pub fn fd(&self) -> RawFd {
        self.fd.load(Ordering::Relaxed)
    }
}

/// Kind of a socket.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Bound to an address of the dataplane, without a peer.
    Bound(SocketAddr),
    /// Listener.
    Listener(Arc<ListenerState>),
    /// Connection.
    Connection(Arc<ConnectionState>),
    /// UDP socket.
    Udp(Arc<Udp>),
}

/// Socket that the dataplane serves.
#[derive(Clone, Debug)]
pub struct Sock {
    pub kind: Kind,
    /// Whether it is an IPv6 socket, which shows IPv4 addresses as mapped.
    pub is_v6: bool,
}

#[derive(Default)]
struct Table {
    socks: HashMap<u64, Sock>,
}

/// Whether there was ever a socket: most processes have none.
static ANY: AtomicBool = AtomicBool::new(false);

/// Descriptors of connections, one bit each: a hint that spares other descriptors a lookup. It
/// lacks copies of a descriptor, and keeps a number that the C library has closed.
static HINTS: [AtomicU64; HINT_WORDS] = [const { AtomicU64::new(0) }; HINT_WORDS];
const HINT_WORDS: usize = 1024;

fn hint(fd: RawFd, is_connection: bool) {
    if let Some(word) = usize::try_from(fd).ok().and_then(|fd| HINTS.get(fd / 64)) {
        let bit = 1 << (fd % 64);
        match is_connection {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }
}

fn is_plain(events: u32) -> bool {
    let events = events as i32;
    let once = libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE;
    events & libc::EPOLLIN != 0 && events & once == 0
}

/// Number of times that each number of an epoll set was closed.
static SETS: Mutex<BTreeMap<RawFd, u32>> = Mutex::new(BTreeMap::new());
static ANY_SETS: AtomicBool = AtomicBool::new(false);

/// Epoll set with this number.
pub fn set(fd: RawFd) -> Set {
    ANY_SETS.store(true, Ordering::Relaxed);
    (fd, *lock(&SETS).entry(fd).or_insert(0))
}

/// Counts the close of a number that may be an epoll set.
fn set_closes(fd: RawFd) {
    if ANY_SETS.load(Ordering::Relaxed)
        && let Some(count) = lock(&SETS).get_mut(&fd)
    {
        *count += 1;
    }
}

/// Whether a descriptor may be a connection; `false` is certain.
pub fn may_be_connection(fd: RawFd) -> bool {
    let word = usize::try_from(fd).ok().and_then(|fd| HINTS.get(fd / 64));
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (fd % 64) & 1 == 1)
}

/// The open connection of this process' pump under a descriptor, and its inode.
pub fn connection(fd: RawFd) -> Option<(Arc<ConnectionState>, u64)> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let inode = real::inode(fd)?;
    match &table().socks.get(&inode)?.kind {
        Kind::Connection(connected) if connected.is_here() => Some((connected.clone(), inode)),
        _ => None,
    }
}

/// Whether there was ever a UDP socket: without one, calls need no lookup.
static ANY_UDP: AtomicBool = AtomicBool::new(false);

/// Whether there was ever a UDP socket.
pub fn has_udp() -> bool {
    ANY_UDP.load(Ordering::Relaxed)
}

/// The UDP socket under a descriptor, its inode, and whether it is an IPv6 socket.
pub fn udp(fd: RawFd) -> Option<(Arc<Udp>, u64, bool)> {
    if !has_udp() {
        return None;
    }
    let inode = real::inode(fd)?;
    let table = table();
    let sock = table.socks.get(&inode)?;
    match &sock.kind {
        Kind::Udp(socket) => Some((socket.clone(), inode, sock.is_v6)),
        _ => None,
    }
}

/// Records that a UDP socket has this descriptor.
pub fn set_udp_descriptor(fd: RawFd) {
    hint(fd, true);
}

fn table() -> MutexGuard<'static, Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    lock(TABLE.get_or_init(Mutex::default))
}

/// Locks a mutex. Its data is consistent at any time, so a poisoned lock is acceptable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The socket under a descriptor if the dataplane serves it.
pub fn find(fd: RawFd) -> Option<Sock> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let inode = real::inode(fd)?;
    table().socks.get(&inode).cloned()
}

/// Adds a socket.
pub fn put(inode: u64, sock: Sock) {
    ANY.store(true, Ordering::Relaxed);
    if matches!(sock.kind, Kind::Udp(_)) {
        ANY_UDP.store(true, Ordering::Relaxed);
    }
    table().socks.insert(inode, sock);
}

/// Removes a socket.
pub fn remove(inode: u64) {
    table().socks.remove(&inode);
}

/// Records that the program closes a descriptor. A connection that has failed is removed only now.
pub fn closes(fd: RawFd) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    if !crate::process::is_owner() {
        return;
    }
    hint(fd, false);
    set_closes(fd);
    let Some(inode) = real::inode(fd) else {
        return;
    };
    let mut table = table();
    let is_obsolete = match table.socks.get(&inode) {
        Some(sock) => match &sock.kind {
            Kind::Connection(connected) => {
                connected.stage() == Stage::Failed || !connected.is_here()
            }
            Kind::Bound(_) => true,
            Kind::Listener(_) => false,
            // Copies of its descriptor still need headings.
            Kind::Udp(_) => false,
        },
        None => false,
    };
    if is_obsolete {
        table.socks.remove(&inode);
    }
}

/// Records that this process is a child: its parent has the library's ends.
pub fn mark_inherited() {
    for sock in table().socks.values() {
        match &sock.kind {
            Kind::Connection(connected) => connected.is_here.store(false, Ordering::Relaxed),
            Kind::Listener(listening) => {
                listening.is_here.store(false, Ordering::Relaxed);
                INHERITS.store(true, Ordering::Relaxed);
            }
            Kind::Udp(socket) => socket.mark_inherited(),
            Kind::Bound(_) => {}
        }
    }
}

/// Whether this process has inherited listeners.
static INHERITS: AtomicBool = AtomicBool::new(false);

/// Whether this process has inherited listeners.
pub fn inherits_listeners() -> bool {
    INHERITS.load(Ordering::Relaxed)
}

/// Lock on the tables during a fork, which keeps the child's copy consistent, and during changes of
/// data that a child may read.
pub struct TableLock(
    #[expect(dead_code, reason = "released when dropped")] MutexGuard<'static, Table>,
    #[expect(dead_code, reason = "released when dropped")]
    MutexGuard<'static, BTreeMap<RawFd, u32>>,
);

/// Locks the tables.
pub fn hold() -> TableLock {
    TableLock(table(), lock(&SETS))
}
