//! Memory that an application sends from: blocks, each divided into pieces of one of three sizes.
//!
//! A block gets its size when one of its pieces is first needed, and loses it when all its pieces
//! are free. No size thus keeps memory that another lacks.

/// Sizes of pieces in bytes.
const CLASSES: [u32; 3] = [256, 2048, 16384];
/// Largest piece, in bytes.
pub const LARGEST: usize = 16384;
/// Bytes of a block: one largest piece.
const BLOCK_BYTES: u32 = LARGEST as u32;
/// Class whose pieces are whole blocks.
const WHOLE: usize = CLASSES.len() - 1;

/// A piece of the memory that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offset of the first byte.
    pub offset: u32,
    /// Bytes in use.
    pub len: u32,
    class: u8,
}

impl Piece {
    /// Bytes that no other piece can use meanwhile.
    pub fn cost_bytes(&self) -> u32 {
        CLASSES.get(usize::from(self.class)).copied().unwrap_or(0)
    }
}

/// A block with pieces in use.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// A bit for each free piece.
    free: u64,
    /// Position among the blocks with free pieces of its class, if it has free pieces.
    at: u32,
}

/// The free pieces. Taking and freeing are O(1).
#[derive(Debug)]
pub(crate) struct Area {
    blocks: Vec<Block>,
    /// Blocks that are free as a whole. The block that was freed last is used next.
    whole: Vec<u32>,
    /// Blocks of each smaller class that are free in part.
    partial: [Vec<u32>; WHOLE],
    free_bytes: u32,
}

/// A bit for each piece of a block.
fn all_pieces(class: usize) -> u64 {
    let count = BLOCK_BYTES / CLASSES[class];
    u64::MAX >> (64 - count)
}

impl Area {
    /// A memory of `len_bytes`, all free.
    pub fn new(len_bytes: u32) -> Area {
        let count = len_bytes / BLOCK_BYTES;
        Area {
            blocks: vec![Block::default(); count as usize],
            whole: (0..count).rev().collect(),
            partial: std::array::from_fn(|_| Vec::new()),
            free_bytes: count * BLOCK_BYTES,
        }
    }

    /// Takes a piece of at most `most_bytes` that holds `len` bytes, or else the largest one;
    /// `None` if no piece is free.
    pub fn take(&mut self, len: usize, most_bytes: u32) -> Option<Piece> {
        let fits = |size: u32| size as usize >= len;
        let up = (0..CLASSES.len()).filter(|c| fits(CLASSES[*c]));
        // A smaller piece takes the first bytes; the caller sends the rest from another piece.
        let down = (0..CLASSES.len()).rev().filter(|c| !fits(CLASSES[*c]));
        let classes = up.chain(down).filter(|c| CLASSES[*c] <= most_bytes);
        for class in classes {
            if let Some(offset) = self.take_of(class) {
                self.free_bytes -= CLASSES[class];
                return Some(Piece {
                    offset,
                    len: CLASSES[class].min(u32::try_from(len).unwrap_or(u32::MAX)),
                    class: class as u8,
                });
            }
        }
        None
    }

    fn take_of(&mut self, class: usize) -> Option<u32> {
        let Some(partial) = self.partial.get_mut(class) else {
            return self.whole.pop().map(|block| block * BLOCK_BYTES);
        };
        let number = match partial.last() {
            Some(number) => *number,
            None => {
                let number = self.whole.pop()?;
                let block = self.blocks.get_mut(number as usize)?;
                (block.free, block.at) = (all_pieces(class), 0);
                partial.push(number);
                number
            }
        };
        let block = self.blocks.get_mut(number as usize)?;
        let piece = block.free.trailing_zeros();
        block.free &= block.free - 1;
        if block.free == 0 {
            // The block is the last one of the list.
            partial.pop();
        }
        Some(number * BLOCK_BYTES + piece * CLASSES[class])
    }

    /// Bytes of all free pieces.
    pub fn free_bytes(&self) -> u32 {
        self.free_bytes
    }

    /// Whether any piece is free.
    pub fn has_room(&self) -> bool {
        self.free_bytes > 0
    }

    /// Frees a piece.
    pub fn give(&mut self, piece: Piece) {
        let number = piece.offset / BLOCK_BYTES;
        self.free_bytes += piece.cost_bytes();
        let class = usize::from(piece.class);
        let Some(partial) = self.partial.get_mut(class) else {
            return self.whole.push(number);
        };
        let Some(block) = self.blocks.get_mut(number as usize) else {
            return;
        };
        if block.free == 0 {
            block.at = partial.len() as u32;
            partial.push(number);
        }
        block.free |= 1 << (piece.offset % BLOCK_BYTES / CLASSES[class]);
        if block.free != all_pieces(class) {
            return;
        }
        let at = block.at;
        partial.swap_remove(at as usize);
        if let Some(moved) = partial.get(at as usize)
            && let Some(moved) = self.blocks.get_mut(*moved as usize)
        {
            moved.at = at;
        }
        self.whole.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: u32 = u32::MAX;

    /// Promise 70.
    #[test]
    fn pieces_of_any_size_never_overlap_and_all_return() {
        let len: u32 = 1 << 18;
        let mut area = Area::new(len);
        let mut random = fastrand::Rng::with_seed(12);
        let mut used = vec![false; len as usize];
        let mut pieces: Vec<Piece> = Vec::new();
        for _ in 0..50_000 {
            let is_full = area.free_bytes() == 0;
            if !is_full && random.u8(..) < 130 {
                let wanted = 1 << random.u32(0..15);
                if let Some(piece) = area.take(wanted, ANY) {
                    assert!(piece.len as usize <= wanted && piece.len > 0);
                    let bytes = piece.offset..piece.offset + piece.cost_bytes();
                    for byte in &mut used[bytes.start as usize..bytes.end as usize] {
                        assert!(!std::mem::replace(byte, true), "two pieces overlap");
                    }
                    pieces.push(piece);
                }
            } else if !pieces.is_empty() {
                let piece = pieces.swap_remove(random.usize(..pieces.len()));
                let bytes = piece.offset..piece.offset + piece.cost_bytes();
                used[bytes.start as usize..bytes.end as usize].fill(false);
                area.give(piece);
            }
            let cost: u32 = pieces.iter().map(Piece::cost_bytes).sum();
            assert_eq!(area.free_bytes() + cost, len);
        }
        pieces.drain(..).for_each(|piece| area.give(piece));
        // The whole memory can be used for any size.
        for (size, count) in [(256, len / 256), (2048, len / 2048), (16384, len / 16384)] {
            let taken: Vec<Piece> = std::iter::from_fn(|| area.take(size, ANY)).collect();
            assert_eq!(taken.len() as u32, count);
            taken.into_iter().for_each(|piece| area.give(piece));
        }
    }

    /// Promise 70.
    #[test]
    fn a_piece_is_no_larger_than_allowed_and_than_needed() {
        let mut area = Area::new(1 << 18);
        let mut cost = |len, most| area.take(len, most).map(|piece| piece.cost_bytes());
        assert_eq!(cost(64, ANY), Some(256));
        assert_eq!(cost(257, ANY), Some(2048));
        assert_eq!(cost(100_000, ANY), Some(16384));
        assert_eq!(cost(100_000, 16383), Some(2048));
        assert_eq!(cost(100_000, 256), Some(256));
        assert_eq!(cost(1, 255), None);
    }
}
