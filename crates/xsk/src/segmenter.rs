//! Large outgoing packets, which the device cuts into segments, or the kernel if the device cannot.
//! They use a packet socket, because AF_XDP has no segmentation offload.
//!
//! The payload is copied once, from its place into the kernel's buffer. AF_XDP without zero-copy
//! copies each segment into a frame and again into the kernel's buffer.

use crate::error::PortError;
use crate::socket::set_option;
use crate::tuning::{MOST_LARGE_PARTS, SEGMENTER_SEND_BYTES};
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Headers of a large packet, and its segment size.
#[derive(Clone, Copy, Debug)]
pub struct Large<'a> {
    /// Headers from Ethernet to TCP. The checksum field has the sum of the pseudo header.
    pub header: &'a [u8],
    /// Offset of the TCP header.
    pub tcp_start: u16,
    /// Whether the packet is IPv4; otherwise it is IPv6.
    pub is_v4: bool,
    /// Payload of each segment except the last.
    pub segment_bytes: u16,
    /// Whether the packet has more than one segment. Otherwise it is sent as it is.
    pub is_cut: bool,
}

/// A sending packet socket on one device. Its packets pass the device's queueing discipline, unlike
/// those of AF_XDP. veth has none.
#[derive(Debug)]
pub(crate) struct Segmenter {
    socket: OwnedFd,
}

/// struct virtio_net_hdr of linux/virtio_net.h, in the machine's byte order (packet(7),
/// PACKET_VNET_HDR).
#[repr(C)]
struct VirtioNetHeader {
    flags: u8,
    gso_type: u8,
    header_len: u16,
    gso_size: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// Flag of linux/virtio_net.h.
const NEEDS_CHECKSUM: u8 = 1;
/// Segmentation type of linux/virtio_net.h.
const GSO_TCP_V4: u8 = 1;
/// Segmentation type of linux/virtio_net.h.
const GSO_TCP_V6: u8 = 4;
/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM_AT: u16 = 16;
/// Option of linux/if_packet.h.
const PACKET_VNET_HDR: libc::c_int = 15;
/// Ranges of one packet with its headers, at most.
const MOST_RANGES: usize = MOST_LARGE_PARTS + 2;

impl Segmenter {
    /// Opens a socket on the device with this index, in the calling thread's network namespace.
    pub fn open(index: u32, name: &str) -> Result<Segmenter, PortError> {
        let os = |what| move |e: io::Error| PortError::os(what, name, e);
        // Protocol 0: the socket receives nothing.
        // SAFETY: makes a descriptor, touches no memory.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        let socket = Errno::result(fd).map_err(io::Error::from);
        socket.map_err(os("cannot create a packet socket"))?;
        // SAFETY: the kernel has just made this descriptor for us.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &1_i32)
            .map_err(os("cannot set up segmentation on a packet socket"))?;
        // Only CAP_NET_ADMIN, which XDP needs as well, may exceed the host's limit.
        let (level, option) = (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE);
        set_option(&socket, level, option, &SEGMENTER_SEND_BYTES)
            .map_err(os("cannot set the buffer of a packet socket"))?;
        // SAFETY: an all-zero sockaddr_ll is valid: it is made of integers.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index.cast_signed();
        // SAFETY: the address is a sockaddr_ll of the given length.
        let code = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        let bound = Errno::result(code).map_err(io::Error::from);
        bound.map_err(os("cannot bind a packet socket"))?;
        Ok(Segmenter { socket })
    }

    /// Sends a packet of headers and `parts`, at most [`MOST_LARGE_PARTS`]. Never blocks, and never
    /// allocates in this process.
    ///
    /// # Errors
    /// An error of the kernel: the device is down, or its queue is full. The packet is lost.
    ///
    /// # Safety
    /// `parts` name memory that is mapped and readable until this returns. It may change meanwhile.
    pub unsafe fn send(&self, large: &Large<'_>, parts: &[libc::iovec]) -> io::Result<()> {
        let gso_type = match large.is_v4 {
            _ if !large.is_cut => 0,
            true => GSO_TCP_V4,
            false => GSO_TCP_V6,
        };
        let mut first = VirtioNetHeader {
            flags: NEEDS_CHECKSUM,
            gso_type,
            header_len: large.header.len() as u16,
            gso_size: if large.is_cut { large.segment_bytes } else { 0 },
            checksum_start: large.tcp_start,
            checksum_offset: TCP_CHECKSUM_AT,
        };
        let none = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut ranges = [none; MOST_RANGES];
        ranges[0] = libc::iovec {
            iov_base: (&raw mut first).cast(),
            iov_len: size_of::<VirtioNetHeader>(),
        };
        ranges[1] = libc::iovec {
            iov_base: large.header.as_ptr().cast_mut().cast(),
            iov_len: large.header.len(),
        };
        let Some(rest) = ranges.get_mut(2..2 + parts.len()) else {
            return Err(Errno::EMSGSIZE.into());
        };
        rest.copy_from_slice(parts);
        // SAFETY: an all-zero msghdr is valid; what matters follows.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = ranges.as_mut_ptr();
        message.msg_iovlen = 2 + parts.len();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the first two ranges lie in this frame and in `large`, the others are readable by
        // the caller's promise; sendmsg only reads them.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, flags) };
        Ok(Errno::result(sent).map(drop)?)
    }
}
