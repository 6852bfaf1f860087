//! Descriptors of the library. They have high numbers, to leave the low ones to the program, which
//! must not close them.

use crate::real;
use cofferdam_bsd::Result;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Smallest number that the library has used so far.
static LEAST: AtomicI32 = AtomicI32::new(i32::MAX);
/// Numbers in use, one bit each.
static USED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Descriptor of the library.
#[derive(Debug)]
pub struct Internal(OwnedFd);

impl Internal {
    /// Moves a descriptor to the library's range.
    pub fn new(fd: OwnedFd) -> Result<Internal> {
        let moved = real::copy_above(fd.as_raw_fd(), base())?;
        let number = moved.as_raw_fd();
        mark(number, true);
        LEAST.fetch_min(number, Ordering::Relaxed);
        Ok(Internal(moved))
    }
}

impl AsFd for Internal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Internal {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for Internal {
    fn drop(&mut self) {
        mark(self.0.as_raw_fd(), false);
    }
}

/// Registers descriptors that another owner has moved to [`base`] or above.
pub fn adopt(numbers: &[RawFd]) {
    for number in numbers {
        mark(*number, true);
        LEAST.fetch_min(*number, Ordering::Relaxed);
    }
}

/// Removes descriptors that their owner has closed.
pub fn forget_closed(numbers: &[RawFd]) {
    for number in numbers {
        mark(*number, false);
    }
}

/// Removes all descriptors.
pub fn forget_all() {
    lock().clear();
}

/// Whether a descriptor is the library's.
pub fn is_internal(fd: RawFd) -> bool {
    if fd < LEAST.load(Ordering::Relaxed) {
        return false;
    }
    let used = lock();
    let word = used.get(fd as usize / 64).copied().unwrap_or(0);
    word >> (fd % 64) & 1 == 1
}

/// Ranges between `first` and `last` without the library's descriptors.
pub fn ranges_without(first: u32, last: u32) -> Vec<(u32, u32)> {
    let used = lock();
    let bits = (0_u32..).zip(used.iter()).flat_map(|(word, bits)| {
        (0..64).filter_map(move |bit| (bits >> bit & 1 == 1).then_some(word * 64 + bit))
    });
    let mut ranges = Vec::new();
    let mut start = first;
    for ours in bits.filter(|ours| (first..=last).contains(ours)) {
        if ours > start {
            ranges.push((start, ours - 1));
        }
        start = ours + 1;
    }
    if start <= last {
        ranges.push((start, last));
    }
    ranges
}

fn mark(number: RawFd, is_used: bool) {
    let mut used = lock();
    let word = number as usize / 64;
    if used.len() <= word {
        used.resize(word + 1, 0);
    }
    let bit = 1 << (number % 64);
    match is_used {
        true => used[word] |= bit,
        false => used[word] &= !bit,
    }
}

fn lock() -> MutexGuard<'static, Vec<u64>> {
    USED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Lock during a fork, which keeps the child's copy consistent.
pub struct DescriptorLock(
    #[expect(dead_code, reason = "released when dropped")] MutexGuard<'static, Vec<u64>>,
);

/// Locks the table of descriptors; see [`DescriptorLock`].
pub fn hold() -> DescriptorLock {
    DescriptorLock(lock())
}

/// Start of the library's range: the program keeps half of the descriptors that the process may
/// open.
pub fn base() -> RawFd {
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
    let soft = limit.map_or(1024, |(soft, _)| soft);
    i32::try_from(soft / 2)
        .unwrap_or(i32::MAX)
        .clamp(16, 1 << 19)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_closed_around_the_librarys_descriptors() {
        for number in [70, 71, 130] {
            mark(number, true);
        }
        assert_eq!(
            ranges_without(3, u32::MAX),
            [(3, 69), (72, 129), (131, u32::MAX)]
        );
        assert_eq!(ranges_without(70, 71), []);
        assert_eq!(ranges_without(71, 72), [(72, 72)]);
        for number in [70, 71, 130] {
            mark(number, false);
        }
        assert_eq!(ranges_without(3, 200), [(3, 200)]);
    }
}
