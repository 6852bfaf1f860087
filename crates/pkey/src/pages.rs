//! Mappings of this process, in the region if the thread has one.

use crate::region::{MemoryKind, Place, place};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

/// MapEntry memory; unmapped when dropped.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    len: usize,
    place: Option<Place>,
}

// SAFETY: a mapping is plain memory, valid in every thread of the process until it is unmapped.
unsafe impl Send for Pages {}
// SAFETY: a shared reference exposes only the address and the length; each reader or writer
// justifies its access.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes of `file` from `offset` on, or anonymous memory, behind the key of `kind`
    /// in a region. `rights` and `flags` are mmap(2)'s, without `MAP_FIXED`.
    ///
    /// # Errors
    /// An error of the kernel; the region is full.
    pub fn map(
        (file, offset): (Option<BorrowedFd<'_>>, i64),
        len: usize,
        (rights, flags): (i32, i32),
        kind: MemoryKind,
    ) -> io::Result<Pages> {
        let place = place(len, kind)?;
        let (at, fixed) = match &place {
            Some(place) => (place.start(), libc::MAP_FIXED),
            None => (null_mut(), 0),
        };
        let flags = flags & !libc::MAP_FIXED | fixed;
        let fd = file.map_or(-1, |file| file.as_raw_fd());
        // SAFETY: a new mapping, at an address of the kernel's choice or at a place of its own,
        // touches no other memory.
        let base = unsafe { libc::mmap(at.cast(), len, rights, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        if let Some(place) = &place {
            place.protect(rights)?;
        }
        Ok(Pages { base, len, place })
    }

    /// First byte.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: an empty mapping cannot be made.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // Dropping the place unmaps its pages.
        if self.place.is_none() {
            // SAFETY: base and len are of the mapping that `map` made, which nothing else unmaps.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}
