//! The memory that an application sends from: pieces of three sizes.

/// Sizes of pieces, and which eighths of the memory they get.
const CLASSES: [(u32, u32); 3] = [(256, 1), (2048, 3), (16384, 4)];
/// Largest piece, in bytes.
pub const LARGEST: usize = 16384;

/// A piece of the memory that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte.
    pub offset: u32,
    /// Bytes in use.
    pub len: u32,
    class: u8,
}

/// Which pieces are free. Taking and giving back are O(1) and allocate nothing.
#[derive(Debug)]
pub(crate) struct Area {
    free: [Vec<u32>; CLASSES.len()],
}

impl Area {
    /// All of a memory of `len_bytes`.
    pub fn new(len_bytes: u32) -> Area {
        let mut start = 0;
        let free = CLASSES.map(|(size, eighths)| {
            let count = len_bytes / 8 * eighths / size;
            let offsets = (0..count).rev().map(|n| start + n * size).collect();
            start += count * size;
            offsets
        });
        Area { free }
    }

    /// Takes a piece that holds `len` bytes, or the largest there is; `None` when all are in
    /// use.
    pub fn take(&mut self, len: usize) -> Option<Piece> {
        let fits = |size: u32| size as usize >= len;
        let up = (0..CLASSES.len()).filter(|c| fits(CLASSES[*c].0));
        // A smaller piece takes the beginning: the caller sends the rest from another.
        let down = (0..CLASSES.len()).rev().filter(|c| !fits(CLASSES[*c].0));
        for class in up.chain(down) {
            if let Some(offset) = self.free[class].pop() {
                return Some(Piece {
                    offset,
                    len: CLASSES[class].0.min(u32::try_from(len).unwrap_or(u32::MAX)),
                    class: class as u8,
                });
            }
        }
        None
    }

    /// Whether there is any piece.
    pub fn has_room(&self) -> bool {
        self.free.iter().any(|free| !free.is_empty())
    }

    /// Gives a piece back.
    pub fn give(&mut self, piece: Piece) {
        if let Some(free) = self.free.get_mut(usize::from(piece.class)) {
            free.push(piece.offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap_and_come_back() {
        let len = 1 << 18;
        let mut area = Area::new(len);
        let mut used = vec![false; len as usize];
        let mut pieces = Vec::new();
        for wanted in (1..).map(|n: usize| n * 37 % 20_000 + 1) {
            let Some(piece) = area.take(wanted) else {
                break;
            };
            assert!(piece.len as usize <= wanted && piece.len > 0);
            for byte in &mut used[piece.offset as usize..(piece.offset + piece.len) as usize] {
                assert!(!*byte, "two pieces overlap");
                *byte = true;
            }
            pieces.push(piece);
        }
        let count = pieces.len();
        pieces.into_iter().for_each(|piece| area.give(piece));
        assert_eq!(std::iter::from_fn(|| area.take(1)).count(), count);
    }

    #[test]
    fn what_fits_a_small_piece_takes_no_large_one() {
        let mut area = Area::new(1 << 18);
        assert!(area.take(64).expect("a piece").offset < 1 << 15);
        assert_eq!(area.take(100_000).expect("a piece").len, LARGEST as u32);
    }
}
