//! The program's allocator. The host's memory comes from the region, the guest's from the C
//! library.

use crate::keys::is_inside;
use crate::region::{count_ordinary, has, state};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// Allocator for `#[global_allocator]` of a program with a region. Without a region it is
/// [`System`] and one relaxed load.
pub struct Allocator;

/// Whether an allocation of this thread belongs to the host.
#[inline]
pub(crate) fn allocates_inside() -> bool {
    is_inside() && state().ordinary.load(Ordering::Relaxed) == 0
}

/// Runs `body` with ordinary allocations and mappings, which the guest can use. It holds for all
/// threads, so that only one may run.
pub fn ordinary<T>(body: impl FnOnce() -> T) -> T {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            count_ordinary(false);
        }
    }
    if !is_inside() {
        return body();
    }
    count_ordinary(true);
    let _guard = Guard;
    body()
}

// SAFETY: each block comes from one of two allocators, and its address says which frees it.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if allocates_inside() {
            // SAFETY: inside, so there is a heap.
            return unsafe { state().heap.lock().alloc(layout) }.0;
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if allocates_inside() {
            // SAFETY: inside, so there is a heap.
            let (block, is_zero) = unsafe { state().heap.lock().alloc(layout) };
            if !block.is_null() && !is_zero {
                // SAFETY: the block has that many bytes.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match has(block) {
            // SAFETY: a block of the region; the guest has no rights there, and faults.
            true => unsafe { state().heap.lock().free(block, layout) },
            // SAFETY: the caller's promise.
            false => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !has(block) && !allocates_inside() {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(block, layout, new_size) };
        }
        // SAFETY: the caller promises a valid size for this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: as `alloc` and `dealloc`; the two blocks do not overlap.
        unsafe {
            let moved = self.alloc(new);
            if moved.is_null() {
                return null_mut();
            }
            moved.copy_from_nonoverlapping(block, layout.size().min(new_size));
            self.dealloc(block, layout);
            moved
        }
    }
}
