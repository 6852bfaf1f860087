//! Memory that is mapped from a file or a socket, and unmapped when dropped.

use cofferdam_pkey::{MemoryKind, Pages};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// Access to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; a store faults.
    Read,
    /// Reading and writing.
    Write,
}

/// A shared mapping of a file; in the protected region, if its thread has one.
#[derive(Debug)]
pub struct Mapping {
    pages: Pages,
    access: Access,
    /// The end of the mapping frees the file's pages.
    discards: AtomicBool,
}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset` on, all pages present.
    ///
    /// An error of the kernel.
    /// The kernel's.
    pub fn new(
        file: BorrowedFd<'_>,
        offset: i64,
        len: usize,
        access: Access,
    ) -> io::Result<Mapping> {
        Mapping::behind(file, offset, len, access, MemoryKind::Private)
    }

    /// Maps a file as [`Mapping::new`] does, behind the key of `kind` in a protected region.
    ///
    /// # Errors
    /// An error of the kernel; the region is full.
    pub fn behind(
        file: BorrowedFd<'_>,
        offset: i64,
        len: usize,
        access: Access,
        kind: MemoryKind,
    ) -> io::Result<Mapping> {
        Mapping::map((file, offset), len, (access, kind), libc::MAP_POPULATE)
    }

    /// Maps a memory file that another process uses, from its beginning on. Touches no page: the
    /// kernel charges each page to the process that touches it first.
    ///
    /// # Errors
    /// Errors of [`Mapping::behind`].
    pub fn lent(
        file: BorrowedFd<'_>,
        len: usize,
        access: Access,
        kind: MemoryKind,
    ) -> io::Result<Mapping> {
        Mapping::map((file, 0), len, (access, kind), 0)
    }

    fn map(
        (file, offset): (BorrowedFd<'_>, i64),
        len: usize,
        (access, kind): (Access, MemoryKind),
        flags: i32,
    ) -> io::Result<Mapping> {
        let rights = match access {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        };
        let flags = libc::MAP_SHARED | flags;
        Ok(Mapping {
            pages: Pages::map((Some(file), offset), len, (rights, flags), kind)?,
            access,
            discards: AtomicBool::new(false),
        })
    }

    /// Makes the end of the mapping free the file's pages, even if another process has the file,
    /// which then reads zeros. The file must be writable and not sealed against writing; otherwise
    /// the pages stay.
    pub fn discard_at_end(&self) {
        self.discards.store(true, Ordering::Relaxed);
    }

    /// First byte.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.pages.base()
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Always false: an empty mapping cannot be made.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !*self.discards.get_mut() {
            return;
        }
        let (base, len) = (self.base().as_ptr().cast::<libc::c_void>(), self.len());
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the mapping's own range, which nothing refers to any more; what goes is data,
        // which reads as zeros then. Before Linux 6.7 only a mapping that can be written frees
        // pages.
        unsafe {
            if self.access == Access::Write || libc::mprotect(base, len, rights) == 0 {
                libc::madvise(base, len, libc::MADV_REMOVE);
            }
        }
    }
}
