//! Rings that AF_XDP shares with the kernel (Documentation/networking/af_xdp.rst). One side
//! produces, the other consumes, and each owns its index.

use crate::mapping::{Access, Mapping};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

const NEED_WAKEUP: u32 = 1;

/// One ring of `T` with a power of two entries.
pub(crate) struct Ring<T> {
    map: Mapping,
    offset: libc::xdp_ring_offset,
    mask: u32,
    /// Own index, published by `submit` and `release`.
    ours: u32,
    /// Index of the other side, as last read.
    theirs: u32,
    _entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps the ring at `page_offset` of an AF_XDP socket.
    pub fn map(
        socket: BorrowedFd<'_>,
        page_offset: i64,
        offset: libc::xdp_ring_offset,
        entries: u32,
    ) -> io::Result<Ring<T>> {
        if !entries.is_power_of_two() {
            return Err(io::Error::other("rings are a power of two long"));
        }
        let len = offset.desc as usize + entries as usize * size_of::<T>();
        Ok(Ring {
            map: Mapping::new(socket, page_offset, len, Access::Write)?,
            offset,
            mask: entries - 1,
            ours: 0,
            theirs: 0,
            _entries: PhantomData,
        })
    }

    fn index(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel gave this offset of an aligned u32 inside the mapping, which lives
        // as long as `self`; both sides use it atomically.
        unsafe { &*self.map.base().as_ptr().add(offset as usize).cast() }
    }

    fn entry(&self, index: u32) -> *mut T {
        let place = (index & self.mask) as usize;
        // SAFETY: `mask` keeps the entry inside the mapping that `map` made long enough.
        unsafe {
            self.map
                .base()
                .as_ptr()
                .add(self.offset.desc as usize)
                .cast::<T>()
                .add(place)
        }
    }

    /// Whether the kernel sleeps until a system call.
    pub fn needs_wakeup(&self) -> bool {
        self.index(self.offset.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    /// Producer: number of entries that can be written, up to `wanted`.
    pub fn room(&mut self, wanted: u32) -> u32 {
        let size = self.mask + 1;
        if size - self.ours.wrapping_sub(self.theirs) < wanted {
            self.theirs = self.index(self.offset.consumer).load(Ordering::Acquire);
        }
        (size - self.ours.wrapping_sub(self.theirs)).min(wanted)
    }

    /// Producer: writes one entry. Call `room` first.
    pub fn push(&mut self, value: T) {
        // SAFETY: `room` has shown that the kernel has consumed this entry; it is ours to write.
        unsafe { self.entry(self.ours).write(value) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// Producer: publishes the written entries.
    pub fn submit(&self) {
        self.index(self.offset.producer)
            .store(self.ours, Ordering::Release);
    }

    /// Producer: number of entries that the kernel has not consumed.
    pub fn outstanding(&mut self) -> u32 {
        self.theirs = self.index(self.offset.consumer).load(Ordering::Acquire);
        self.ours.wrapping_sub(self.theirs)
    }

    /// Consumer: number of pending entries.
    pub fn waiting(&self) -> u32 {
        let producer = self.index(self.offset.producer).load(Ordering::Acquire);
        producer.wrapping_sub(self.ours)
    }

    /// Consumer: takes the next entry.
    pub fn pop(&mut self) -> Option<T> {
        if self.theirs == self.ours {
            self.theirs = self.index(self.offset.producer).load(Ordering::Acquire);
            if self.theirs == self.ours {
                return None;
            }
        }
        // SAFETY: the kernel has produced this entry and writes it again only after `release`.
        let value = unsafe { self.entry(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(value)
    }

    /// Consumer: returns the taken entries to the kernel.
    pub fn release(&self) {
        self.index(self.offset.consumer)
            .store(self.ours, Ordering::Release);
    }
}
