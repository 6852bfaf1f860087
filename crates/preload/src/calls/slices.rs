//! The program's memory as slices.

use libc::{c_void, iovec, size_t};
use std::io::{IoSlice, IoSliceMut};

/// The program's memory as a slice; none where the kernel must look at it.
///
/// # Safety
/// As `write(2)`, except that the memory must be there.
pub unsafe fn one<'a>(bytes: *const c_void, len: size_t) -> Option<IoSlice<'a>> {
    let is_any = !bytes.is_null() && len > 0 && len <= isize::MAX as usize;
    // SAFETY: as the caller guarantees.
    is_any.then(|| IoSlice::new(unsafe { std::slice::from_raw_parts(bytes.cast(), len) }))
}

/// The same, to be filled.
///
/// # Safety
/// As `read(2)`, except that the memory must be there.
pub unsafe fn one_to_fill<'a>(bytes: *mut c_void, len: size_t) -> Option<IoSliceMut<'a>> {
    let is_any = !bytes.is_null() && len > 0 && len <= isize::MAX as usize;
    // SAFETY: as the caller guarantees.
    is_any.then(|| IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(bytes.cast(), len) }))
}

/// Those parts that have a length; none where the kernel must look at them.
///
/// # Safety
/// The array of parts must be there.
unsafe fn parts<'a>(parts: *const iovec, count: usize) -> Option<impl Iterator<Item = &'a iovec>> {
    if parts.is_null() || count == 0 || count > libc::UIO_MAXIOV as usize {
        return None;
    }
    // SAFETY: as the caller guarantees.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    Some(parts.iter().filter(|part| part.iov_len > 0))
}

/// # Safety
/// As `writev(2)`, except that the memory must be there.
pub unsafe fn all<'a>(array: *const iovec, count: usize) -> Option<Vec<IoSlice<'a>>> {
    // SAFETY: as the caller guarantees.
    unsafe { parts(array, count) }?
        // SAFETY: as the caller guarantees.
        .map(|part| unsafe { one(part.iov_base, part.iov_len) })
        .collect()
}

/// The parts of a datagram, which may be none; none where they are too many, or a pointer is null.
///
/// # Safety
/// As `writev(2)`, except that the memory must be there.
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
/// As `readv(2)`, except that the memory must be there.
pub unsafe fn to_fill<'a>(array: *const iovec, count: usize) -> Option<Vec<IoSliceMut<'a>>> {
    // SAFETY: as the caller guarantees.
    unsafe { parts(array, count) }?
        // SAFETY: as the caller guarantees.
        .map(|part| unsafe { one_to_fill(part.iov_base, part.iov_len) })
        .collect()
}
