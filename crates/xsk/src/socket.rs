//! AF_XDP sockets on one queue of a device. The packet memory is the socket's own, or shared with
//! the sockets of other queues and threads (XDP_SHARED_UMEM).

mod setup;

pub use setup::SocketOptions;

use crate::device::Device;
use crate::error::PortError;
use crate::memory::{ETHERNET_BYTES, KERNEL_HEADROOM_BYTES, Memory};
use crate::packet::{Frame, Packet};
use crate::port::{Facts, Port, PortCounters};
use crate::ring::Ring;
use crate::segmenter::{Large, Segmenter};
use crate::tuning::{BUSY_LOOK, BUSY_PATIENCE, MOST_PARTS};
use nix::errno::Errno;
pub(crate) use setup::set_option;
use setup::{Frames, bind, get_option, map_rings, unbound};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// An AF_XDP socket. Its packets lie in the frames of the [`Memory`] that it was opened with. Every
/// call takes that memory.
pub struct Socket {
    facts: Facts,
    receive: Ring<libc::xdp_desc>,
    transmit: Ring<libc::xdp_desc>,
    /// Rings of frames to and from the kernel; `None` if another socket of the same queue has them.
    frames: Option<(Ring<u64>, Ring<u64>)>,
    // Closed after the rings are unmapped.
    socket: OwnedFd,
    queue: u32,
    frame_bytes: u32,
    /// Frames in the fill ring, at most.
    fill_target: u32,
    /// Packets queued and not published to the kernel.
    queued: u32,
    counters: PortCounters,
    /// Socket for large packets; `None` if they are not wanted, or the kernel has no packet
    /// sockets.
    segmenter: Option<Segmenter>,
    /// A packet in several frames that is not complete.
    parts: Option<Parts>,
}

/// A packet that is being assembled: its span, `None` if none was free or the packet does not fit,
/// and the number of bytes so far.
#[derive(Clone, Copy, Debug)]
struct Parts {
    span: Option<Frame>,
    len: u32,
}

impl Socket {
    /// Opens and binds a socket, and makes `device` pass it the packets of its queue. Waits up to
    /// two seconds for the queue of a killed predecessor.
    pub fn open(
        device: &Device,
        memory: &mut Memory,
        options: SocketOptions,
    ) -> Result<Socket, PortError> {
        let most = match memory.spans() {
            0 => memory.frame_bytes() - KERNEL_HEADROOM_BYTES,
            _ => memory.frame_bytes() * MOST_PARTS,
        };
        if device.facts().mtu_bytes + ETHERNET_BYTES > most {
            return Err(too_large(device, most));
        }
        let target = Self::target(memory, options);
        let mut opened = Self::bound(device, &Frames::Registered(memory), options, target)?;
        opened.reclaim(memory);
        Ok(opened)
    }

    /// Opens a socket for another thread or another device, over the packet memory of `first`;
    /// `part` is the thread's part of it. On another queue or device it receives and sends by
    /// itself. On the queue of `first` it only sends: received packets and sent frames arrive at
    /// `first`.
    pub fn open_beside(
        first: &Socket,
        device: &Device,
        part: &mut Memory,
        options: SocketOptions,
    ) -> Result<Socket, PortError> {
        // The first thread has the spans, and a socket that shares memory takes no packets in
        // parts.
        if !Memory::fits(device.facts().mtu_bytes, part.frame_bytes()) {
            return Err(PortError::MtuOfSeveral {
                device: device.facts().name.clone(),
                mtu_bytes: device.facts().mtu_bytes,
                room_bytes: part.frame_bytes() - KERNEL_HEADROOM_BYTES - ETHERNET_BYTES,
            });
        }
        let is_same_device = device.facts().index == first.facts.index;
        let frames = Frames::Shared {
            with: first.socket.as_fd(),
            has_rings: !is_same_device || options.queue != first.queue,
        };
        let target = Self::target(part, options);
        let mut opened = Self::bound(device, &frames, options, target)?;
        opened.reclaim(part);
        Ok(opened)
    }

    /// Number of frames in the fill ring, at most, and size of a frame.
    fn target(memory: &Memory, options: SocketOptions) -> (u32, u32) {
        let most = options.ring_entries.min(memory.own_frames() / 2);
        (most.max(1), memory.frame_bytes())
    }

    fn bound(
        device: &Device,
        frames: &Frames<'_>,
        options: SocketOptions,
        (fill_target, frame_bytes): (u32, u32),
    ) -> Result<Socket, PortError> {
        let name = device.facts().name.as_str();
        let os = |what| move |e: io::Error| PortError::os(what, name, e);
        let patience = Instant::now() + BUSY_PATIENCE;
        let in_parts = !Memory::fits(device.facts().mtu_bytes, frame_bytes);
        let (fd, rings) = loop {
            let fd = unbound(frames, options.ring_entries)
                .map_err(os("cannot create an AF_XDP socket"))?;
            let rings = map_rings(&fd, frames.has_rings(), options.ring_entries);
            let rings = rings.map_err(os("cannot map its rings"))?;
            match bind(&fd, device.index(), frames, options, in_parts) {
                Ok(()) => break (fd, rings),
                // The kernel refuses to bind a socket twice, so that each attempt needs a new one.
                Err(Errno::EBUSY) if Instant::now() < patience => {
                    std::thread::sleep(BUSY_LOOK);
                }
                Err(Errno::EINVAL) if options.queue > 0 => {
                    return Err(PortError::NoQueue {
                        device: name.to_owned(),
                        queue: options.queue,
                    });
                }
                // The kernel is older than 6.6.
                Err(Errno::EINVAL) if in_parts => {
                    return Err(too_large(device, frame_bytes - KERNEL_HEADROOM_BYTES));
                }
                Err(e) => return Err(os("cannot bind an AF_XDP socket")(e.into())),
            }
        };
        if frames.has_rings() {
            device.set_socket(options.queue, fd.as_fd())?;
        }
        let segmenter = match options.segmentation {
            false => None,
            true => match Segmenter::open(device.index(), name) {
                Err(PortError::Unsupported { .. }) => None,
                opened => Some(opened?),
            },
        };
        Ok(Socket {
            facts: device.facts().clone(),
            receive: rings.receive,
            transmit: rings.transmit,
            frames: rings.frames,
            socket: fd,
            queue: options.queue,
            frame_bytes,
            fill_target,
            queued: 0,
            counters: PortCounters::default(),
            segmenter,
            parts: None,
        })
    }

    /// Queue that the socket is bound to.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Packets that the kernel lost for this socket: no free frame, a full ring, other reasons. The
    /// kernel's count of empty fill rings is left out, because the packets dropped for it are
    /// counted too.
    fn lost(&self) -> u64 {
        // SAFETY: all-zero integers are valid statistics.
        let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        match get_option(&self.socket, libc::XDP_STATISTICS, &mut statistics) {
            Ok(()) => statistics.rx_dropped + statistics.rx_ring_full,
            Err(_) => 0,
        }
    }

    /// Takes the next frame of a packet in several frames. Returns the whole packet, in a span,
    /// with the last one.
    fn gather(&mut self, memory: &mut Memory, part: Packet, more: bool) -> Option<Packet> {
        let mut parts = self.parts.take().unwrap_or_else(|| Parts {
            span: memory.take_span(),
            len: 0,
        });
        if let Some(span) = parts.span {
            let from = (part.frame, part.start as usize);
            if memory.copy(from, (span, parts.len as usize), part.len as usize) {
                parts.len += part.len;
            } else {
                memory.give(span);
                parts.span = None;
            }
        }
        memory.give(part.frame);
        if more {
            self.parts = Some(parts);
            return None;
        }
        // No span was free, or the packet is larger than a span.
        self.counters.lost_packets += u64::from(parts.span.is_none());
        parts.span.map(|frame| Packet {
            frame,
            start: 0,
            len: parts.len,
        })
    }

    /// Queues a packet that lies in a span, in as many frames as it needs.
    fn transmit_in_parts(&mut self, memory: &mut Memory, packet: Packet) -> bool {
        let count = packet.len.div_ceil(self.frame_bytes).max(1);
        if self.transmit.room(count) < count || memory.available() < count {
            self.counters.refused_packets += 1;
            return false;
        }
        let mut start = 0;
        while start < packet.len {
            let len = (packet.len - start).min(self.frame_bytes);
            let Some(frame) = memory.take() else { break };
            let from = (packet.frame, (packet.start + start) as usize);
            memory.copy(from, (frame, 0), len as usize);
            start += len;
            let more = start < packet.len;
            self.transmit.push(libc::xdp_desc {
                addr: u64::from(frame.0) * u64::from(self.frame_bytes),
                len,
                options: if more { libc::XDP_PKT_CONTD } else { 0 },
            });
        }
        memory.give(packet.frame);
        self.queued += count;
        self.counters.sent_packets += 1;
        true
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
            // The packets need another call, or the completion ring is full. Both pass.
            Errno::EAGAIN | Errno::EBUSY | Errno::ENOBUFS | Errno::EINTR => Ok(()),
            e => Err(e.into()),
        }
    }
}

/// Error for a device whose packets do not fit in `most` bytes.
fn too_large(device: &Device, most: u32) -> PortError {
    PortError::Mtu {
        device: device.facts().name.clone(),
        mtu_bytes: device.facts().mtu_bytes,
        room_bytes: most - ETHERNET_BYTES,
    }
}

impl Port for Socket {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn reclaim(&mut self, memory: &mut Memory) -> usize {
        let Some((fill, completion)) = &mut self.frames else {
            return 0;
        };
        let mut back = 0;
        while let Some(address) = completion.pop() {
            memory.give(Frame((address / u64::from(self.frame_bytes)) as u32));
            back += 1;
        }
        if back > 0 {
            completion.release();
        }
        let missing = self.fill_target.saturating_sub(fill.outstanding());
        // Single frames would access the shared cache line more often than needed.
        if missing >= self.fill_target / 8 || missing == self.fill_target {
            // Some frames are kept for sending: without answers no packet comes back.
            let spare = memory.own_frames() / 16;
            let room = fill.room(missing.min(memory.available().saturating_sub(spare)));
            for _ in 0..room {
                let Some(frame) = memory.take() else { break };
                fill.push(u64::from(frame.0) * u64::from(self.frame_bytes));
            }
            fill.submit();
        }
        back
    }

    fn receive(&mut self, memory: &mut Memory, packets: &mut [Packet]) -> usize {
        let (mut got, mut popped) = (0, false);
        while let Some(slot) = packets.get_mut(got) {
            let Some(descriptor) = self.receive.pop() else {
                break;
            };
            popped = true;
            let frame_bytes = u64::from(memory.frame_bytes());
            let part = Packet {
                frame: Frame((descriptor.addr / frame_bytes) as u32),
                start: (descriptor.addr % frame_bytes) as u32,
                len: descriptor.len,
            };
            let more = descriptor.options & libc::XDP_PKT_CONTD != 0;
            let whole = match more || self.parts.is_some() {
                false => Some(part),
                true => self.gather(memory, part, more),
            };
            if let Some(whole) = whole {
                *slot = whole;
                got += 1;
            }
        }
        if popped {
            self.receive.release();
            self.counters.received_packets += got as u64;
        }
        got
    }

    fn pending(&self) -> u32 {
        self.receive.waiting()
    }

    fn transmit(&mut self, memory: &mut Memory, packet: Packet) -> bool {
        if memory.is_span(packet.frame) {
            return self.transmit_in_parts(memory, packet);
        }
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
            self.queued = 0;
        }
        // Copy mode sends at most 32 packets a call, and a full completion ring must be emptied.
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

    fn sends_large(&self) -> bool {
        self.segmenter.is_some()
    }

    unsafe fn transmit_large(
        &mut self,
        memory: &mut Memory,
        large: &Large<'_>,
        parts: &[libc::iovec],
    ) -> io::Result<()> {
        if self.queued > 0 {
            // The queued packets may belong to the same connection and must arrive first. A failure
            // here repeats at the end of the turn, and is counted there.
            let _ = self.flush(memory);
        }
        let Some(segmenter) = &self.segmenter else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        self.counters.system_calls += 1;
        // SAFETY: the caller's promise.
        let sent = unsafe { segmenter.send(large, parts) };
        match sent {
            Ok(()) => {
                self.counters.sent_packets += 1;
                self.counters.large_packets += 1;
            }
            Err(_) => self.counters.refused_packets += 1,
        }
        sent
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            lost_packets: self.lost() + self.counters.lost_packets,
            ..self.counters
        }
    }
}
