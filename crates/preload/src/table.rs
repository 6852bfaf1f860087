//! The process' sockets that the dataplane serves, by the inode of the program's end: copies of a
//! descriptor name the same socket.

use crate::real;
use crate::udp::Udp;
use cofferdam_bsd::TcpOptions;
use nix::errno::Errno;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// The peer has not answered.
    Connecting = 0,
    /// Open, or was.
    Open = 1,
    /// It could not be opened, or has been reset.
    Failed = 2,
}

/// A connection, as calls of the program see it.
#[derive(Debug)]
pub struct Connected {
    /// Our side, as far as it is known before the connection is open: the dataplane chooses the port.
    local: SocketAddr,
    /// Our side.
    opened_at: OnceLock<SocketAddr>,
    /// The peer.
    pub remote: SocketAddr,
    stage: AtomicU8,
    /// What SO_ERROR answers next, once.
    error: AtomicI32,
    /// The number under which the program knew it last, −1 when it is not known.
    fd: AtomicI32,
    /// SO_LINGER with no time: closing resets.
    pub resets_at_close: AtomicBool,
    is_here: AtomicBool,
    /// The program has shut it for writing.
    pub is_shut: AtomicBool,
    /// What the pump calls it.
    name: AtomicU64,
    options: Mutex<TcpOptions>,
    watch: Mutex<Watch>,
}

/// An epoll set: its number, and which of those that have had it.
pub type Set = (RawFd, u32);

/// Where the program waits for a connection's data by epoll.
#[derive(Clone, Copy, Debug, Default)]
enum Watch {
    #[default]
    Nowhere,
    /// In this set; the data that comes back, and whether it is told of what can be read each time.
    In { set: Set, data: u64, is_plain: bool },
    /// In several sets, or it reads past the library: it gets its data through the pair.
    Never,
}

/// A listener, as calls of the program see it.
#[derive(Debug)]
pub struct Listening {
    /// Address and port.
    pub local: SocketAddr,
    options: Mutex<TcpOptions>,
    /// SO_SNDBUF and SO_RCVBUF in bytes as they were asked for, 0 where they were not: connections
    /// inherit them.
    pub buffers_bytes: [AtomicI32; 2],
    /// By what processes that inherit it share its addresses.
    pub group: u64,
    /// Its addresses at the dataplane.
    addresses: Mutex<Vec<SocketAddr>>,
    is_here: AtomicBool,
}

impl Listening {
    pub fn new(
        local: SocketAddr,
        options: TcpOptions,
        buffers_bytes: [i32; 2],
        group: u64,
    ) -> Listening {
        Listening {
            local,
            options: Mutex::new(options),
            buffers_bytes: buffers_bytes.map(AtomicI32::new),
            group,
            addresses: Mutex::default(),
            is_here: AtomicBool::new(true),
        }
    }

    /// For the process that inherited it.
    pub fn inherited(&self) -> Listening {
        let buffers = self.buffers_bytes.each_ref();
        let buffers = buffers.map(|bytes| bytes.load(Ordering::Relaxed));
        Listening::new(self.local, *self.options(), buffers, self.group)
    }

    /// Its addresses at the dataplane.
    pub fn addresses(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        whole(&self.addresses)
    }

    /// Whether this process' pump has the other end.
    pub fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Relaxed)
    }

    /// TCP's options, which connections inherit.
    pub fn options(&self) -> MutexGuard<'_, TcpOptions> {
        whole(&self.options)
    }
}

impl Connected {
    pub fn new(local: SocketAddr, remote: SocketAddr, stage: Stage, is_here: bool) -> Connected {
        Connected {
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

    /// With TCP's options.
    pub fn with_options(self, options: TcpOptions) -> Connected {
        *self.options() = options;
        self
    }

    /// TCP's options.
    pub fn options(&self) -> MutexGuard<'_, TcpOptions> {
        whole(&self.options)
    }

    /// The program has changed what an epoll set waits for; none: it waits no more.
    pub fn watched(&self, set: Set, event: Option<(u32, u64)>) {
        let mut watch = whole(&self.watch);
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

    /// What the set returns for it, if data is reported there each time that some comes.
    pub fn in_set(&self, set: Set) -> Option<u64> {
        match *whole(&self.watch) {
            Watch::In {
                set: own,
                data,
                is_plain: true,
            } if own == set => Some(data),
            _ => None,
        }
    }

    /// Whether the program waits for it by epoll, or has.
    pub fn is_watched(&self) -> bool {
        !matches!(*whole(&self.watch), Watch::Nowhere)
    }

    /// The program was told of data and did not read it where the library sees it.
    pub fn reads_elsewhere(&self) {
        *whole(&self.watch) = Watch::Never;
    }

    /// Our side; its port is 0 before a connection is open that the program opens.
    pub fn local(&self) -> SocketAddr {
        self.opened_at.get().copied().unwrap_or(self.local)
    }

    /// It is open, at this address of ours.
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

    /// Whether this process' pump has the other end.
    pub fn is_here(&self) -> bool {
        self.is_here.load(Ordering::Relaxed)
    }

    /// It has ended with this error, which SO_ERROR reports once.
    pub fn fail(&self, error: Errno) {
        self.error.store(error as i32, Ordering::Release);
        self.set_stage(Stage::Failed);
    }

    /// Takes the error.
    pub fn take_error(&self) -> i32 {
        self.error.swap(0, Ordering::AcqRel)
    }

    /// Notes the number under which the program knows it.
    pub fn is_at(&self, fd: RawFd) {
        self.fd.store(fd, Ordering::Relaxed);
        hint(fd, true);
    }

    /// The pump calls it so.
    pub fn is_named(&self, name: u64) {
        self.name.store(name, Ordering::Relaxed);
    }

    /// See [`Connected::is_named`].
    pub fn name(&self) -> u64 {
        self.name.load(Ordering::Relaxed)
    }

    /// See [`Connected::is_at`].
    pub fn fd(&self) -> RawFd {
        self.fd.load(Ordering::Relaxed)
    }
}

/// What a socket is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Bound to an address of the dataplane's; nothing more yet.
    Bound(SocketAddr),
    /// It listens.
    Listener(Arc<Listening>),
    /// A connection.
    Connection(Arc<Connected>),
    /// A UDP socket.
    Udp(Arc<Udp>),
}

/// A socket.
#[derive(Clone, Debug)]
pub struct Sock {
    pub kind: Kind,
    /// Of the family of IPv6: addresses of IPv4 are shown as mapped.
    pub is_v6: bool,
}

#[derive(Default)]
struct Table {
    socks: HashMap<u64, Sock>,
}

/// Whether there has been any socket: most processes have none.
static ANY: AtomicBool = AtomicBool::new(false);

/// Numbers that the program knows connections by, one bit each: a hint that spares others a look.
/// Copies of a descriptor are not in it, and a number that the C library has closed stays.
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

/// How often each number of an epoll set has been closed.
static SETS: Mutex<BTreeMap<RawFd, u32>> = Mutex::new(BTreeMap::new());
static ANY_SETS: AtomicBool = AtomicBool::new(false);

/// The set under a number.
pub fn set(fd: RawFd) -> Set {
    ANY_SETS.store(true, Ordering::Relaxed);
    (fd, *whole(&SETS).entry(fd).or_insert(0))
}

/// What is closed under this number may be a set.
fn set_closes(fd: RawFd) {
    if ANY_SETS.load(Ordering::Relaxed)
        && let Some(count) = whole(&SETS).get_mut(&fd)
    {
        *count += 1;
    }
}

/// False where a descriptor is certainly no connection whose calls are answered here.
pub fn may_be_connection(fd: RawFd) -> bool {
    let word = usize::try_from(fd).ok().and_then(|fd| HINTS.get(fd / 64));
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (fd % 64) & 1 == 1)
}

/// The open connection of this process' pump under a descriptor, and its inode.
pub fn connection(fd: RawFd) -> Option<(Arc<Connected>, u64)> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let inode = real::inode(fd)?;
    match &table().socks.get(&inode)?.kind {
        Kind::Connection(connected) if connected.is_here() => Some((connected.clone(), inode)),
        _ => None,
    }
}

/// Whether there has been any UDP socket: others need not be looked up at each call.
static ANY_UDP: AtomicBool = AtomicBool::new(false);

/// See [`ANY_UDP`].
pub fn has_udp() -> bool {
    ANY_UDP.load(Ordering::Relaxed)
}

/// The UDP socket under a descriptor, its inode, and whether it is of the family of IPv6.
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

/// A UDP socket is under this number.
pub fn udp_is_at(fd: RawFd) {
    hint(fd, true);
}

fn table() -> MutexGuard<'static, Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    whole(TABLE.get_or_init(Mutex::default))
}

/// What is behind a lock is whole at each moment.
fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The socket under a descriptor, if it is the dataplane's.
pub fn find(fd: RawFd) -> Option<Sock> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let inode = real::inode(fd)?;
    table().socks.get(&inode).cloned()
}

/// Makes a socket known.
pub fn put(inode: u64, sock: Sock) {
    ANY.store(true, Ordering::Relaxed);
    if matches!(sock.kind, Kind::Udp(_)) {
        ANY_UDP.store(true, Ordering::Relaxed);
    }
    table().socks.insert(inode, sock);
}

/// Forgets a socket.
pub fn remove(inode: u64) {
    table().socks.remove(&inode);
}

/// The program closes a descriptor: a connection that has failed is known until then.
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
    let gone = match table.socks.get(&inode) {
        Some(sock) => match &sock.kind {
            Kind::Connection(connected) => {
                connected.stage() == Stage::Failed || !connected.is_here()
            }
            Kind::Bound(_) => true,
            Kind::Listener(_) => false,
            // Copies of its descriptor are read with headings as well.
            Kind::Udp(_) => false,
        },
        None => false,
    };
    if gone {
        table.socks.remove(&inode);
    }
}

/// This process is a child that has copies of its parent's descriptors: the other ends are there.
pub fn is_elsewhere() {
    for sock in table().socks.values() {
        match &sock.kind {
            Kind::Connection(connected) => connected.is_here.store(false, Ordering::Relaxed),
            Kind::Listener(listening) => {
                listening.is_here.store(false, Ordering::Relaxed);
                INHERITS.store(true, Ordering::Relaxed);
            }
            Kind::Udp(socket) => socket.is_elsewhere(),
            Kind::Bound(_) => {}
        }
    }
}

/// Whether this process has listeners of its parent's.
static INHERITS: AtomicBool = AtomicBool::new(false);

/// See [`INHERITS`].
pub fn inherits_listeners() -> bool {
    INHERITS.load(Ordering::Relaxed)
}

/// Kept while the process forks, so that the child's copy is whole, and while what a child may read is
/// changed.
pub struct Held(
    #[expect(dead_code, reason = "released when dropped")] MutexGuard<'static, Table>,
    #[expect(dead_code, reason = "released when dropped")]
    MutexGuard<'static, BTreeMap<RawFd, u32>>,
);

/// Holds the tables.
pub fn hold() -> Held {
    Held(table(), whole(&SETS))
}
