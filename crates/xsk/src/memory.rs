//! The packet memory: frames of equal size in one sealed memory file.

use crate::mapping::{Access, Mapping};
use crate::packet::{Frame, Packet};
use crate::spans::Spans;
use cofferdam_pkey::MemoryKind;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// File and sizes of a packet memory, for other threads.
#[derive(Clone, Debug)]
pub struct FrameFacts {
    /// The sealed file.
    pub file: Arc<OwnedFd>,
    /// Number of frames, those of the spans included.
    pub frames: u32,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Number of spans.
    pub spans: u32,
}

impl FrameFacts {
    /// Length of the file.
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.frames) * u64::from(self.frame_bytes)
    }
}

/// Frames of equal size, and the list of free frames. The holder of a frame's number owns the
/// frame: the free list, a device's ring, the network stack or an application.
///
/// The file is sealed: it keeps its size, and other processes can map it only for reading.
///
/// [`Memory::split`] makes parts for several threads. Each part reads and writes all frames, under
/// the same numbers, and has a free list of its own frames only. A frame of another part that is
/// returned here is a stray; the driver of the parts passes it on to its part.
#[derive(Debug)]
pub struct Memory {
    file: Arc<OwnedFd>,
    map: Arc<Mapping>,
    spans: Spans,
    frame_bytes: u32,
    frames: u32,
    /// Frames of this free list.
    own: Range<u32>,
    parts: u32,
    free: Vec<Frame>,
    /// Frames of other parts that were returned here.
    strays: Vec<Frame>,
    /// State of each frame: a frame that is freed twice would corrupt two packets.
    is_free: Vec<bool>,
}

impl Memory {
    /// Makes `frames` free frames of `frame_bytes` (2048 or 4096, the sizes of AF_XDP).
    ///
    /// # Errors
    /// An error of the kernel; `InvalidInput` for another size.
    pub fn new(frames: u32, frame_bytes: u32) -> io::Result<Memory> {
        Memory::with_spans(frames, frame_bytes, 0)
    }

    /// Makes a memory as [`Memory::new`] does, with `spans` buffers of 64 KiB and more behind the
    /// frames.
    ///
    /// # Errors
    /// Errors of [`Memory::new`].
    pub fn with_spans(frames: u32, frame_bytes: u32, spans: u32) -> io::Result<Memory> {
        let len = length(frames, frame_bytes, spans)?;
        let file = memory_file(len)?;
        let map = Mapping::behind(file.as_fd(), 0, len, Access::Write, MemoryKind::Packets)?;
        fcntl(
            &file,
            FcntlArg::F_ADD_SEALS(
                SealFlag::F_SEAL_SHRINK
                    | SealFlag::F_SEAL_GROW
                    | SealFlag::from_bits_retain(F_SEAL_FUTURE_WRITE),
            ),
        )?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SEAL))?;
        Ok(Memory::of(file, map, frames, frame_bytes, spans))
    }

    /// Makes a memory as [`Memory::with_spans`] does, for one other process that reads it. No page
    /// is touched before its use ([`Mapping::lent`]), and all can be freed at the end
    /// ([`Memory::discard_at_end`]).
    ///
    /// A seal against writing would keep the pages. Instead, [`Memory::file`] is open for reading
    /// only, and only its owner and root can open it in another way.
    ///
    /// # Errors
    /// Errors of [`Memory::new`]; /proc is not mounted.
    pub fn lent(frames: u32, frame_bytes: u32, spans: u32) -> io::Result<Memory> {
        let len = length(frames, frame_bytes, spans)?;
        let file = memory_file(len)?;
        let map = Mapping::lent(file.as_fd(), len, Access::Write, MemoryKind::Packets)?;
        let sizes_stay = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(sizes_stay))?;
        nix::sys::stat::fchmod(&file, nix::sys::stat::Mode::S_IRUSR)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{path}: {e}; mount /proc"));
        let read_only = std::fs::File::open(&path).map_err(named)?;
        Ok(Memory::of(
            read_only.into(),
            map,
            frames,
            frame_bytes,
            spans,
        ))
    }

    fn of(file: OwnedFd, map: Mapping, frames: u32, frame_bytes: u32, spans: u32) -> Memory {
        let map = Arc::new(map);
        Memory {
            file: Arc::new(file),
            spans: Spans::new(map.clone(), frames, frame_bytes, spans),
            map,
            frame_bytes,
            frames,
            own: 0..frames,
            parts: 1,
            strays: Vec::new(),
            // The frame that was freed last is used next, because the cache still has it.
            free: (0..frames).rev().map(Frame).collect(),
            is_free: vec![true; frames as usize],
        }
    }

    /// Splits the memory into `parts` of about equal size. All frames must be free. The first part
    /// has all spans.
    pub fn split(self, parts: u32) -> Vec<Memory> {
        let first = |part: u32| {
            let place = u64::from(self.frames) * u64::from(part) / u64::from(parts.max(1));
            u32::try_from(place).unwrap_or(self.frames)
        };
        let part = |n: u32| {
            let own = first(n)..first(n + 1);
            Memory {
                file: self.file.clone(),
                map: self.map.clone(),
                spans: self.spans.part(n == 0),
                frame_bytes: self.frame_bytes,
                frames: self.frames,
                free: own.clone().rev().map(Frame).collect(),
                own,
                parts,
                strays: Vec::with_capacity(self.numbers() as usize),
                is_free: vec![true; self.frames as usize],
            }
        };
        (0..parts).map(part).collect()
    }

    /// Number of frames of this free list: all, except in a part.
    pub fn own_frames(&self) -> u32 {
        self.own.len() as u32
    }

    /// Whether the frame belongs to this free list.
    pub fn is_own(&self, frame: Frame) -> bool {
        self.own.contains(&frame.0)
    }

    /// The part to which the frame belongs, by its position in the result of [`Memory::split`].
    pub fn part_of(&self, frame: Frame) -> u32 {
        if frame.0 >= self.frames {
            return 0;
        }
        let place = (u64::from(frame.0) + 1) * u64::from(self.parts) - 1;
        (place / u64::from(self.frames)) as u32
    }

    /// Takes a frame of another part that was returned here.
    pub fn next_stray(&mut self) -> Option<Frame> {
        self.strays.pop()
    }

    /// Whether a frame of this size can hold every packet of a device with this MTU.
    pub fn fits(mtu_bytes: u32, frame_bytes: u32) -> bool {
        mtu_bytes + ETHERNET_BYTES + KERNEL_HEADROOM_BYTES <= frame_bytes
    }

    /// Takes a free frame; `None` if all are in use. Never allocates.
    pub fn take(&mut self) -> Option<Frame> {
        let frame = self.free.pop()?;
        if let Some(free) = self.is_free.get_mut(frame.0 as usize) {
            *free = false;
        }
        Some(frame)
    }

    /// Copies `bytes` into a free frame, or into a span if they do not fit a frame. `None` if none
    /// is free. Never allocates.
    pub fn store(&mut self, bytes: &[u8]) -> Option<Frame> {
        if bytes.len() > self.frame_bytes as usize {
            return self.spans.store(bytes);
        }
        let frame = self.take()?;
        self.bytes_mut(frame)
            .get_mut(..bytes.len())?
            .copy_from_slice(bytes);
        Some(frame)
    }

    /// Frees a frame or a span. Returns false, and changes nothing, if it was free already or does
    /// not exist. For a frame of another part only that part can tell. Never allocates.
    pub fn give(&mut self, frame: Frame) -> bool {
        if !self.is_own(frame) {
            return self.give_other(frame);
        }
        match self.is_free.get_mut(frame.0 as usize) {
            Some(free) if !*free => {
                *free = true;
                self.free.push(frame);
                true
            }
            _ => false,
        }
    }

    /// Frees a span, or a frame of another part.
    fn give_other(&mut self, frame: Frame) -> bool {
        // The first part has the spans.
        if frame.0 >= self.frames && self.own.start == 0 {
            return self.spans.give(frame);
        }
        let has_room = frame.0 < self.numbers() && self.strays.len() < self.strays.capacity();
        if has_room {
            self.strays.push(frame);
        }
        has_room
    }

    /// Offset and length of a frame or a span in the mapping.
    fn range(&self, frame: Frame) -> Option<(usize, usize)> {
        if frame.0 >= self.frames {
            return self.spans.range(frame);
        }
        let frame_bytes = self.frame_bytes as usize;
        Some((frame.0 as usize * frame_bytes, frame_bytes))
    }

    /// Offset of a part of a frame or a span; `None` if it lies outside.
    fn part(&self, frame: Frame, start: usize, len: usize) -> Option<usize> {
        let (offset, room) = self.range(frame)?;
        let end = start.checked_add(len)?;
        (end <= room).then_some(offset + start)
    }

    /// Bytes of a frame or a span; empty if it does not exist.
    pub fn bytes(&self, frame: Frame) -> &[u8] {
        let Some((offset, len)) = self.range(frame) else {
            return &[];
        };
        // SAFETY: it lies inside the mapping (checked above; `new` made it that long), is
        // initialised (a memory file begins as zeros), and the kernel writes only to frames
        // that are in a fill ring, of which the caller has no number.
        unsafe { std::slice::from_raw_parts(self.map.base().as_ptr().add(offset), len) }
    }

    /// Writable bytes of a frame or a span; empty if it does not exist.
    pub fn bytes_mut(&mut self, frame: Frame) -> &mut [u8] {
        let Some((offset, len)) = self.range(frame) else {
            return &mut [];
        };
        // SAFETY: as in `bytes`; `&mut self` keeps other slices of this process away.
        unsafe { std::slice::from_raw_parts_mut(self.map.base().as_ptr().add(offset), len) }
    }

    /// Bytes of a packet; empty if it does not lie in its frame.
    pub fn packet(&self, packet: Packet) -> &[u8] {
        let (start, len) = (packet.start as usize, packet.len as usize);
        let bytes = self.bytes(packet.frame).get(start..);
        bytes.and_then(|b| b.get(..len)).unwrap_or_default()
    }

    /// Bytes of a packet, and the spans. The bytes are empty if the packet does not lie in its
    /// frame, or lies in a free span.
    pub fn packet_and_spans(&mut self, packet: Packet) -> (&[u8], &mut Spans) {
        let (start, len) = (packet.start as usize, packet.len as usize);
        let is_there = packet.frame.0 < self.frames || self.spans.is_taken(packet.frame);
        let part = self.part(packet.frame, start, len).filter(|_| is_there);
        let Some(offset) = part else {
            return (&[], &mut self.spans);
        };
        // SAFETY: as in `bytes`: the packet lies inside its frame or span (checked above). The
        // spans write only into free ones, and this one is taken; only this memory's owner, which
        // is borrowed, gives it back.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.map.base().as_ptr().add(offset), len) };
        (bytes, &mut self.spans)
    }

    /// Copies `len` bytes from one frame or span into another. Returns false, and does nothing, if
    /// they do not lie inside both.
    pub fn copy(&mut self, from: (Frame, usize), to: (Frame, usize), len: usize) -> bool {
        let parts = (self.part(from.0, from.1, len), self.part(to.0, to.1, len));
        let (Some(from), Some(to)) = parts else {
            return false;
        };
        let base = self.map.base().as_ptr();
        // SAFETY: both ranges lie inside the mapping; `copy` allows them to overlap; `&mut
        // self` keeps slices of this process away.
        unsafe { std::ptr::copy(base.add(from), base.add(to), len) };
        true
    }

    /// Takes a free span, for a packet that fits no frame; `None` if all are in use. Never
    /// allocates.
    pub fn take_span(&mut self) -> Option<Frame> {
        self.spans.take()
    }

    /// Whether the number is that of a span.
    pub fn is_span(&self, frame: Frame) -> bool {
        frame.0 >= self.frames
    }

    /// Number of spans, free or not.
    pub fn spans(&self) -> u32 {
        self.spans.count()
    }

    /// The spans.
    pub fn spans_mut(&mut self) -> &mut Spans {
        &mut self.spans
    }

    /// Number of free frames.
    pub fn available(&self) -> u32 {
        self.free.len() as u32
    }

    /// Number of frames, without the spans.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Largest number of a frame or a span, plus one.
    pub fn numbers(&self) -> u32 {
        (self.map.len() / self.frame_bytes as usize) as u32
    }

    /// Bytes of the frames, which a device may use, without the spans.
    pub fn frames_len_bytes(&self) -> u64 {
        u64::from(self.frames) * u64::from(self.frame_bytes)
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> u32 {
        self.frame_bytes
    }

    /// The sealed file, for a process that reads the frames.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// File and sizes.
    pub fn facts(&self) -> FrameFacts {
        FrameFacts {
            file: self.file.clone(),
            frames: self.numbers(),
            frame_bytes: self.frame_bytes,
            spans: self.spans(),
        }
    }

    /// Bytes of all frames and spans.
    pub fn len_bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Frees the pages of a memory that is [`Memory::lent`] when its last part ends; see
    /// [`Mapping::discard_at_end`].
    pub fn discard_at_end(&self) {
        self.map.discard_at_end();
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.map
    }
}

/// Bytes of frames and spans.
///
/// # Errors
/// `InvalidInput` for sizes that are not possible.
fn length(frames: u32, frame_bytes: u32, spans: u32) -> io::Result<usize> {
    if !matches!(frame_bytes, 2048 | 4096) || frames == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "frames are of 2048 or 4096 bytes, and at least one",
        ));
    }
    let numbers = u64::from(spans) * u64::from(Spans::frames_each(frame_bytes));
    let numbers = numbers + u64::from(frames);
    if numbers > u64::from(u32::MAX) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(numbers as usize * frame_bytes as usize)
}

/// A memory file of this length, not sealed yet.
fn memory_file(len: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(
        "cofferdam-frames",
        MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING,
    )?;
    nix::unistd::ftruncate(&file, i64::try_from(len).map_err(io::Error::other)?)?;
    Ok(file)
}

/// Bytes of a frame that the kernel keeps free before a packet (XDP_PACKET_HEADROOM, linux/bpf.h).
pub(crate) const KERNEL_HEADROOM_BYTES: u32 = 256;
/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: u32 = 14;
/// linux/fcntl.h, since 5.1 (commit ab3948f58ff8); nix has no name for it.
const F_SEAL_FUTURE_WRITE: i32 = 0x0010;

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 56.
    #[test]
    fn a_frame_is_taken_once_and_given_back_once() {
        let mut memory = Memory::new(3, 2048).expect("memory");
        let all: Vec<Frame> = std::iter::from_fn(|| memory.take()).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(memory.take(), None);
        assert!(memory.give(all[1]));
        assert!(!memory.give(all[1]), "given back twice");
        assert!(!memory.give(Frame(3)), "no such frame");
        assert_eq!(memory.take(), Some(all[1]));
    }

    /// Promise 54.
    #[test]
    fn parts_share_all_frames_and_allocate_their_own() {
        let memory = Memory::with_spans(10, 2048, 1).expect("memory");
        let mut parts = memory.split(3);
        let span = parts[0].store(&[9; 5000]).expect("a span");
        assert_eq!(parts[1].store(&[9; 5000]), None, "the first has them");
        assert_eq!(parts[2].bytes(span)[..5000], [9; 5000]);
        assert!(parts[2].give(span));
        assert_eq!(
            (parts[2].next_stray(), parts[2].part_of(span)),
            (Some(span), 0)
        );
        assert!(parts[0].give(span) && !parts[0].give(span));
        let counts: Vec<u32> = parts.iter().map(Memory::own_frames).collect();
        assert_eq!(counts.iter().sum::<u32>(), 10);
        for frame in (0..10).map(Frame) {
            let part = parts.iter().position(|part| part.is_own(frame));
            assert_eq!(part, Some(parts[0].part_of(frame) as usize));
        }
        let mut all: Vec<Frame> = Vec::new();
        for part in &mut parts {
            all.extend(std::iter::from_fn(|| part.take()));
        }
        all.sort_unstable();
        assert_eq!(all, (0..10).map(Frame).collect::<Vec<_>>());
        // Frame 0 belongs to the first part; the last one reads and returns it.
        parts[0].bytes_mut(Frame(0))[..3].copy_from_slice(b"one");
        assert_eq!(parts[2].bytes(Frame(0))[..3], *b"one");
        assert!(parts[2].give(Frame(0)));
        assert_eq!(parts[2].available(), 0, "it is none of its own");
        assert!(!parts[2].give(Frame(u32::MAX)), "no such frame");
        let stray = parts[2].next_stray().expect("the frame");
        assert_eq!(parts[2].next_stray(), None);
        assert!(parts[0].give(stray));
        assert!(!parts[0].give(stray), "given back twice");
        assert_eq!(parts[0].take(), Some(Frame(0)));
    }

    #[test]
    fn frames_do_not_overlap_and_beyond_the_end_is_nothing() {
        let mut memory = Memory::new(2, 2048).expect("memory");
        memory.bytes_mut(Frame(0)).fill(1);
        memory.bytes_mut(Frame(1)).fill(2);
        assert!(memory.bytes(Frame(0)).iter().all(|b| *b == 1));
        assert_eq!(memory.bytes(Frame(1)).len(), 2048);
        assert!(memory.bytes(Frame(2)).is_empty());
        assert!(memory.bytes_mut(Frame(u32::MAX)).is_empty());
    }

    /// Promise 69.
    #[test]
    fn another_holder_of_the_file_can_only_read() {
        let mut memory = Memory::new(2, 4096).expect("memory");
        memory.bytes_mut(Frame(1))[0] = 77;
        let read = Mapping::new(memory.file(), 0, 8192, Access::Read).expect("read-only");
        // SAFETY: the mapping is 8192 bytes long.
        assert_eq!(unsafe { *read.base().as_ptr().add(4096) }, 77);
        let refused = Mapping::new(memory.file(), 0, 8192, Access::Write);
        assert_eq!(
            refused.expect_err("sealed").raw_os_error(),
            Some(libc::EPERM)
        );
        let refused = nix::unistd::ftruncate(memory.file(), 0);
        assert_eq!(refused, Err(nix::errno::Errno::EPERM));
    }

    /// Bytes of a file's pages that are present.
    fn present_bytes(file: BorrowedFd<'_>) -> i64 {
        nix::sys::stat::fstat(file).expect("facts").st_blocks * 512
    }

    /// Promise 70.
    #[test]
    fn lent_memory_is_its_users_and_ends_with_its_maker() {
        let mut memory = Memory::lent(64, 4096, 1).expect("memory");
        let copy = memory.file().try_clone_to_owned().expect("a copy");
        assert_eq!(present_bytes(copy.as_fd()), 0, "nobody has touched it");
        memory.bytes_mut(Frame(3))[0] = 77;
        assert_eq!(present_bytes(copy.as_fd()), 4096);
        let len = memory.len_bytes() as usize;
        let read = Mapping::new(copy.as_fd(), 0, len, Access::Read).expect("read-only");
        assert_eq!(present_bytes(copy.as_fd()), len as i64, "its user has all");
        // SAFETY: the mapping is longer than four frames.
        let byte = || unsafe { read.base().as_ptr().add(3 * 4096).read_volatile() };
        assert_eq!(byte(), 77);
        memory.discard_at_end();
        let mut parts = memory.split(2);
        drop(parts.pop());
        assert_eq!(byte(), 77, "one part is left");
        drop(parts);
        assert_eq!(present_bytes(copy.as_fd()), 0, "the copy keeps nothing");
        assert_eq!(byte(), 0);
    }

    /// Promise 70.
    #[test]
    fn lent_memory_is_read_only_for_its_user() {
        let memory = Memory::lent(2, 4096, 0).expect("memory");
        let refused = Mapping::new(memory.file(), 0, 8192, Access::Write);
        assert_eq!(
            refused.expect_err("read-only").raw_os_error(),
            Some(libc::EACCES)
        );
        let refused = nix::unistd::ftruncate(memory.file(), 0);
        assert_eq!(refused, Err(nix::errno::Errno::EINVAL));
        let path = format!("/proc/self/fd/{}", memory.file().as_raw_fd());
        let opened = std::thread::spawn(move || {
            // SAFETY: the bare system call changes this thread alone.
            let outcome = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            assert_eq!(outcome, 0);
            std::fs::OpenOptions::new().write(true).open(path)
        });
        let opened = opened.join().expect("no panic");
        assert_eq!(
            opened.expect_err("refused").kind(),
            io::ErrorKind::PermissionDenied
        );
    }

    #[test]
    fn odd_sizes_are_refused() {
        assert!(Memory::new(1, 1024).is_err());
        assert!(Memory::new(0, 2048).is_err());
    }
}
