//! What a dataplane needs of a device.

use crate::error::PortError;
use crate::memory::Memory;
use crate::packet::Packet;
use crate::segmenter::Large;
use crate::tuning::MOST_LARGE_PARTS;
use std::io;
use std::os::fd::BorrowedFd;

/// What a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Device, as `ip link` names it.
    pub name: String,
    /// Hardware address.
    pub mac: [u8; 6],
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// Index in its network namespace; 0 for what is no device of the kernel's.
    pub index: u32,
}

/// How a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Up.
    Up,
    /// Set down: nothing comes and goes until it is up again.
    Down,
    /// Removed, or moved to another network namespace: nothing will come any more.
    Gone,
}

/// How the device of this index is, in the calling thread's network namespace.
///
/// By index, not by name: another device may have the name by now.
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

/// Asks the kernel one thing about a device.
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

/// What a port has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets handed out by `receive`.
    pub received_packets: u64,
    /// Packets taken by `transmit`.
    pub sent_packets: u64,
    /// Packets that `transmit` refused: the ring was full.
    pub refused_packets: u64,
    /// Packets lost before they reached us, as the device counts them: no free frame, a full
    /// ring, too long.
    pub lost_packets: u64,
    /// Of the packets sent, those that were to be cut into segments by the device or the kernel.
    pub large_packets: u64,
    /// System calls made to send or to be given packets.
    pub system_calls: u64,
}

impl PortCounters {
    /// What two ports have done together.
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

/// A device that packets come from and go to. One thread drives it.
///
/// Nothing here blocks but what the descriptor is waited for, and nothing allocates.
pub trait Port {
    /// Ranges of payload that one large packet is gathered from at most.
    const MOST_LARGE_PARTS: usize = MOST_LARGE_PARTS;

    /// What it is.
    fn facts(&self) -> &Facts;

    /// Takes back the frames of packets that are sent, and gives free frames to the device to
    /// receive into. Returns how many came back.
    fn reclaim(&mut self, memory: &mut Memory) -> usize;

    /// Takes at most `packets.len()` received packets; the frames are the caller's now.
    fn receive(&mut self, memory: &mut Memory, packets: &mut [Packet]) -> usize;

    /// Packets that wait to be received, as far as is known without asking the kernel; at most
    /// what a ring holds.
    fn pending(&self) -> u32;

    /// Queues `packet`. The frame is the port's now. False when the ring is full: then the
    /// frame is still the caller's.
    fn transmit(&mut self, memory: &mut Memory, packet: Packet) -> bool;

    /// Sends what was queued: one system call for all, as a rule.
    ///
    /// # Errors
    /// The device is gone or down; what was queued stays queued.
    fn flush(&mut self, memory: &mut Memory) -> io::Result<()>;

    /// Whether [`Port::transmit_large`] works.
    fn sends_large(&self) -> bool {
        false
    }

    /// Sends a packet of one or several TCP segments, behind what was queued and at once: its
    /// headers, then `parts`, at most [`Port::MOST_LARGE_PARTS`].
    ///
    /// # Errors
    /// The device is down, or its queue is full, or this port cannot: the packet is lost.
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

    /// Becomes readable when packets wait.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// What it has done.
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
