//! A BPF array in this process's memory: reading it costs no system call. No other module maps a
//! BPF map.

use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Values of a mapped array, for reading.
pub(crate) struct MappedArray<T> {
    first: NonNull<T>,
    length: usize,
    _values: PhantomData<T>,
}

/// Plain struct of integers, as it is in an array map: every bit pattern is valid.
///
/// # Safety
/// The type must be `repr(C)`, made of integers only, and of the map's value size.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: the mapping is this value's own and read-only, and belongs to no thread. Any number of
// threads read it by volatile loads of integers only.
unsafe impl<T: Plain + Send> Send for MappedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Plain + Sync> Sync for MappedArray<T> {}

impl<T: Plain> MappedArray<T> {
    /// Maps `length` values of the array map `fd`, which must be mappable.
    pub(crate) fn map(fd: BorrowedFd<'_>, length: u32) -> io::Result<Self> {
        // The kernel aligns each value to 8 bytes.
        const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() <= 8) };
        let length = length as usize;
        let first = mmap(fd, length * size_of::<T>(), libc::PROT_READ)?;
        Ok(MappedArray {
            first: first.cast(),
            length,
            _values: PhantomData,
        })
    }

    /// Returns the address of the value at `index`, aligned for `T`; `None` beyond the end. It is
    /// valid for reading while self lives. The kernel writes there at the same time, so reads must
    /// be volatile.
    pub(crate) fn at(&self, index: usize) -> Option<*const T> {
        // SAFETY: inside the mapping, which `map` made of `length` values.
        (index < self.length).then(|| unsafe { self.first.as_ptr().add(index).cast_const() })
    }

    /// Reads the value at `index`; `None` beyond the end. Each aligned 64-bit field is consistent;
    /// the fields may be of different moments.
    pub(crate) fn read(&self, index: usize) -> Option<T> {
        let value = self.at(index)?;
        // SAFETY: inside the mapping (see `at`), which lives as long as self, is aligned to a page
        // and has plain integers (`Plain`).
        Some(unsafe { value.read_volatile() })
    }
}

/// Maps the first `bytes` of a mappable map.
fn mmap(fd: BorrowedFd<'_>, bytes: usize, access: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh shared mapping; the kernel checks that the map is that large; no existing
    // memory is touched.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            access,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
}

/// Global variable of programs, 32 bits wide, that this process sets.
pub(crate) struct MappedWord {
    first: NonNull<u8>,
    offset: usize,
}

// SAFETY: the mapping is this value's own, belongs to no thread, and is accessed by atomics only.
unsafe impl Send for MappedWord {}

impl MappedWord {
    /// Maps the variable `offset` bytes from the begin of the section whose map is `fd`.
    pub(crate) fn map(fd: BorrowedFd<'_>, offset: usize) -> io::Result<Self> {
        assert!(offset.is_multiple_of(align_of::<AtomicU32>()));
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let first = mmap(fd, offset + size_of::<u32>(), access)?;
        Ok(MappedWord { first, offset })
    }

    /// Sets the variable; the programs see the value at once.
    pub(crate) fn set(&self, value: u32) {
        // SAFETY: inside the mapping, which begins at a page, and aligned (checked in `map`). The
        // variable is written through this value only.
        let word = unsafe { AtomicU32::from_ptr(self.first.as_ptr().add(self.offset).cast()) };
        word.store(value, Ordering::SeqCst);
    }
}

impl Drop for MappedWord {
    fn drop(&mut self) {
        let bytes = self.offset + size_of::<u32>();
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives self.
        unsafe { libc::munmap(self.first.as_ptr().cast(), bytes) };
    }
}

impl<T> Drop for MappedArray<T> {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives self.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.length * size_of::<T>()) };
    }
}
