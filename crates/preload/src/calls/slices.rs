//! Slices of the program's memory.

use libc::{c_void, iovec, size_t};
use std::io::{IoSlice, IoSliceMut};

/// The program's memory as a slice. `None` if the kernel must check it.
///
/// # Safety
///
/// The contract of `write(2)`, except that the memory must be valid.
pub unsafe fn one<'a>(bytes: *const c_void, len: size_t) -> Option<IoSlice<'a>> {
    let is_any = !bytes.is_null() && len > 0 && len <= isize::MAX as usize;
    // SAFETY: as the caller guarantees.
    is_any.then(|| IoSlice::new(unsafe { std::slice::from_raw_parts(bytes.cast(), len) }))
}

/// The program's memory as a mutable slice. `None` if the kernel must check it.
///
/// # Safety
///
/// The contract of `read(2)`, except that the memory must be valid.
pub unsafe fn one_to_fill<'a>(bytes: *mut c_void, len: size_t) -> Option<IoSliceMut<'a>> {
    let is_any = !bytes.is_null() && len > 0 && len <= isize::MAX as usize;
    // SAFETY: as the caller guarantees.
    is_any.then(|| IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(bytes.cast(), len) }))
}

/// Non-empty parts of an array. `None` if the kernel must check them.
///
/// # Safety
///
/// The array must be valid.
unsafe fn parts<'a>(parts: *const iovec, count: usize) -> Option<impl Iterator<Item = &'a iovec>> {
    if parts.is_null() || count == 0 || count > libc::UIO_MAXIOV as usize {
        return None;
    }
    // SAFETY: as the caller guarantees.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    Some(parts.iter().filter(|part| part.iov_len > 0))
}

/// # Safety
/// The contract of `writev(2)`, except that the memory must be valid.
pub unsafe fn all<'a>(array: *const iovec, count: usize) -> Option<Vec<IoSlice<'a>>> {
    // SAFETY: as the caller guarantees.
    unsafe { parts(array, count) }?
        // SAFETY: as the caller guarantees.
        .map(|part| unsafe { one(part.iov_base, part.iov_len) })
        .collect()
}

/// Parts of a datagram, which may be empty. `None` if there are too many or a pointer is null.
///
/// # Safety
///
/// The contract of `writev(2)`, except that the memory must be valid.
pub unsafe fn of_datagram<'a>(array: *const iovec, count: usize) -> Option<Vec<IoSlice<'a>>> {
    if count == 0 {
        return Some(Vec::new());
    }
    // SAFETY: as the caller guarantees.
    unsafe { parts(array, count) }?
        // SAFETY: as the caller guarantees.
        .map(|part| unsafe { one(part.iov_base, part.iov_len) })
        .collect()
}

/// # Safety
/// The contract of `readv(2)`, except that the memory must be valid.
pub unsafe fn to_fill<'a>(array: *const iovec, count: usize) -> Option<Vec<IoSliceMut<'a>>> {
    // SAFETY: as the caller guarantees.
    unsafe { parts(array, count) }?
        // SAFETY: as the caller guarantees.
        .map(|part| unsafe { one_to_fill(part.iov_base, part.iov_len) })
        .collect()
}
