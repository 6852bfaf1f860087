//! Heap of the region: size classes over pages, each with a list of its free blocks.

use crate::spans::{PAGE, Spans};
use std::alloc::Layout;
use std::ptr::null_mut;

/// Largest block of a class. A larger allocation takes pages of its own.
const LARGEST: usize = 32 << 10;
/// Bytes that a class takes from the pages at a time.
const CHUNK: usize = 64 << 10;
/// Classes: multiples of 16 bytes up to 64, then four sizes for each power of two up to `LARGEST`.
const CLASSES: usize = 40;
/// Holes between large allocations, at most. Further holes are lost.
const HOLES: usize = 16 << 10;

/// The heap. All zero is a valid, empty heap. A block has no header, because its user knows its
/// layout.
#[repr(C)]
pub(crate) struct Heap {
    /// First free block of each class; a free block begins with the address of the next.
    free: [usize; CLASSES],
    pages: Spans<HOLES>,
}

/// Class of a layout, and the size of its blocks; `None` for a layout that takes pages.
fn class(layout: Layout) -> Option<(usize, usize)> {
    let size = layout.size().max(16);
    // Blocks lie at multiples of their size, so that a power of two is aligned to itself.
    let size = match layout.align() {
        ..=16 => size,
        align => size.max(align).next_power_of_two(),
    };
    if size > LARGEST {
        return None;
    }
    if size <= 64 {
        let index = size.div_ceil(16) - 1;
        return Some((index, (index + 1) * 16));
    }
    let power = (size - 1).ilog2();
    let (base, step) = (1_usize << power, 1_usize << (power - 2));
    let quarter = (size - base).div_ceil(step);
    let index = power as usize * 4 - 21 + quarter;
    Some((index, base + quarter * step))
}

fn pages_of(layout: Layout) -> usize {
    layout.size().next_multiple_of(PAGE)
}

impl Heap {
    /// Starts a heap over `start..end`, which is zero.
    pub fn reset(&mut self, start: usize, end: usize) {
        self.free = [0; CLASSES];
        self.pages.reset(start, end);
    }

    /// Allocates a block. Returns it with whether it is known to be zero; null if there is none.
    ///
    /// # Safety
    /// The range of `reset` belongs to this heap alone and is writable.
    pub unsafe fn alloc(&mut self, layout: Layout) -> (*mut u8, bool) {
        let Some((class, size)) = class(layout) else {
            return match self.pages.take(pages_of(layout), layout.align()) {
                Some((start, is_fresh)) => (start as *mut u8, is_fresh),
                None => (null_mut(), false),
            };
        };
        if self.free[class] == 0 {
            let Some((chunk, _)) = self.pages.take(CHUNK, CHUNK) else {
                return (null_mut(), false);
            };
            for block in (0..CHUNK / size).rev() {
                let block = chunk + block * size;
                // SAFETY: the block lies in the chunk, which is ours, aligned to 16 bytes.
                unsafe { *(block as *mut usize) = self.free[class] };
                self.free[class] = block;
            }
        }
        let block = self.free[class];
        // SAFETY: a free block begins with the address of the next.
        self.free[class] = unsafe { *(block as *const usize) };
        (block as *mut u8, false)
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `alloc` returned it, for this layout.
    pub unsafe fn free(&mut self, block: *mut u8, layout: Layout) {
        match class(layout) {
            None => self.pages.give(block as usize, pages_of(layout)),
            Some((class, _)) => {
                // SAFETY: the block is this heap's again.
                unsafe { *block.cast::<usize>() = self.free[class] };
                self.free[class] = block as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A heap over memory of the test.
    fn heap(bytes: usize) -> (Box<Heap>, Vec<u8>) {
        let memory = vec![0_u8; bytes + PAGE];
        let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
        // SAFETY: all zero is a valid heap.
        let mut heap: Box<Heap> = unsafe { Box::new_zeroed().assume_init() };
        heap.reset(start, start + bytes);
        (heap, memory)
    }

    #[test]
    fn a_class_fits_its_layout_and_wastes_a_third() {
        for size in 1..=LARGEST {
            let layout = Layout::from_size_align(size, 8).expect("a layout");
            let (index, block) = class(layout).expect("a class");
            assert!(index < CLASSES, "{size}: class {index}");
            assert!(block >= size && block.is_multiple_of(16), "{size}: {block}");
            assert!(size < 64 || block <= size + size / 3, "{size}: {block}");
        }
        let mut sizes = std::collections::BTreeMap::new();
        for size in 1..=LARGEST {
            let (index, block) =
                class(Layout::from_size_align(size, 16).expect("a layout")).expect("a class");
            assert_eq!(
                *sizes.entry(index).or_insert(block),
                block,
                "one size a class"
            );
        }
        let odd = Layout::from_size_align(100, 4096).expect("a layout");
        assert_eq!(class(odd).map(|(_, block)| block), Some(4096));
        let large = Layout::from_size_align(LARGEST + 1, 8).expect("a layout");
        assert_eq!(class(large), None);
    }

    /// Promise 69.
    #[test]
    fn any_order_of_allocations_keeps_every_byte_apart() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut heap, memory) = heap(16 << 20);
        let range = memory.as_ptr_range();
        let mut live: Vec<(*mut u8, Layout, u8)> = Vec::new();
        for round in 0..40_000_u32 {
            let full = live.len() > 400;
            if !live.is_empty() && (full || random.u32(0..5) < 2) {
                let (block, layout, mark) = live.swap_remove(random.usize(0..live.len()));
                // SAFETY: the block has that many bytes, all written.
                let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
                assert!(
                    bytes.iter().all(|byte| *byte == mark),
                    "somebody wrote there"
                );
                // SAFETY: allocated below, with this layout.
                unsafe { heap.free(block, layout) };
            } else {
                let size = match random.u32(0..10) {
                    0 => random.usize(1..200_000),
                    1..=3 => random.usize(1..8192),
                    _ => random.usize(1..256),
                };
                let layout =
                    Layout::from_size_align(size, 1 << random.u32(0..13)).expect("a layout");
                // SAFETY: the memory is the heap's alone.
                let (block, zero) = unsafe { heap.alloc(layout) };
                if block.is_null() {
                    continue;
                }
                assert_eq!(block as usize % layout.align(), 0);
                assert!(range.contains(&block.cast_const()), "outside");
                // SAFETY: the block has that many bytes.
                let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
                assert!(!zero || bytes.iter().all(|byte| *byte == 0), "not zero");
                bytes.fill(round as u8);
                live.push((block, layout, round as u8));
            }
        }
    }

    /// Promise 69.
    #[test]
    fn freed_memory_is_used_again_without_end() {
        let (mut heap, _memory) = heap(4 << 20);
        for n in 0..100_000_usize {
            let size = if n % 10 == 0 { 100_000 } else { 1 + n % 500 };
            let layout = Layout::from_size_align(size, 8).expect("a layout");
            // SAFETY: the memory is the heap's alone; the block is freed with its own layout.
            unsafe {
                let (block, _) = heap.alloc(layout);
                assert!(!block.is_null(), "exhausted at {n}");
                heap.free(block, layout);
            }
        }
    }
}
