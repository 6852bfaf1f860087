//! Data structures without protocol: keyed hash, table, timing wheel, lists of ranges. None of them
//! allocates after its construction.

pub mod chunks;
pub mod siphash;
pub mod slots;
pub mod table;
pub mod wheel;

/// Index that refers to nothing.
pub const NONE: u32 = u32::MAX;
