//! The device's side of a loop: batches in, packets out, and what the device has not taken yet.

use cofferdam_xsk::{Frame, Large, Memory, Packet, Port};
use std::os::fd::BorrowedFd;

/// A port, the last batch from it, and the packet that it had no room for.
pub(super) struct Link<P> {
    port: P,
    batch: Vec<Packet>,
    /// A packet that found the transmit ring full.
    unsent: Option<Packet>,
    /// The last flush left packets in the ring.
    is_stuck: bool,
}

impl<P: Port> Link<P> {
    /// With room for batches of `batch` packets.
    pub fn new(port: P, batch: u32) -> Link<P> {
        let empty = Packet {
            frame: Frame(0),
            start: 0,
            len: 0,
        };
        Link {
            port,
            batch: vec![empty; batch as usize],
            unsent: None,
            is_stuck: false,
        }
    }

    /// The port, to ask it for facts.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Takes frames of packets that are sent back, and gives the device free ones.
    pub fn reclaim(&mut self, memory: &mut Memory) {
        self.port.reclaim(memory);
    }

    /// Takes a batch of received packets; how many: [`Link::received`] has them.
    pub fn receive(&mut self, memory: &mut Memory) -> usize {
        self.port.receive(memory, &mut self.batch)
    }

    /// A packet of the last batch, by its place.
    #[inline]
    pub fn received(&self, n: usize) -> Option<Packet> {
        self.batch.get(n).copied()
    }

    /// Packets that wait to be received.
    pub fn pending(&self) -> u32 {
        self.port.pending()
    }

    /// Sends the packet that found the ring full, if there is one: how many were sent. `None` when
    /// the ring is full still.
    pub fn retry(&mut self, memory: &mut Memory) -> Option<usize> {
        match self.unsent.take() {
            None => Some(0),
            Some(packet) => self.send(memory, packet).then_some(1),
        }
    }

    /// Queues a packet. False when it found the ring full: it waits here, and nothing more can be
    /// sent before it.
    #[inline]
    pub fn send(&mut self, memory: &mut Memory, packet: Packet) -> bool {
        let has_room = self.port.transmit(memory, packet);
        if !has_room {
            self.unsent = Some(packet);
            self.is_stuck = true;
        }
        has_room
    }

    /// Queues a packet; false when it found the ring full, and is still the caller's.
    #[inline]
    pub fn try_send(&mut self, memory: &mut Memory, packet: Packet) -> bool {
        self.port.transmit(memory, packet)
    }

    /// Whether [`Link::send_large`] works.
    #[inline]
    pub fn sends_large(&self) -> bool {
        self.port.sends_large()
    }

    /// Sends a large packet, behind what was queued; what the device refuses is lost.
    ///
    /// # Safety
    /// As [`Port::transmit_large`].
    pub unsafe fn send_large(
        &mut self,
        memory: &mut Memory,
        large: &Large<'_>,
        parts: &[libc::iovec],
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.port.transmit_large(memory, large, parts) }.is_ok()
    }

    /// There is no frame to send from: they may lie in the device's ring.
    pub fn starve(&mut self) {
        self.is_stuck = true;
    }

    /// Whether what was queued must be sent again. What the device refused stays in its ring:
    /// without another try a full ring would stay full when the device is up again.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Sends what was queued; false when the device refuses.
    pub fn flush(&mut self, memory: &mut Memory) -> bool {
        let flushed = self.port.flush(memory);
        self.is_stuck = flushed.is_err() || self.unsent.is_some();
        flushed.is_ok()
    }

    /// Becomes readable when packets wait.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.descriptor()
    }
}
