//! The caller's memory. The kernel makes the copies and checks their addresses, so that a bad
//! pointer gives `EFAULT` and does not end the process.

use crate::Result;
use libc::{c_void, iovec};
use nix::errno::Errno;

/// Copies between the caller's memory and ours.
fn copy(ours: iovec, theirs: iovec, write: bool) -> Result<()> {
    if theirs.iov_len == 0 {
        return Ok(());
    }
    if theirs.iov_base.is_null() {
        return Err(Errno::EFAULT);
    }
    let call = if write {
        libc::process_vm_writev
    } else {
        libc::process_vm_readv
    };
    // SAFETY: `ours` is memory of ours with its length; the kernel checks `theirs`.
    let copied = unsafe { call(libc::getpid(), &raw const ours, 1, &raw const theirs, 1, 0) };
    match usize::try_from(copied) {
        Ok(copied) if copied == theirs.iov_len => Ok(()),
        // A part of the range is not mapped.
        Ok(_) => Err(Errno::EFAULT),
        Err(_) => Err(Errno::last()),
    }
}

/// Reads `len` bytes.
///
/// # Errors
/// `EFAULT` if the range is not mapped.
pub fn read(from: *const c_void, len: usize) -> Result<Vec<u8>> {
    if isize::try_from(len).is_err() {
        return Err(Errno::EFAULT);
    }
    // The last byte is checked before memory for the copy is allocated.
    let mut last = [0_u8; 1];
    if len > 0 {
        let end = from.cast::<u8>().wrapping_add(len - 1);
        copy(part(last.as_mut_ptr(), 1), part(end.cast_mut(), 1), false)?;
    }
    let mut bytes = vec![0_u8; len];
    copy(
        part(bytes.as_mut_ptr(), len),
        part(from.cast_mut().cast(), len),
        false,
    )?;
    Ok(bytes)
}

/// Writes bytes.
///
/// # Errors
/// `EFAULT` if the range is not mapped.
pub fn write(to: *mut c_void, bytes: &[u8]) -> Result<()> {
    let ours = part(bytes.as_ptr().cast_mut(), bytes.len());
    copy(ours, part(to.cast(), bytes.len()), true)
}

const fn part(base: *mut u8, len: usize) -> iovec {
    iovec {
        iov_base: base.cast(),
        iov_len: len,
    }
}

/// A plain structure of C: any bytes of its size are a value.
///
/// # Safety
/// Every bit pattern is a value of the type, and the type has no invariants.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => {
        $(
            // SAFETY: integers and raw pointers in C's layout.
            unsafe impl Plain for $type {}
        )*
    };
}
plain!(
    i32,
    u32,
    i64,
    usize,
    iovec,
    libc::msghdr,
    libc::pollfd,
    libc::epoll_event,
    libc::timeval,
    libc::timespec
);

/// Reads a structure.
///
/// # Errors
/// `EFAULT` if the structure is not mapped.
pub fn get<T: Plain>(from: *const T) -> Result<T> {
    let bytes = read(from.cast(), size_of::<T>())?;
    // SAFETY: `bytes` has the size of the type, of which any bytes are a value.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Reads `count` adjacent structures.
///
/// # Errors
/// `EFAULT` if they are not mapped.
pub fn get_all<T: Plain>(from: *const T, count: usize) -> Result<Vec<T>> {
    let len = count.checked_mul(size_of::<T>()).ok_or(Errno::EFAULT)?;
    let bytes = read(from.cast(), len)?;
    let values = bytes.chunks_exact(size_of::<T>());
    // SAFETY: each chunk has the size of the type.
    Ok(values
        .map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
        .collect())
}

/// Writes a structure.
///
/// # Errors
/// `EFAULT` if the destination is not mapped.
pub fn put<T: Plain>(to: *mut T, value: T) -> Result<()> {
    let ours = part((&raw const value).cast_mut().cast(), size_of::<T>());
    copy(ours, part(to.cast(), size_of::<T>()), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 62.
    #[test]
    fn what_is_no_memory_is_efault() {
        let bad = 0x10 as *mut c_void;
        assert_eq!(read(bad, 4), Err(Errno::EFAULT));
        assert_eq!(read(std::ptr::null(), 4), Err(Errno::EFAULT));
        assert_eq!(write(bad, b"data"), Err(Errno::EFAULT));
        assert_eq!(get::<i32>(bad.cast()), Err(Errno::EFAULT));
        assert_eq!(get_all::<iovec>(bad.cast(), usize::MAX), Err(Errno::EFAULT));
        assert_eq!(read(bad, 0), Ok(Vec::new()), "nothing is nowhere");
        let here = 7_i32;
        assert_eq!(get(&raw const here), Ok(7));
        assert_eq!(
            read((&raw const here).cast(), 1 << 60),
            Err(Errno::EFAULT),
            "a range that leaves memory"
        );
    }

    /// Promise 62.
    #[test]
    fn a_range_that_ends_in_no_memory_is_efault_too() {
        // SAFETY: a mapping of two pages that the test has made, the second without rights.
        unsafe {
            let size = 8192;
            let base = libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base.add(4096), 4096, libc::PROT_NONE), 0);
            assert!(read(base, 4096).is_ok());
            assert_eq!(read(base, 4097), Err(Errno::EFAULT));
            assert_eq!(write(base.add(4095), b"ab"), Err(Errno::EFAULT));
            libc::munmap(base, size);
        }
    }
}
