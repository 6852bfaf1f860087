//! Free slots of a fixed array, with generations that make handles of earlier uses stale.

/// Free list of slots. The slot that was freed last is reused last, so that stale handles are
/// detected for long.
#[derive(Debug)]
pub struct Slots {
    next: Vec<u32>,
    generation: Vec<u32>,
    first: u32,
    last: u32,
    used: u32,
}

/// Mark of a slot in use.
const IN_USE: u32 = super::NONE - 1;

impl Slots {
    /// `count` free slots.
    pub fn new(count: u32) -> Self {
        let mut next: Vec<u32> = (1..=count).collect();
        if let Some(end) = next.last_mut() {
            *end = super::NONE;
        }
        Self {
            next,
            generation: vec![1; count as usize],
            first: if count == 0 { super::NONE } else { 0 },
            last: count.wrapping_sub(1),
            used: 0,
        }
    }

    /// Number of slots in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Number of all slots.
    pub fn count(&self) -> u32 {
        self.next.len() as u32
    }

    /// Allocates a slot.
    pub fn take(&mut self) -> Option<u32> {
        let slot = self.first;
        let next = self.next.get_mut(slot as usize)?;
        self.first = *next;
        *next = IN_USE;
        self.used += 1;
        Some(slot)
    }

    /// Frees a slot; its handles are stale from now on.
    pub fn free(&mut self, slot: u32) {
        debug_assert!(self.is_used(slot), "freed twice");
        self.generation[slot as usize] = self.generation[slot as usize].wrapping_add(1);
        self.next[slot as usize] = super::NONE;
        if self.first == super::NONE {
            self.first = slot;
        } else {
            self.next[self.last as usize] = slot;
        }
        self.last = slot;
        self.used -= 1;
    }

    /// Whether the slot is in use.
    pub fn is_used(&self, slot: u32) -> bool {
        self.next.get(slot as usize) == Some(&IN_USE)
    }

    /// Generation of the slot.
    pub fn generation(&self, slot: u32) -> u32 {
        self.generation[slot as usize]
    }

    /// Index of the slot that a handle refers to, unless the handle is stale.
    pub fn check(&self, slot: u32, generation: u32) -> Option<usize> {
        (self.is_used(slot) && self.generation(slot) == generation).then_some(slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut slots = Slots::new(2);
        let (a, b) = (slots.take().unwrap(), slots.take().unwrap());
        assert_eq!((slots.take(), slots.used()), (None, 2));
        let old = slots.generation(a);
        slots.free(a);
        assert_eq!(slots.check(a, old), None);
        assert_eq!(slots.take(), Some(a));
        assert_eq!(slots.check(a, old), None);
        assert_eq!(slots.check(b, slots.generation(b)), Some(b as usize));
        assert_eq!(slots.check(7, 1), None);
        assert_eq!(Slots::new(0).take(), None);
    }
}
