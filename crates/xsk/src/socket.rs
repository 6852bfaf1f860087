//! An AF_XDP socket on one queue of a device, with its own packet memory.

use crate::device::Device;
use crate::error::PortError;
use crate::memory::{Frame, Memory};
use crate::port::{Facts, Packet, Port, PortCounters};
use crate::ring::Ring;
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// linux/if_xdp.h: bytes of a frame that the kernel keeps free before a packet
/// (XDP_PACKET_HEADROOM, linux/bpf.h).
const KERNEL_HEADROOM_BYTES: u32 = 256;
/// An Ethernet header.
const ETHERNET_BYTES: u32 = 14;
/// A killed owner's socket keeps its queue for a moment.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);

/// How an AF_XDP socket is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Receive queue of the device; default 0.
    pub queue: u32,
    /// Entries of each ring, a power of two; default 2048.
    pub ring_entries: u32,
    /// Copy mode even where the driver could do without; default no.
    pub copy: bool,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            queue: 0,
            ring_entries: 2048,
            copy: false,
        }
    }
}

/// An AF_XDP socket. Packets are received into and sent from the frames of the [`Memory`] it was
/// opened with; every call must be given that one.
pub struct Socket {
    facts: Facts,
    receive: Ring<libc::xdp_desc>,
    transmit: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    // Closed after the rings are unmapped.
    socket: OwnedFd,
    frame_bytes: u32,
    /// Most frames that lie in the fill ring.
    fill_target: u32,
    is_zero_copy: bool,
    /// Packets queued, not yet shown to the kernel.
    queued: u32,
    /// Frames that the kernel has to send.
    unsent: u32,
    counters: PortCounters,
}

impl Socket {
    /// Opens and binds a socket, and lets `device` hand it the packets of its queue. Waits up
    /// to two seconds for a killed predecessor's queue.
    pub fn open(
        device: &Device,
        memory: &mut Memory,
        options: SocketOptions,
    ) -> Result<Socket, PortError> {
        let name = device.facts().name.as_str();
        let room_bytes = memory.frame_bytes() - KERNEL_HEADROOM_BYTES;
        if device.facts().mtu_bytes + ETHERNET_BYTES > room_bytes {
            return Err(PortError::Mtu {
                device: name.to_owned(),
                mtu_bytes: device.facts().mtu_bytes,
                room_bytes: room_bytes - ETHERNET_BYTES,
            });
        }
        let os = |what| move |e: io::Error| PortError::os(what, name, e);
        let patience = Instant::now() + BUSY_PATIENCE;
        let fd = loop {
            let fd = unbound(memory, options.ring_entries)
                .map_err(os("cannot make an AF_XDP socket"))?;
            let rings = map_rings(&fd, options.ring_entries).map_err(os("cannot map its rings"))?;
            match bind(&fd, device.index(), options) {
                Ok(()) => break (fd, rings),
                // Bound twice is refused: a new socket for each try.
                Err(Errno::EBUSY) if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(e) => return Err(os("cannot bind an AF_XDP socket")(e.into())),
            }
        };
        let (fd, (receive, transmit, fill, completion)) = fd;
        device.set_socket(options.queue, fd.as_fd())?;
        let mut flags = libc::xdp_options { flags: 0 };
        // A kernel that cannot tell has no zero-copy mode.
        let told = get_option(&fd, libc::XDP_OPTIONS, &mut flags).is_ok();
        let mut opened = Socket {
            facts: device.facts().clone(),
            receive,
            transmit,
            fill,
            completion,
            socket: fd,
            frame_bytes: memory.frame_bytes(),
            fill_target: options.ring_entries.min(memory.frames() / 2).max(1),
            is_zero_copy: told && flags.flags & libc::XDP_OPTIONS_ZEROCOPY != 0,
            queued: 0,
            unsent: 0,
            counters: PortCounters::default(),
        };
        opened.reclaim(memory);
        Ok(opened)
    }

    /// Whether the driver moves packets to and from the frames by itself.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Packets that the kernel had for this socket and lost: no free frame, a full ring, other.
    fn lost(&self) -> u64 {
        // SAFETY: all-zero integers are valid statistics.
        let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        match get_option(&self.socket, libc::XDP_STATISTICS, &mut statistics) {
            Ok(()) => {
                statistics.rx_dropped
                    + statistics.rx_ring_full
                    + statistics.rx_fill_ring_empty_descs
            }
            Err(_) => 0,
        }
    }

    fn wake(&mut self) -> io::Result<()> {
        self.counters.system_calls += 1;
        // SAFETY: nothing is sent from memory of ours: the packets are in the ring.
        let code = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if code >= 0 {
            return Ok(());
        }
        match Errno::last() {
            // More than one call's worth, or the completion ring is full: both pass.
            Errno::EAGAIN | Errno::EBUSY | Errno::ENOBUFS | Errno::EINTR => Ok(()),
            e => Err(e.into()),
        }
    }
}

impl Port for Socket {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn reclaim(&mut self, memory: &mut Memory) -> usize {
        let mut back = 0;
        while let Some(address) = self.completion.pop() {
            memory.give(Frame((address / u64::from(self.frame_bytes)) as u32));
            back += 1;
        }
        if back > 0 {
            self.completion.release();
            self.unsent -= (back as u32).min(self.unsent);
        }
        let missing = self.fill_target.saturating_sub(self.fill.outstanding());
        // A few at a time would cost the shared cache line more often than needed.
        if missing >= self.fill_target / 8 || missing == self.fill_target {
            let room = self.fill.room(missing);
            for _ in 0..room {
                let Some(frame) = memory.take() else { break };
                self.fill
                    .push(u64::from(frame.0) * u64::from(self.frame_bytes));
            }
            self.fill.submit();
        }
        back
    }

    fn receive(&mut self, memory: &mut Memory, packets: &mut [Packet]) -> usize {
        let mut got = 0;
        for slot in packets {
            let Some(descriptor) = self.receive.pop() else {
                break;
            };
            let frame_bytes = u64::from(memory.frame_bytes());
            *slot = Packet {
                frame: Frame((descriptor.addr / frame_bytes) as u32),
                start: (descriptor.addr % frame_bytes) as u32,
                len: descriptor.len,
            };
            got += 1;
        }
        if got > 0 {
            self.receive.release();
            self.counters.received_packets += got as u64;
        }
        got
    }

    fn pending(&self) -> u32 {
        self.receive.waiting()
    }

    fn transmit(&mut self, _memory: &mut Memory, packet: Packet) -> bool {
        if self.transmit.room(1) == 0 {
            self.counters.refused_packets += 1;
            return false;
        }
        self.transmit.push(libc::xdp_desc {
            addr: u64::from(packet.frame.0) * u64::from(self.frame_bytes) + u64::from(packet.start),
            len: packet.len,
            options: 0,
        });
        self.queued += 1;
        self.counters.sent_packets += 1;
        true
    }

    fn flush(&mut self, memory: &mut Memory) -> io::Result<()> {
        if self.queued > 0 {
            self.transmit.submit();
            self.unsent += self.queued;
            self.queued = 0;
        }
        // Copy mode sends at most 32 packets a call; a full completion ring must be emptied.
        let mut tries = 1 + self.transmit.outstanding() / 16;
        while self.transmit.outstanding() > 0 && self.transmit.needs_wakeup() && tries > 0 {
            self.wake()?;
            if self.transmit.outstanding() > 0 {
                self.reclaim(memory);
            }
            tries -= 1;
        }
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            lost_packets: self.lost(),
            ..self.counters
        }
    }
}

type Rings = (
    Ring<libc::xdp_desc>,
    Ring<libc::xdp_desc>,
    Ring<u64>,
    Ring<u64>,
);

/// A socket with the packet memory registered and rings of `entries`.
fn unbound(memory: &Memory, entries: u32) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor, touches no memory.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    Errno::result(fd)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let map = memory.mapping();
    // SAFETY: all-zero integers are a valid registration; the fields that matter follow.
    let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    registration.addr = map.base().as_ptr() as u64;
    registration.len = memory.frames_len_bytes();
    registration.chunk_size = memory.frame_bytes();
    set_option(&fd, libc::XDP_UMEM_REG, &registration)?;
    for ring in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        set_option(&fd, ring, &entries)?;
    }
    Ok(fd)
}

fn map_rings(fd: &OwnedFd, entries: u32) -> io::Result<Rings> {
    // SAFETY: all-zero integers are valid offsets.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get_option(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    let fd = fd.as_fd();
    Ok((
        Ring::map(fd, libc::XDP_PGOFF_RX_RING, offsets.rx, entries)?,
        Ring::map(fd, libc::XDP_PGOFF_TX_RING, offsets.tx, entries)?,
        Ring::map(
            fd,
            libc::XDP_UMEM_PGOFF_FILL_RING.cast_signed(),
            offsets.fr,
            entries,
        )?,
        Ring::map(
            fd,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING.cast_signed(),
            offsets.cr,
            entries,
        )?,
    ))
}

/// Binds; zero-copy where the driver has it, unless told otherwise.
fn bind(fd: &OwnedFd, index: u32, options: SocketOptions) -> Result<(), Errno> {
    let copy = if options.copy { libc::XDP_COPY } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy,
        sxdp_ifindex: index,
        sxdp_queue_id: options.queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: the address is a sockaddr_xdp of the length told.
    let code = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as u32,
        )
    };
    Errno::result(code).map(drop)
}

fn set_option<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is a plain struct or integer of the length told.
    let code = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    Ok(Errno::result(code).map(drop)?)
}

fn get_option<T>(fd: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: the kernel writes at most `len` bytes of integers to `value`.
    let code = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_mut(value).cast(),
            &raw mut len,
        )
    };
    Errno::result(code)?;
    if len as usize != size_of::<T>() {
        return Err(io::Error::other("this kernel's AF_XDP is older than 5.4"));
    }
    Ok(())
}
