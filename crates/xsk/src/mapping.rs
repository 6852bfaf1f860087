//! Memory that is mapped from a file or from a socket, and unmapped when dropped.

use cofferdam_pkey::{Kind, Place, place};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// What may be done with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read; a store faults.
    Read,
    /// Read and write.
    Write,
}

/// A shared mapping of a file; in the protected region, where its thread has one.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    place: Option<Place>,
}

// SAFETY: a mapping is plain memory, valid in every thread of the process until it is unmapped.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference exposes only the address and the length; each reader or writer
// justifies its access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset` on, all pages present.
    pub fn new(
        file: BorrowedFd<'_>,
        offset: i64,
        len: usize,
        access: Access,
    ) -> io::Result<Mapping> {
        Mapping::behind(file, offset, len, access, Kind::Private)
    }

    /// As [`Mapping::new`], behind the key of `kind` in a protected region.
    pub fn behind(
        file: BorrowedFd<'_>,
        offset: i64,
        len: usize,
        access: Access,
        kind: Kind,
    ) -> io::Result<Mapping> {
        let protection = match access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        let place = place(len, kind)?;
        let (at, fixed) = match &place {
            Some(place) => (place.start().as_ptr().cast(), libc::MAP_FIXED),
            None => (std::ptr::null_mut(), 0),
        };
        // SAFETY: a new mapping, at an address of the kernel's choice or at a place of its own,
        // touches no other memory.
        let base = unsafe {
            libc::mmap(
                at,
                len,
                protection,
                libc::MAP_SHARED | libc::MAP_POPULATE | fixed,
                file.as_raw_fd(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        if let Some(place) = &place {
            place.protect(protection)?;
        }
        Ok(Mapping { base, len, place })
    }

    /// First byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: an empty mapping cannot be made.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.place.is_some() {
            // The place unmaps what lies there.
            return;
        }
        // SAFETY: base and len are of the mapping that `new` made, which nothing else unmaps.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.len);
        }
    }
}
