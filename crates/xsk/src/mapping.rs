//! Memory that is mapped from a file or from a socket, and unmapped when dropped.

use cofferdam_pkey::{Kind, Pages};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

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
    pages: Pages,
    access: Access,
    /// The file's pages are freed when the mapping ends.
    discards: AtomicBool,
}

impl Mapping {
    /// Maps `len` bytes of `file` from `offset` on, all pages present.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        file: BorrowedFd<'_>,
        offset: i64,
        len: usize,
        access: Access,
    ) -> io::Result<Mapping> {
        Mapping::behind(file, offset, len, access, Kind::Private)
    }

    /// As [`Mapping::new`], behind the key of `kind` in a protected region.
    ///
    /// # Errors
    /// The kernel's; the region is full.
    pub fn behind(
        file: BorrowedFd<'_>,
        offset: i64,
        len: usize,
        access: Access,
        kind: Kind,
    ) -> io::Result<Mapping> {
        Mapping::map((file, offset), len, (access, kind), libc::MAP_POPULATE)
    }

    /// Maps a memory file that another process uses, from its beginning on. No page is touched: the
    /// kernel charges each to the process that touches it first.
    ///
    /// # Errors
    /// As [`Mapping::behind`].
    pub fn lent(
        file: BorrowedFd<'_>,
        len: usize,
        access: Access,
        kind: Kind,
    ) -> io::Result<Mapping> {
        Mapping::map((file, 0), len, (access, kind), 0)
    }

    fn map(
        (file, offset): (BorrowedFd<'_>, i64),
        len: usize,
        (access, kind): (Access, Kind),
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

    /// When the mapping ends its pages are freed, whoever still has the file: it reads as zeros
    /// then. The file must be writable, and not sealed against writing; else it keeps them.
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

    /// Never true: an empty mapping cannot be made.
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
