//! UDP socket: the library's end of the pair, the kernel socket, and the addresses.

use crate::control;
use crate::heading::Heading;
use crate::internal::Internal;
use crate::udp::Udp;
use crate::{real, unix};
use cofferdam_bsd::{Result, parse_address};
use cofferdam_dataplane::BoundAddress;
use nix::errno::Errno;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// Number of senders that a socket remembers.
const MOST_HEARD: usize = 64;

/// Sharing of a socket's address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reuse {
    pub address: bool,
    pub port: bool,
}

/// UDP socket of the program.
pub struct Socket {
    /// Library's end of the pair.
    pub end: Internal,
    /// Inode of the program's end.
    pub inode: u64,
    /// State that calls of the program see.
    pub shown: Arc<Udp>,
    /// Kernel socket that the pair has replaced. It stores the options, and sends and receives what
    /// is not the dataplane's.
    pub kernel: Internal,
    /// Whether it also receives from the kernel socket.
    pub hears_kernel: bool,
    pub is_v6: bool,
    pub reuse: Reuse,
    /// Addresses at the dataplane.
    pub places: Vec<(BoundAddress, SocketAddr)>,
    /// Senders last heard through the kernel, by a hash of the address: the answer goes the same
    /// way.
    pub heard: Vec<Option<SocketAddr>>,
    /// Whether the program has put datagrams into the pair, which precede later ones.
    pub has_spilled: bool,
}

/// Offset of the scope in an IPv6 address.
const SCOPE: usize = std::mem::offset_of!(libc::sockaddr_in6, sin6_scope_id);

fn slot(remote: SocketAddr) -> usize {
    let mut hash = DefaultHasher::new();
    remote.hash(&mut hash);
    hash.finish() as usize % MOST_HEARD
}

impl Socket {
    /// Sends a datagram to the program; one without space is dropped. Returns `false` if the
    /// program has closed the socket.
    pub fn deliver(&self, heading: &Heading, data: &[u8]) -> bool {
        let heading = heading.encode();
        let parts = [IoSlice::new(&heading), IoSlice::new(data)];
        match unix::send_parts(self.end.as_fd(), &parts) {
            Ok(_) => true,
            // The program may also have shut down the socket for reading.
            Err(Errno::EPIPE | Errno::ECONNRESET) => !unix::is_closed(self.end.as_fd()),
            Err(_) => {
                self.shown.drop_one();
                true
            }
        }
    }

    /// Whether the sender was last heard through the kernel.
    pub fn uses_kernel(&self, remote: SocketAddr) -> bool {
        self.heard.get(slot(remote)) == Some(&Some(remote))
    }

    /// Records a datagram of this sender.
    pub fn record_datagram(&mut self, remote: SocketAddr, is_kernels: bool) {
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

    /// Address at the dataplane for datagrams to `remote`.
    pub fn address_for(&self, remote: IpAddr, source: Option<IpAddr>) -> Option<BoundAddress> {
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

    /// Receives the next datagram of the kernel socket.
    pub fn next_of_kernel(&self, buffer: &mut [u8]) -> Result<(Heading, usize)> {
        let mut storage = [0_u64; 16];
        let mut controls = [0_u64; 32];
        let mut part = IoSliceMut::new(buffer);
        // SAFETY: all zeros are a valid value.
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
        // SAFETY: the kernel has filled both buffers.
        let (name, info) = unsafe {
            let name = storage.as_ptr().cast::<u8>();
            let len = (message.msg_namelen as usize).min(size_of_val(&storage));
            let name = std::slice::from_raw_parts(name, len);
            (name, control::read(&message).unwrap_or_default())
        };
        let remote = parse_address(name)?;
        let local = info.local.unwrap_or(crate::calls::any(self.is_v6));
        let heading = Heading {
            remote,
            local,
            interface: info.interface,
            scope: match name.get(SCOPE..).and_then(|rest| rest.first_chunk()) {
                Some(scope) if remote.is_ipv6() => u32::from_ne_bytes(*scope),
                _ => 0,
            },
            error: 0,
        };
        Ok((heading, got))
    }
}
