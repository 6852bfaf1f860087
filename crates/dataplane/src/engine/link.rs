//! Devices of a loop: batches of received packets, packets to send, and packets that a device has
//! not taken yet.
//!
//! A loop has one port on each device of the dataplane, in the order of the stack's interfaces.

use cofferdam_netstack::InterfaceId;
use cofferdam_xsk::{Frame, Large, Memory, Packet, Port};
use std::os::fd::BorrowedFd;

/// A packet, and the interface at which it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceivedPacket {
    pub interface: InterfaceId,
    pub packet: Packet,
}

/// A port, and the packet that did not fit its ring.
struct Side<P> {
    port: P,
    /// A packet that found the transmit ring full.
    unsent: Option<Packet>,
    /// Whether the last flush left packets in the ring.
    is_stuck: bool,
    /// Whether the last flush failed, for example because the device is down.
    is_refused: bool,
    /// Packets of the last batch from the ports up to this one.
    received: usize,
}

/// Ports, and the last batch from them.
pub(super) struct Link<P> {
    sides: Vec<Side<P>>,
    batch: Vec<Packet>,
    /// Port with which the last batch began. It rotates, so that no port starves another.
    first: usize,
}

impl<P: Port> Link<P> {
    /// A link for batches of `batch` packets.
    pub fn new(ports: Vec<P>, batch: u32) -> Link<P> {
        let empty = Packet {
            frame: Frame(0),
            start: 0,
            len: 0,
        };
        let side = |port| Side {
            port,
            unsent: None,
            is_stuck: false,
            is_refused: false,
            received: 0,
        };
        Link {
            sides: ports.into_iter().map(side).collect(),
            batch: vec![empty; batch as usize],
            first: 0,
        }
    }

    /// The ports, for their facts.
    pub fn ports(&self) -> impl Iterator<Item = &P> {
        self.sides.iter().map(|side| &side.port)
    }

    /// Takes frames of sent packets from the devices, and gives them free ones.
    pub fn reclaim(&mut self, memory: &mut Memory) {
        for side in &mut self.sides {
            side.port.reclaim(memory);
        }
    }

    /// Receives a batch of packets for [`Link::received`]. Returns their number.
    pub fn receive(&mut self, memory: &mut Memory) -> usize {
        let count = self.sides.len();
        self.first = (self.first + 1) % count.max(1);
        let mut got = 0;
        for n in 0..count {
            let Some(side) = self.sides.get_mut((self.first + n) % count) else {
                break;
            };
            let room = self.batch.get_mut(got..).unwrap_or_default();
            got += side.port.receive(memory, room);
            side.received = got;
        }
        got
    }

    /// Packet of the last batch, by its position.
    #[inline]
    pub fn received(&self, n: usize) -> Option<ReceivedPacket> {
        let packet = *self.batch.get(n)?;
        let count = self.sides.len();
        let mut by = self.first;
        while count > 1 && self.sides.get(by)?.received <= n {
            by = (by + 1) % count;
        }
        Some(ReceivedPacket {
            interface: InterfaceId(by as u8),
            packet,
        })
    }

    /// Number of packets that are pending to be received.
    pub fn pending(&self) -> u32 {
        self.ports().map(Port::pending).sum()
    }

    #[inline]
    fn side(&mut self, interface: InterfaceId) -> Option<&mut Side<P>> {
        self.sides.get_mut(usize::from(interface.0))
    }

    /// Sends the packets that found a ring full. Returns their number; `None` if a ring is still
    /// full.
    pub fn retry(&mut self, memory: &mut Memory) -> Option<usize> {
        let mut sent = 0;
        for n in 0..self.sides.len() {
            let interface = InterfaceId(n as u8);
            let unsent = self.side(interface).and_then(|side| side.unsent.take());
            if let Some(packet) = unsent {
                if !self.send(memory, interface, packet) {
                    return None;
                }
                sent += 1;
            }
        }
        Some(sent)
    }

    /// Queues a packet. Returns false if the ring is full: the packet is kept here, and blocks
    /// further ones. With several devices, a packet for a device that takes none is lost, as on a
    /// pulled cable, so that the others continue.
    #[inline]
    pub fn send(&mut self, memory: &mut Memory, interface: InterfaceId, packet: Packet) -> bool {
        let is_one_of_several = self.sides.len() > 1;
        let Some(side) = self.side(interface) else {
            memory.give(packet.frame);
            return true;
        };
        let has_room = side.port.transmit(memory, packet);
        if has_room {
            return true;
        }
        side.is_stuck = true;
        if is_one_of_several && side.is_refused {
            memory.give(packet.frame);
            return true;
        }
        side.unsent = Some(packet);
        false
    }

    /// Queues a packet. Returns false if the ring is full; the caller keeps the packet.
    #[inline]
    pub fn try_send(&mut self, memory: &mut Memory, by: InterfaceId, packet: Packet) -> bool {
        let side = self.side(by);
        side.is_some_and(|side| side.port.transmit(memory, packet))
    }

    /// Whether [`Link::send_large`] works on this interface.
    #[inline]
    pub fn sends_large(&self, interface: InterfaceId) -> bool {
        let side = self.sides.get(usize::from(interface.0));
        side.is_some_and(|side| side.port.sends_large())
    }

    /// Sends a large packet behind the queued ones. A packet that the device refuses is lost.
    ///
    /// # Safety
    /// See [`Port::transmit_large`].
    pub unsafe fn send_large(
        &mut self,
        memory: &mut Memory,
        interface: InterfaceId,
        large: &Large<'_>,
        parts: &[libc::iovec],
    ) -> bool {
        self.side(interface).is_some_and(|side| {
            // SAFETY: the caller's promise.
            unsafe { side.port.transmit_large(memory, large, parts) }.is_ok()
        })
    }

    /// Records that no frame is free for sending: frames may lie in a device's ring.
    pub fn starve(&mut self) {
        for side in &mut self.sides {
            side.is_stuck = true;
        }
    }

    /// Whether queued packets must be flushed again. Packets that a device refused stay in its
    /// ring, which would stay full when the device is up again.
    pub fn is_stuck(&self) -> bool {
        self.sides.iter().any(|side| side.is_stuck)
    }

    /// Sends the queued packets. Returns the number of devices that refuse.
    pub fn flush(&mut self, memory: &mut Memory) -> u64 {
        let mut refused = 0;
        for side in &mut self.sides {
            side.is_refused = side.port.flush(memory).is_err();
            side.is_stuck = side.is_refused || side.unsent.is_some();
            refused += u64::from(side.is_refused);
        }
        refused
    }

    /// Descriptors that become readable when packets are pending.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports().map(Port::descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_xsk::Facts;
    use std::io;
    use std::os::fd::AsFd;

    /// A device with a ring of `room` places. A flush empties the ring unless the device is down.
    struct Fake {
        facts: Facts,
        waiting: u32,
        room: u32,
        queued: u32,
        is_down: bool,
        descriptor: std::fs::File,
    }

    fn fake(room: u32) -> Fake {
        Fake {
            facts: Facts {
                name: String::new(),
                mac: [2; 6],
                mtu_bytes: 1500,
                index: 0,
            },
            waiting: 0,
            room,
            queued: 0,
            is_down: false,
            descriptor: std::fs::File::open("/dev/null").expect("a descriptor"),
        }
    }

    impl Port for Fake {
        fn facts(&self) -> &Facts {
            &self.facts
        }

        fn reclaim(&mut self, _: &mut Memory) -> usize {
            0
        }

        fn receive(&mut self, _: &mut Memory, packets: &mut [Packet]) -> usize {
            let got = packets.len().min(self.waiting as usize);
            self.waiting -= got as u32;
            got
        }

        fn pending(&self) -> u32 {
            self.waiting
        }

        fn transmit(&mut self, memory: &mut Memory, packet: Packet) -> bool {
            let has_room = self.queued < self.room;
            if has_room {
                self.queued += 1;
                memory.give(packet.frame);
            }
            has_room
        }

        fn flush(&mut self, _: &mut Memory) -> io::Result<()> {
            if self.is_down {
                return Err(io::ErrorKind::NetworkDown.into());
            }
            self.queued = 0;
            Ok(())
        }

        fn descriptor(&self) -> BorrowedFd<'_> {
            self.descriptor.as_fd()
        }

        fn counters(&self) -> cofferdam_xsk::PortCounters {
            cofferdam_xsk::PortCounters::default()
        }
    }

    fn packet(memory: &mut Memory) -> Packet {
        Packet {
            frame: memory.take().expect("a frame"),
            start: 0,
            len: 60,
        }
    }

    #[test]
    fn a_flood_on_one_device_leaves_the_others_their_turn() {
        let mut memory = Memory::new(16, 2048).expect("memory");
        let mut link = Link::new(vec![fake(8), fake(8)], 4);
        link.sides[0].port.waiting = 1_000;
        link.sides[1].port.waiting = 3;
        let mut from = [0, 0];
        for _ in 0..4 {
            let got = link.receive(&mut memory);
            assert_eq!(got, 4, "a batch is full");
            for n in 0..got {
                from[usize::from(link.received(n).expect("a packet").interface.0)] += 1;
            }
        }
        assert_eq!(from, [13, 3]);
        assert!(link.received(4).is_none());
    }

    #[test]
    fn a_device_that_is_down_delays_no_other() {
        let mut memory = Memory::new(16, 2048).expect("memory");
        let mut link = Link::new(vec![fake(2), fake(2)], 4);
        let (up, down) = (InterfaceId(0), InterfaceId(1));
        link.sides[1].port.is_down = true;
        let free = memory.available();
        for round in 0..100 {
            assert!(link.retry(&mut memory).is_some(), "{round}");
            for by in [down, up] {
                let packet = packet(&mut memory);
                let is_sent = link.send(&mut memory, by, packet);
                assert!(is_sent, "round {round}, {by:?}");
            }
            assert_eq!(link.flush(&mut memory), 1);
            assert!(link.is_stuck(), "it is tried again");
        }
        assert_eq!(memory.available(), free, "no frame is kept");
    }

    /// A full ring of a working device is waited for, because it empties within the turn.
    #[test]
    fn a_packet_for_a_full_ring_waits_until_it_drains() {
        let mut memory = Memory::new(16, 2048).expect("memory");
        for others in [0, 1] {
            let ports = (0..=others).map(|_| fake(1)).collect();
            let mut link = Link::new(ports, 4);
            let by = InterfaceId(0);
            let (first, second) = (packet(&mut memory), packet(&mut memory));
            assert!(link.send(&mut memory, by, first));
            assert!(!link.send(&mut memory, by, second));
            assert_eq!(link.retry(&mut memory), None, "still full");
            assert_eq!(link.flush(&mut memory), 0);
            assert!(link.is_stuck(), "one waits");
            assert_eq!(link.retry(&mut memory), Some(1));
            link.flush(&mut memory);
            assert!(!link.is_stuck());
        }
    }
}
