//! Table of reusable slots, with a generation that distinguishes old names from new ones.

/// Table of `T`.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

/// Name of an entry: its slot, and its generation in the upper half.
pub type Name = u64;

impl<T> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub fn add(&mut self, make: impl FnOnce(Name) -> T) -> Name {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        // The generation has 24 bits, because names are tagged.
        entry.0 = (entry.0 + 1) & 0xff_ffff;
        let name = u64::from(entry.0) << 32 | u64::from(index);
        entry.1 = Some(make(name));
        name
    }

    pub fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        let (generation, entry) = self.entries.get_mut(name as u32 as usize)?;
        (u64::from(*generation) == name >> 32).then_some(entry.as_mut())?
    }

    pub fn remove(&mut self, name: Name) -> Option<T> {
        self.get_mut(name)?;
        let removed = self.entries.get_mut(name as u32 as usize)?.1.take();
        self.free.push(name as u32);
        removed
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    /// Names of all entries.
    pub fn names(&self) -> Vec<Name> {
        let entries = (0_u64..).zip(&self.entries);
        let used = entries.filter(|(_, (_, entry))| entry.is_some());
        used.map(|(index, (generation, _))| u64::from(*generation) << 32 | index)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_name_is_never_reused() {
        let mut slots = Slots::new();
        assert!(slots.is_empty());
        let first = slots.add(|_| 'a');
        let other = slots.add(|_| 'b');
        assert_eq!(slots.remove(first), Some('a'));
        let second = slots.add(|_| 'c');
        assert_eq!(first as u32, second as u32, "the entry is used again");
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut 'c'));
        assert_eq!(slots.names().len(), 2);
        assert_eq!(slots.get_mut(other), Some(&mut 'b'));
        assert!(!slots.is_empty());
        slots.remove(second);
        slots.remove(other);
        assert!(slots.is_empty());
    }
}
