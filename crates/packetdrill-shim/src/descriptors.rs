//! Real descriptors: an eventfd of ours is behind each file, so that no other file of the process
//! can have its number, and a call of libc's on it harms nobody.

use crate::host::Result;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// The descriptors of the host's files, by number.
#[derive(Debug, Default)]
pub struct Descriptors {
    open: BTreeMap<i32, OwnedFd>,
}

impl Descriptors {
    /// A new number, the lowest that is free.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn open(&mut self) -> Result<i32> {
        // SAFETY: makes a descriptor; there is no memory in it.
        let number = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if number < 0 {
            return Err(Errno::last());
        }
        // SAFETY: just made, and nobody else's.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        // A number that libc closed behind our back has been given out again: ours is gone.
        if let Some(stale) = self.open.insert(descriptor.as_raw_fd(), descriptor) {
            let _ = stale.into_raw_fd();
        }
        Ok(number)
    }

    /// Gives the number back.
    pub fn close(&mut self, number: i32) {
        self.open.remove(&number);
    }
}
