//! Stack with packet memory that tracks the owner of each buffer.

use super::segment::{Segment, addresses, flags};
use cofferdam_netstack::*;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};

thread_local! {
    /// Allocations of this thread, in test binaries that install a counting allocator.
    pub static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Allocations of the caller during a call of the stack.
    static EXCUSED: Cell<u64> = const { Cell::new(0) };
}

/// Runs a call of the stack, which must not allocate.
fn without_allocation<T>(call: impl FnOnce() -> T) -> T {
    let before = ALLOCATIONS.get() - EXCUSED.get();
    let result = call();
    assert_eq!(
        ALLOCATIONS.get() - EXCUSED.get(),
        before,
        "the stack allocated"
    );
    result
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Stack,
    App,
}

/// Buffers by identifier.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: HashMap<u64, (Vec<u8>, Owner)>,
    next: u64,
}

impl Memory {
    fn add(&mut self, bytes: &[u8], owner: Owner) -> BufferId {
        self.next += 1;
        self.buffers.insert(self.next, (bytes.to_vec(), owner));
        BufferId(self.next)
    }

    /// Buffer with data of the application.
    pub fn data(&mut self, bytes: &[u8]) -> Chunk {
        let len = bytes.len() as u32;
        Chunk {
            buffer: self.add(bytes, Owner::App),
            offset: 0,
            len,
        }
    }

    pub fn read(&self, chunk: Chunk) -> &[u8] {
        let (bytes, _) = &self.buffers[&chunk.buffer.0];
        &bytes[chunk.offset as usize..(chunk.offset + chunk.len) as usize]
    }

    /// Records that the stack passes a received buffer to the application.
    pub fn hand_up(&mut self, buffer: BufferId) {
        let (_, owner) = self
            .buffers
            .get_mut(&buffer.0)
            .expect("a buffer that exists");
        assert_eq!(
            std::mem::replace(owner, Owner::App),
            Owner::Stack,
            "handed up twice"
        );
    }

    /// Removes a buffer.
    pub fn free(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer.0).expect("freed once");
    }

    /// Number of received buffers that the stack owns.
    pub fn in_stack(&self) -> usize {
        self.buffers
            .values()
            .filter(|(_, owner)| *owner == Owner::Stack)
            .count()
    }
}

impl BufferPool for Memory {
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId> {
        let before = ALLOCATIONS.get();
        let buffer = self.add(bytes, Owner::Stack);
        EXCUSED.set(EXCUSED.get() + ALLOCATIONS.get() - before);
        Some(buffer)
    }
}

/// Stack and its packet memory.
#[derive(Debug)]
pub struct Node {
    pub stack: Stack,
    pub memory: Memory,
    /// Segments of a packet that was cut, which are not sent yet.
    cut: VecDeque<(InterfaceId, Vec<u8>)>,
    /// Number of packets that were cut.
    pub cuts: usize,
}

impl Node {
    pub fn new(config: Config, now: Time) -> Self {
        Self::of(Stack::new(config, now).expect("settings that work"))
    }

    /// A node with this stack and empty packet memory.
    pub fn of(stack: Stack) -> Self {
        Self {
            stack,
            memory: Memory::default(),
            cut: VecDeque::new(),
            cuts: 0,
        }
    }

    /// Runs a command of the application.
    pub fn call<T>(&mut self, command: impl FnOnce(&mut Stack) -> T) -> T {
        without_allocation(|| command(&mut self.stack))
    }

    /// Delivers a frame.
    pub fn receive(&mut self, now: Time, frame: &[u8]) {
        self.receive_at(now, InterfaceId(0), frame);
    }

    /// Delivers a frame at an interface.
    pub fn receive_at(&mut self, now: Time, interface: InterfaceId, frame: &[u8]) {
        let buffer = self.memory.add(frame, Owner::Stack);
        match self
            .stack
            .handle_frame(now, interface, frame, buffer, &mut self.memory)
        {
            Disposition::Free => self.memory.free(buffer),
            Disposition::Held => {}
        }
    }

    /// Next event; handles releases of buffers itself.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            match without_allocation(|| self.stack.poll_event())? {
                Event::Release { buffer } => self.memory.free(buffer),
                event => {
                    if let Event::Recv { chunk, .. } | Event::UdpRecv { chunk, .. } = event {
                        self.memory.hand_up(chunk.buffer);
                    }
                    return Some(event);
                }
            }
        }
    }

    /// Next frame to send, with its payload and checksum.
    pub fn transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        self.transmit_by(now).map(|(_, frame)| frame)
    }

    /// Next frame to send, with its interface.
    pub fn transmit_by(&mut self, now: Time) -> Option<(InterfaceId, Vec<u8>)> {
        if let Some(sent) = self.cut.pop_front() {
            return Some(sent);
        }
        let mut frame = vec![0; MAX_HEADER_BYTES];
        let transmit = without_allocation(|| self.stack.poll_transmit(now, &mut frame))?;
        frame.truncate(transmit.header_len);
        for chunk in transmit.payload.chunks() {
            frame.extend_from_slice(self.memory.read(*chunk));
        }
        assert_eq!(frame.len(), transmit.len());
        if let Some(checksum) = transmit.checksum {
            checksum.complete(&mut frame);
        }
        if let Some(buffer) = transmit.release {
            self.memory.free(buffer);
        }
        let Some(segment_bytes) = transmit.cut else {
            return Some((transmit.interface, frame));
        };
        let segments = cut(&frame, usize::from(segment_bytes));
        self.cuts += 1;
        self.cut
            .extend(segments.map(|segment| (transmit.interface, segment)));
        self.cut.pop_front()
    }
}

/// Segments of `segment_bytes` in a packet, which must contain at least two, all of them plain
/// data.
fn cut(frame: &[u8], segment_bytes: usize) -> impl Iterator<Item = Vec<u8>> {
    let whole = Segment::read(frame).expect("a TCP packet with right checksums");
    let (macs, from, to) = addresses(frame);
    let count = whole.data.len() / segment_bytes;
    assert!(count > 1 && whole.data.len() == count * segment_bytes);
    assert!(frame.len() <= 65_535 + 14 && whole.flags & !flags("P") == flags("."));
    (0..count).map(move |n| {
        let push = if n + 1 == count { 0 } else { flags("P") };
        let segment = Segment {
            seq: whole.seq.wrapping_add((n * segment_bytes) as u32),
            flags: whole.flags & !push,
            data: whole.data[n * segment_bytes..(n + 1) * segment_bytes].to_vec(),
            ..whole.clone()
        };
        segment.write(macs, from, to)
    })
}
