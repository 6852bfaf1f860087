//! A script as packetdrill plays it: through the table that the shared object fills in, with IP
//! packets built independently of the code under test.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "`call!` takes plain values; what they point at is said at its definition"
)]

#[path = "../../../netstack/tests/support/segment.rs"]
pub mod segment;

use cofferdam_packetdrill_shim::abi::Interface;
use nix::errno::Errno;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use segment::{Segment, flags, flags_text};
use std::ffi::{CString, c_char, c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
/// The peer's initial sequence number: near the maximum, so that sequence numbers wrap.
pub const PEER_ISN: u32 = 0xffff_ff00;

/// Finds and opens the shared object as packetdrill does. It reads sysctls only if `flags` name a
/// folder, and marks bursts only if `flags` contain `bursts`.
pub fn load(flags: &str) -> Interface {
    let mut words: Vec<&str> = flags.split(',').filter(|word| *word != "bursts").collect();
    if !flags.contains("sysctls=") {
        words.push("nosysctls");
    }
    if !flags.contains("bursts") {
        words.push("nobursts");
    }
    let flags = words.join(",");
    let own = std::env::current_exe().expect("a test has a program");
    let folder = own.parent().expect("it lies in a folder");
    let path = folder.join("libcofferdam_packetdrill_shim.so");
    let path = CString::new(path.display().to_string()).expect("a path");
    let how = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE | libc::RTLD_DEEPBIND;
    let flags = CString::new(flags).expect("text");
    let mut table = std::mem::MaybeUninit::uninit();
    // SAFETY: names end with a zero byte; the symbol has this type and fills in the table.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), how);
        assert!(!handle.is_null(), "{} opens", path.to_string_lossy());
        let init = libc::dlsym(handle, c"packetdrill_interface_init".as_ptr());
        assert!(!init.is_null(), "the entry is there");
        let init: unsafe extern "C" fn(*const c_char, *mut Interface) = std::mem::transmute(init);
        init(flags.as_ptr(), table.as_mut_ptr());
        table.assume_init()
    }
}

/// Calls a function of the table; the error number if it returns −1.
#[macro_export]
macro_rules! call {
    ($player:expr, $name:ident $(, $argument:expr)*) => {{
        let table = $player.table;
        let function = table.$name.expect("the table is full");
        // SAFETY: the arguments match the system call of this name.
        let result = unsafe { function(table.userdata $(, $argument)*) };
        if result == -1 { Err(nix::errno::Errno::last()) } else { Ok(result) }
    }};
}

/// The table, used by two threads as in packetdrill.
#[derive(Clone, Copy)]
pub struct Calls {
    pub table: Interface,
}

// SAFETY: packetdrill calls from two threads, which is what the test checks.
unsafe impl Send for Calls {}

impl Calls {
    pub fn socket(&self, v6: bool, more: c_int) -> c_int {
        let domain = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        call!(self, socket, domain, libc::SOCK_STREAM | more, 0).expect("a socket")
    }

    pub fn bind(&self, file: c_int, at: SocketAddr) -> Result<c_int, Errno> {
        let address = SockaddrStorage::from(at);
        call!(self, bind, file, address.as_ptr(), address.len())
    }

    pub fn connect(&self, file: c_int, to: SocketAddr) -> Result<c_int, Errno> {
        let address = SockaddrStorage::from(to);
        call!(self, connect, file, address.as_ptr(), address.len())
    }

    /// Accepts a connection; returns its file and the peer's address as stored.
    pub fn accept(&self, file: c_int) -> Result<(c_int, SocketAddr), Errno> {
        // SAFETY: an all-zero address is valid.
        let mut raw: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&raw) as libc::socklen_t;
        let address = (&raw mut raw).cast();
        let accepted = call!(self, accept, file, address, &raw mut len)?;
        // SAFETY: the call stored the address and its length.
        let storage = unsafe { SockaddrStorage::from_raw(address.cast_const(), Some(len)) };
        let storage = storage.expect("an address");
        let peer = match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
            (Some(v4), _) => SocketAddr::new(v4.ip().into(), v4.port()),
            (_, Some(v6)) => SocketAddr::new(v6.ip().into(), v6.port()),
            _ => panic!("no address of a family"),
        };
        Ok((accepted, peer))
    }

    pub fn read(&self, file: c_int, most: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; most];
        let len = call!(self, read, file, bytes.as_mut_ptr().cast(), most)?;
        bytes.truncate(len as usize);
        Ok(bytes)
    }

    pub fn write(&self, file: c_int, bytes: &[u8]) -> Result<isize, Errno> {
        call!(self, write, file, bytes.as_ptr().cast(), bytes.len())
    }

    pub fn close(&self, file: c_int) -> Result<c_int, Errno> {
        call!(self, close, file)
    }

    /// SO_ERROR: the error since the last query.
    pub fn error(&self, file: c_int) -> Errno {
        Errno::from_raw(self.option(file, libc::SOL_SOCKET, libc::SO_ERROR))
    }

    pub fn option(&self, file: c_int, level: c_int, name: c_int) -> c_int {
        let mut value: c_int = -1;
        let mut len = size_of_val(&value) as libc::socklen_t;
        let place = (&raw mut value).cast::<c_void>();
        call!(self, getsockopt, file, level, name, place, &raw mut len).expect("known");
        value
    }

    pub fn set_option(
        &self,
        file: c_int,
        level: c_int,
        name: c_int,
        value: c_int,
    ) -> Result<c_int, Errno> {
        let place = (&raw const value).cast::<c_void>();
        let len = size_of_val(&value) as libc::socklen_t;
        call!(self, setsockopt, file, level, name, place, len)
    }

    /// Time on the script's clock, in microseconds.
    pub fn time_us(&self) -> i64 {
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        call!(self, gettimeofday, &raw mut time, std::ptr::null_mut()).expect("the time");
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    pub fn sleep(&self, time: Duration) {
        call!(self, usleep, time.as_micros() as u32).expect("it sleeps");
    }
}

/// A script with one connection between 192.168.0.2:8080 (or its IPv6 counterpart) and a remote
/// peer.
pub struct Player {
    pub calls: Calls,
    pub us: SocketAddr,
    pub peer: SocketAddr,
    /// Our initial sequence number, from our SYN.
    pub isn: u32,
}

impl Player {
    pub fn new(flags: &str, v6: bool) -> Player {
        let (us, peer) = if v6 {
            ("[fd3d:fa7b:d17d::2]:8080", "[2001:db8::1]:5000")
        } else {
            ("192.168.0.2:8080", "192.0.2.1:5000")
        };
        Player {
            calls: Calls { table: load(flags) },
            us: us.parse().expect("an address"),
            peer: peer.parse().expect("an address"),
            isn: 0,
        }
    }

    fn ips(&self) -> (IpAddr, IpAddr) {
        (self.peer.ip(), self.us.ip())
    }

    /// Injects a segment from the peer. Sequence numbers are relative to both initial ones.
    pub fn inject(&self, kind: &str, seq: u32, ack: u32, data: &[u8]) {
        let mut segment = Segment {
            from: self.peer.port(),
            to: self.us.port(),
            seq: PEER_ISN.wrapping_add(seq),
            flags: flags(kind),
            window: 65_535,
            data: data.to_vec(),
            ..Segment::default()
        };
        if kind.contains('.') {
            segment.ack = self.isn.wrapping_add(ack);
        }
        if kind.contains('S') {
            segment.options = vec![(2, vec![5, 180])];
        }
        self.inject_packet(&self.packet(&segment))
            .expect("it is IP");
    }

    pub fn packet(&self, segment: &Segment) -> Vec<u8> {
        let (from, to) = self.ips();
        segment.write(MACS, from, to)[14..].to_vec()
    }

    pub fn inject_packet(&self, packet: &[u8]) -> Result<c_int, Errno> {
        call!(
            self.calls,
            netdev_send,
            packet.as_ptr().cast(),
            packet.len()
        )
    }

    /// The next segment that leaves, with its time in µs; `None` if there will be none.
    pub fn next(&mut self) -> Option<(i64, Segment)> {
        let mut frame = vec![0; 14 + 4096];
        let (mut len, mut time_us) = (4096, 0);
        let packet = frame[14..].as_mut_ptr().cast();
        let got = call!(
            self.calls,
            netdev_receive,
            packet,
            &raw mut len,
            &raw mut time_us
        );
        got.expect("it receives");
        if len == 0 {
            return None;
        }
        frame.truncate(14 + len);
        let kind = if frame[14] >> 4 == 4 {
            [8, 0]
        } else {
            [0x86, 0xdd]
        };
        frame[12..14].copy_from_slice(&kind);
        let segment = Segment::read(&frame).expect("a TCP segment");
        if segment.flags & flags("S") != 0 {
            self.isn = segment.seq;
        }
        Some((time_us, segment))
    }

    /// Checks that the next segment is this one; returns its time in µs.
    #[track_caller]
    pub fn expect(&mut self, kind: &str, seq: u32, ack: u32, data: &[u8]) -> i64 {
        let (time_us, found) = self.next().expect("a segment leaves");
        let acked = found.flags & flags(".") != 0;
        let found_ack = found.ack.wrapping_sub(PEER_ISN);
        assert_eq!(
            (
                flags_text(found.flags).as_str(),
                found.seq.wrapping_sub(self.isn),
                if acked { found_ack } else { 0 },
                found.data.as_slice()
            ),
            (kind, seq, ack, data)
        );
        time_us
    }

    /// Opens a socket that listens at our address.
    pub fn listener(&self, more: c_int) -> c_int {
        let file = self.calls.socket(self.us.is_ipv6(), more);
        let reuse = (libc::SOL_SOCKET, libc::SO_REUSEADDR);
        (self.calls)
            .set_option(file, reuse.0, reuse.1, 1)
            .expect("known");
        self.calls.bind(file, self.us).expect("free");
        call!(self.calls, listen, file, 1).expect("bound");
        file
    }

    /// Opens a connection from the peer to a listener; returns its file.
    pub fn open(&mut self, listener: c_int) -> c_int {
        self.inject("S", 0, 0, b"");
        self.expect("S.", 0, 1, b"");
        self.inject(".", 1, 1, b"");
        let (file, peer) = self.calls.accept(listener).expect("it waits");
        assert_eq!(peer, self.peer);
        file
    }

    /// Ends the script, as packetdrill does.
    pub fn free(self) {
        let table = self.calls.table;
        // SAFETY: nothing uses the table after this call.
        unsafe { table.free.expect("the table is full")(table.userdata) };
    }
}
