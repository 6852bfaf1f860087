//! Hash table of indices: open addressing, linear probing, removal by shifting back. The table does
//! not store the keys; the caller compares them by index.

/// Hash table of fixed size that is at most half full.
#[derive(Debug)]
pub struct Table {
    /// Upper half of the hash and index + 1; zero is an empty cell.
    cells: Vec<u64>,
    mask: usize,
    len: usize,
}

impl Table {
    /// A table for `most` entries.
    pub fn new(most: usize) -> Self {
        let size = (most.max(8) * 2).next_power_of_two();
        Self {
            cells: vec![0; size],
            mask: size - 1,
            len: 0,
        }
    }

    /// Number of entries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.len
    }

    fn home(&self, tag: u64) -> usize {
        tag as usize & self.mask
    }

    /// Index among the entries of this hash for which `is` returns `true`.
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = hash >> 32;
        let mut at = self.home(tag);
        loop {
            let cell = self.cells[at];
            if cell == 0 {
                return None;
            }
            if cell >> 32 == tag && is(cell as u32 - 1) {
                return Some(cell as u32 - 1);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds an index that the table does not contain. The caller keeps to the size that it
    /// requested.
    pub fn insert(&mut self, hash: u64, index: u32) {
        debug_assert!(
            self.len * 2 <= self.mask,
            "the table is fuller than was asked for"
        );
        let tag = hash >> 32;
        let mut at = self.home(tag);
        while self.cells[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.cells[at] = tag << 32 | u64::from(index + 1);
        self.len += 1;
    }

    /// Removes an index. Returns `false` if the table did not contain it.
    pub fn remove(&mut self, hash: u64, index: u32) -> bool {
        let tag = hash >> 32;
        let wanted = tag << 32 | u64::from(index + 1);
        let mut at = self.home(tag);
        while self.cells[at] != wanted {
            if self.cells[at] == 0 {
                return false;
            }
            at = (at + 1) & self.mask;
        }
        // Entries of the same run that could no longer be found move back.
        let mut next = at;
        loop {
            next = (next + 1) & self.mask;
            let cell = self.cells[next];
            if cell == 0 {
                break;
            }
            let home = self.home(cell >> 32);
            if (next.wrapping_sub(home) & self.mask) >= (next.wrapping_sub(at) & self.mask) {
                self.cells[at] = cell;
                at = next;
            }
        }
        self.cells[at] = 0;
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_table_agrees_with_a_map_despite_collisions() {
        let mut table = Table::new(300);
        let mut map = BTreeMap::new();
        let mut random = 1u64;
        for step in 0..200_000u32 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let index = (random >> 40) as u32 % 300;
            // 32 different hashes: long runs.
            let hash = u64::from(index % 32) << 32;
            let there = table.find(hash, |found| found == index).is_some();
            assert_eq!(there, map.contains_key(&index), "step {step}");
            if there {
                assert!(table.remove(hash, index));
                map.remove(&index);
            } else {
                table.insert(hash, index);
                map.insert(index, ());
            }
            assert_eq!(table.len(), map.len());
        }
        assert!(!table.remove(5 << 32, 299) || map.contains_key(&299));
    }
}
