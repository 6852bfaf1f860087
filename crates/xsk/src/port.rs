//! The interface between a dataplane and a device.

use crate::error::PortError;
use crate::memory::Memory;
use crate::packet::Packet;
use crate::segmenter::Large;
use crate::tuning::MOST_LARGE_PARTS;
use std::io;
use std::os::fd::BorrowedFd;

/// Facts of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Name of the device, as in `ip link`.
    pub name: String,
    /// Hardware address.
    pub mac: [u8; 6],
    /// Bytes of the largest IP packet.
    pub mtu_bytes: u32,
    /// Index in its network namespace; 0 for a port without a device of the kernel.
    pub index: u32,
}

/// State of a device's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Up.
    Up,
    /// The device is down: no packet comes or goes until it is up again.
    Down,
    /// The device was removed, or moved to another network namespace. No packet will come.
    Gone,
}

/// State of the device with this index, in the calling thread's network namespace.
///
/// Names are not used, because another device may have the name by now.
pub fn link_state(index: u32) -> LinkState {
    let Ok(name) = nix::net::if_::if_indextoname(index) else {
        return LinkState::Gone;
    };
    let name = name.to_string_lossy();
    match request(&name, libc::SIOCGIFFLAGS, "cannot read the flags") {
        // SAFETY: SIOCGIFFLAGS fills ifru_flags.
        Ok(answer) => match unsafe { answer.ifr_ifru.ifru_flags } & libc::IFF_UP as i16 {
            0 => LinkState::Down,
            _ => LinkState::Up,
        },
        Err(_) => LinkState::Gone,
    }
}

/// Makes a request about a device to the kernel.
fn request(name: &str, request: libc::Ioctl, what: &'static str) -> Result<libc::ifreq, PortError> {
    // SAFETY: an all-zero ifreq is valid: it is made of integers and arrays of them.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq
        .ifr_name
        .iter_mut()
        .zip(name.bytes().take(libc::IFNAMSIZ - 1))
    {
        *to = from.cast_signed();
    }
    let socket = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Datagram,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    );
    let socket = socket.map_err(|e| PortError::os(what, name, e.into()))?;
    // SAFETY: the requests made here read the name from, and write their answer to, one ifreq.
    let code = unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            request,
            &raw mut ifreq,
        )
    };
    if code < 0 {
        return Err(PortError::os(what, name, io::Error::last_os_error()));
    }
    Ok(ifreq)
}

/// Counts of a port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets that `receive` returned.
    pub received_packets: u64,
    /// Packets that `transmit` accepted.
    pub sent_packets: u64,
    /// Packets that `transmit` refused because the ring was full.
    pub refused_packets: u64,
    /// Packets lost before they reached the port, by the device's count: no free frame, a full
    /// ring, too long.
    pub lost_packets: u64,
    /// Packets sent that the device or the kernel was to cut into segments.
    pub large_packets: u64,
    /// System calls made to send or to receive packets.
    pub system_calls: u64,
}

impl PortCounters {
    /// Sum of the counts of two ports.
    #[must_use]
    pub fn with(&self, other: &PortCounters) -> PortCounters {
        PortCounters {
            received_packets: self.received_packets + other.received_packets,
            sent_packets: self.sent_packets + other.sent_packets,
            refused_packets: self.refused_packets + other.refused_packets,
            lost_packets: self.lost_packets + other.lost_packets,
            large_packets: self.large_packets + other.large_packets,
            system_calls: self.system_calls + other.system_calls,
        }
    }
}

/// A device that sends and receives packets. One thread drives it.
///
/// No method allocates, and none blocks.
pub trait Port {
    /// Ranges of payload in one large packet, at most.
    const MOST_LARGE_PARTS: usize = MOST_LARGE_PARTS;

    /// Facts of the port.
    fn facts(&self) -> &Facts;

    /// Takes the frames of sent packets from the device, and passes free frames to it for
    /// receiving. Returns the number of frames that it took.
    fn reclaim(&mut self, memory: &mut Memory) -> usize;

    /// Takes at most `packets.len()` received packets. The caller owns their frames.
    fn receive(&mut self, memory: &mut Memory, packets: &mut [Packet]) -> usize;

    /// Number of pending packets, as far as known without a system call; at most the size of a
    /// ring.
    fn pending(&self) -> u32;

    /// Queues `packet`. The port owns the frame. Returns false if the ring is full; the caller then
    /// keeps the frame.
    fn transmit(&mut self, memory: &mut Memory, packet: Packet) -> bool;

    /// Sends the queued packets, usually with one system call.
    ///
    /// # Errors
    /// The device is gone or down. The packets stay queued.
    fn flush(&mut self, memory: &mut Memory) -> io::Result<()>;

    /// Whether [`Port::transmit_large`] works.
    fn sends_large(&self) -> bool {
        false
    }

    /// Sends a packet of one or several TCP segments at once, behind the queued packets. It
    /// consists of its headers and of `parts`, at most [`Port::MOST_LARGE_PARTS`].
    ///
    /// # Errors
    /// The device is down, its queue is full, or the port does not support it. The packet is lost.
    ///
    /// # Safety
    /// `parts` name memory that is mapped and readable until this returns. It may change meanwhile.
    unsafe fn transmit_large(
        &mut self,
        _memory: &mut Memory,
        _large: &Large<'_>,
        _parts: &[libc::iovec],
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Descriptor that becomes readable when packets are pending.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Counts since the port was opened.
    fn counters(&self) -> PortCounters;
}

/// Reads a device's hardware address and MTU in the calling thread's network namespace.
pub(crate) fn facts(name: &str) -> Result<Facts, PortError> {
    let index =
        nix::net::if_::if_nametoindex(name).map_err(|_| PortError::NoDevice(name.to_owned()))?;
    let mac = request(
        name,
        libc::SIOCGIFHWADDR,
        "cannot read the hardware address",
    )?;
    let mtu = request(name, libc::SIOCGIFMTU, "cannot read the MTU")?;
    // SAFETY: SIOCGIFHWADDR fills ifru_hwaddr, SIOCGIFMTU ifru_mtu.
    let (mac, mtu) = unsafe { (mac.ifr_ifru.ifru_hwaddr.sa_data, mtu.ifr_ifru.ifru_mtu) };
    let mut octets = [0; 6];
    for (to, from) in octets.iter_mut().zip(mac) {
        *to = from.cast_unsigned();
    }
    Ok(Facts {
        name: name.to_owned(),
        mac: octets,
        mtu_bytes: mtu.max(0).cast_unsigned(),
        index,
    })
}
