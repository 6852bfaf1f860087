//! Real descriptors. An eventfd of ours backs each file, so that no other file of the process can
//! get its number, and a libc call on it does no harm.

use crate::host::Result;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// The eventfds behind the host's files, by descriptor number.
#[derive(Debug, Default)]
pub struct Descriptors {
    open: BTreeMap<i32, OwnedFd>,
}

impl Descriptors {
    /// Allocates the lowest free descriptor.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn open(&mut self) -> Result<i32> {
        // SAFETY: the call takes no pointers.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if number < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        // If libc closed our eventfd behind our back, the kernel has assigned its number again; the
        // old one must not be closed.
        if let Some(stale) = self.open.insert(descriptor.as_raw_fd(), descriptor) {
            let _ = stale.into_raw_fd();
        }
        Ok(number)
    }

    /// Closes a descriptor.
    pub fn close(&mut self, number: i32) {
        self.open.remove(&number);
    }
}
