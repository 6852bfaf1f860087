//! The packet socket: opened in the container's network namespace, with a filter in the kernel.

use crate::SNAP_BYTES;
use cofferdam_host::inside::devices;
use nix::errno::Errno;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Packets of one system call.
const BATCH: usize = 64;
/// Size of the socket's buffer, bytes. Large merged packets count in full.
const BUFFER_BYTES: libc::c_int = 16 << 20;
/// Size of one struct tpacket_auxdata with its header, in words of its alignment.
const CONTROL_WORDS: usize = 8;
/// linux/if_packet.h; absent from the libc crate.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_VNET_HDR: libc::c_int = 15;
/// linux/filter.h: ancillary loads.
const AD_OFFSET: i32 = -0x1000;
const AD_VLAN_TAG_PRESENT: i32 = AD_OFFSET + 48;
const AD_RANDOM: i32 = AD_OFFSET + 56;

/// One packet of the sample.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPacket<'a> {
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Length of the packet, bytes.
    pub length: usize,
    /// Whether it begins with an Ethernet header.
    pub ethernet: bool,
    /// Index of the device that received it.
    pub device: u32,
}

/// Packet socket for the packets that the namespace receives on every device. Closing it leaves
/// nothing.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    /// Whether the namespace has VLAN devices.
    vlans: bool,
    buffers: Vec<[u8; SNAP_BYTES]>,
}

impl PacketSocket {
    /// Opens it in the calling thread's namespace. It captures no packet until
    /// [`PacketSocket::sample_one_in`].
    pub fn open() -> io::Result<PacketSocket> {
        // SAFETY: plain values; the returned descriptor has no other owner.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(Errno::result(libc::socket(libc::AF_PACKET, kind, 0))?)
        };
        let opened = PacketSocket {
            socket,
            vlans: devices()?.iter().any(|device| device.kind == "vlan"),
            buffers: vec![[0; SNAP_BYTES]; BATCH],
        };
        opened.set(libc::SOL_PACKET, PACKET_VNET_HDR, &1_i32)?;
        opened.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)?;
        // Linux before 4.20 lacks the option: then the container's own packets are sampled too.
        opened.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
        opened.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_BYTES)?;
        opened.sample_none()?;
        // SAFETY: every field of the address may be 0; its length is passed.
        let bound = unsafe {
            let mut address: libc::sockaddr_ll = zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            libc::bind(
                opened.socket.as_raw_fd(),
                (&raw const address).cast(),
                length,
            )
        };
        Errno::result(bound)?;
        Ok(opened)
    }

    /// Keeps one packet in `one_in`, at random, cut to its headers. With VLAN devices, a frame with
    /// a tag is left out: the kernel passes it on to one of them, where it is seen again.
    pub fn sample_one_in(&self, one_in: u32) -> io::Result<()> {
        let load = |offset: i32| op(0x20, 0, 0, offset.cast_unsigned());
        let drop_unless_below = u32::MAX / one_in.max(1);
        self.filter(&mut [
            load(AD_VLAN_TAG_PRESENT),
            // jgt #k, drop, next
            op(0x25, 3, 0, if self.vlans { 0 } else { u32::MAX }),
            load(AD_RANDOM),
            // jgt #k, drop, next
            op(0x25, 1, 0, drop_unless_below),
            op(0x06, 0, 0, (SNAP_BYTES - 10) as u32),
            op(0x06, 0, 0, 0),
        ])
    }

    /// Keeps no packet.
    pub fn sample_none(&self) -> io::Result<()> {
        self.filter(&mut [op(0x06, 0, 0, 0)])
    }

    /// Passes every waiting packet to `take`, with at most `most` system calls.
    pub fn read(
        &mut self,
        most: usize,
        mut take: impl FnMut(&CapturedPacket<'_>),
    ) -> io::Result<()> {
        for _ in 0..most {
            let received = self.receive(&mut take)?;
            if received < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Returns the packets since the last call that were lost because the buffer was full.
    pub fn lost(&self) -> io::Result<u64> {
        // SAFETY: the structure is plain integers, and its length is passed.
        let (code, stats) = unsafe {
            let mut stats: libc::tpacket_stats = zeroed();
            let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
            let code = libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            );
            (code, stats)
        };
        Errno::result(code)?;
        Ok(u64::from(stats.tp_drops))
    }

    fn receive(&mut self, take: &mut impl FnMut(&CapturedPacket<'_>)) -> io::Result<usize> {
        // SAFETY: all of these structures may be all zero.
        let (mut names, mut headers): ([libc::sockaddr_ll; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        let mut parts: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
            iov_base: self.buffers[i].as_mut_ptr().cast(),
            iov_len: SNAP_BYTES,
        });
        let mut controls = [[0_u64; CONTROL_WORDS]; BATCH];
        for (i, header) in headers.iter_mut().enumerate() {
            header.msg_hdr.msg_control = controls[i].as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(&controls[i]) as _;
            header.msg_hdr.msg_name = (&raw mut names[i]).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_hdr.msg_iov = &raw mut parts[i];
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the pointers in the headers refer to names, parts, controls and buffers. These
        // outlive the call, and have the lengths that the headers state.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = match Errno::result(count) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
            // A device went down: the packets of the others continue.
            Err(Errno::ENETDOWN) => return Ok(0),
            Err(errno) => return Err(errno.into()),
        };
        for i in 0..count {
            let captured = (headers[i].msg_len as usize).min(SNAP_BYTES);
            // SAFETY: the kernel has filled in this header and its control data.
            let length = unsafe { own_length(&headers[i].msg_hdr) }.unwrap_or(captured);
            let ethernet = matches!(
                names[i].sll_hatype,
                libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK
            );
            take(&CapturedPacket {
                bytes: &self.buffers[i][..captured],
                length,
                ethernet,
                device: u32::try_from(names[i].sll_ifindex).unwrap_or(0),
            });
        }
        Ok(count)
    }

    fn filter(&self, program: &mut [libc::sock_filter]) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: `value` is readable for the given length. The program that a filter points to
        // lives as long as the caller's borrow.
        let code = unsafe {
            let length = size_of_val(value) as libc::socklen_t;
            let value = (&raw const *value).cast();
            libc::setsockopt(self.socket.as_raw_fd(), level, option, value, length)
        };
        Errno::result(code)?;
        Ok(())
    }
}

/// Returns the packet's length before it was cut, from the link header on (struct tpacket_auxdata).
///
/// # Safety
/// `header` and its control data must be as recvmsg left them.
unsafe fn own_length(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: by this function's own condition. The data are read only if their header has this
    // kind and this length.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header).as_ref()?;
        let is_aux =
            (control.cmsg_level, control.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA);
        let length = libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32);
        if !is_aux || (control.cmsg_len as usize) < length as usize {
            return None;
        }
        let aux: libc::tpacket_auxdata = libc::CMSG_DATA(control)
            .cast::<libc::tpacket_auxdata>()
            .read_unaligned();
        Some(aux.tp_len as usize)
    }
}

fn op(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}
