//! Two ports that are joined in one process, for tests and for benchmarks without the kernel.

use crate::memory::Memory;
use crate::packet::Packet;
use crate::port::{Facts, Port, PortCounters};
use crate::tuning::{PIPE_SLOT_BYTES, PIPE_SLOTS};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One direction, with one writer, one reader and its own slots.
struct Lane {
    written: AtomicU32,
    read: AtomicU32,
    slots: Box<[UnsafeCell<Slot>]>,
    wake: EventFd,
}

struct Slot {
    len: usize,
    bytes: [u8; PIPE_SLOT_BYTES],
}

// SAFETY: a slot is touched by the writer only while it lies outside read..written, and by the
// reader only while it lies inside; the two indices are published with release and read with
// acquire. `pipe` gives each lane one writer and one reader, which are not Clone.
unsafe impl Sync for Lane {}

impl Lane {
    fn new() -> io::Result<Lane> {
        let slot = || {
            UnsafeCell::new(Slot {
                len: 0,
                bytes: [0; PIPE_SLOT_BYTES],
            })
        };
        Ok(Lane {
            written: AtomicU32::new(0),
            read: AtomicU32::new(0),
            slots: (0..PIPE_SLOTS).map(|_| slot()).collect(),
            wake: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        })
    }

    fn slot(&self, index: u32) -> *mut Slot {
        let place = (index % PIPE_SLOTS) as usize;
        self.slots
            .get(place)
            .map_or(std::ptr::null_mut(), UnsafeCell::get)
    }
}

/// One end of a pipe.
pub struct Pipe {
    facts: Facts,
    out: Arc<Lane>,
    back: Arc<Lane>,
    queued: u32,
    counters: PortCounters,
}

/// Makes a pipe: two ends with the hardware addresses 02:00:00:00:00:01 and :02.
///
/// # Errors
/// No descriptor is left.
pub fn pipe(mtu_bytes: u32) -> io::Result<(Pipe, Pipe)> {
    let (there, back) = (Arc::new(Lane::new()?), Arc::new(Lane::new()?));
    let end = |last: u8, out: &Arc<Lane>, back: &Arc<Lane>| Pipe {
        facts: Facts {
            name: format!("pipe{last}"),
            mac: [2, 0, 0, 0, 0, last],
            mtu_bytes: mtu_bytes.min(PIPE_SLOT_BYTES as u32 - 14),
            index: 0,
        },
        out: out.clone(),
        back: back.clone(),
        queued: 0,
        counters: PortCounters::default(),
    };
    Ok((end(1, &there, &back), end(2, &back, &there)))
}

impl Port for Pipe {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn reclaim(&mut self, _memory: &mut Memory) -> usize {
        0
    }

    fn receive(&mut self, memory: &mut Memory, packets: &mut [Packet]) -> usize {
        // Cleared before looking, so that a later packet wakes again.
        let _ = self.back.wake.read();
        let mut next = self.back.read.load(Ordering::Relaxed);
        let mut got = 0;
        for slot in packets {
            if self.back.written.load(Ordering::Acquire) == next {
                break;
            }
            let Some(frame) = memory.take() else { break };
            // SAFETY: the slot lies in read..written, so the writer leaves it alone until
            // `read` moves past it.
            let from = unsafe { &*self.back.slot(next) };
            let len = from.len.min(memory.bytes(frame).len());
            memory.bytes_mut(frame)[..len].copy_from_slice(&from.bytes[..len]);
            *slot = Packet {
                frame,
                start: 0,
                len: len as u32,
            };
            next = next.wrapping_add(1);
            self.back.read.store(next, Ordering::Release);
            got += 1;
        }
        self.counters.received_packets += got as u64;
        got
    }

    fn pending(&self) -> u32 {
        let written = self.back.written.load(Ordering::Acquire);
        written.wrapping_sub(self.back.read.load(Ordering::Relaxed))
    }

    fn transmit(&mut self, memory: &mut Memory, packet: Packet) -> bool {
        let written = self
            .out
            .written
            .load(Ordering::Relaxed)
            .wrapping_add(self.queued);
        let is_full = written.wrapping_sub(self.out.read.load(Ordering::Acquire)) >= PIPE_SLOTS;
        let bytes = memory.packet(packet);
        if is_full || bytes.len() > PIPE_SLOT_BYTES {
            self.counters.refused_packets += 1;
            return false;
        }
        // SAFETY: the slot lies outside read..written, so it is the writer's, which is us.
        let slot = unsafe { &mut *self.out.slot(written) };
        slot.len = bytes.len();
        slot.bytes[..bytes.len()].copy_from_slice(bytes);
        memory.give(packet.frame);
        self.queued += 1;
        self.counters.sent_packets += 1;
        true
    }

    fn flush(&mut self, _memory: &mut Memory) -> io::Result<()> {
        if self.queued > 0 {
            let written = self.out.written.load(Ordering::Relaxed);
            self.out
                .written
                .store(written.wrapping_add(self.queued), Ordering::Release);
            self.queued = 0;
            self.counters.system_calls += 1;
            // A full counter means that the other side is woken already.
            let _ = self.out.wake.write(1);
        }
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.back.wake.as_fd()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Frame;

    /// Promise 56.
    #[test]
    fn packets_arrive_in_order_and_a_full_pipe_refuses() {
        let (mut a, mut b) = pipe(1500).expect("pipe");
        let mut memory = Memory::new(PIPE_SLOTS + 8, 2048).expect("memory");
        let mut sent = 0;
        loop {
            let frame = memory.take().expect("a frame");
            memory.bytes_mut(frame)[..4].copy_from_slice(&u32::to_ne_bytes(sent));
            let packet = Packet {
                frame,
                start: 0,
                len: 4,
            };
            if !a.transmit(&mut memory, packet) {
                assert!(memory.give(frame), "a refused frame stays the caller's");
                break;
            }
            sent += 1;
        }
        assert_eq!((sent, a.counters().refused_packets), (PIPE_SLOTS, 1));
        assert_eq!(b.pending(), 0, "nothing is seen before the flush");
        a.flush(&mut memory).expect("flush");
        assert_eq!(b.pending(), PIPE_SLOTS);
        let mut packets = [Packet {
            frame: Frame(0),
            start: 0,
            len: 0,
        }; 100];
        let mut next = 0_u32;
        loop {
            let got = b.receive(&mut memory, &mut packets);
            if got == 0 {
                break;
            }
            for packet in &packets[..got] {
                let bytes = &memory.bytes(packet.frame)[..packet.len as usize];
                assert_eq!(bytes[..4], next.to_ne_bytes());
                next += 1;
                memory.give(packet.frame);
            }
        }
        assert_eq!(next, PIPE_SLOTS);
        assert_eq!(memory.available(), PIPE_SLOTS + 8);
    }
}
