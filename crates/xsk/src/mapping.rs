//! Memory that is mapped from a file or from a socket, and unmapped when dropped.

use cofferdam_pkey::{Kind, Pages};
use std::io;
use std::os::fd::BorrowedFd;
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
pub struct Mapping(Pages);

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
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Pages::map((Some(file), offset), len, (protection, flags), kind).map(Mapping)
    }

    /// First byte.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.0.base()
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never true: an empty mapping cannot be made.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
