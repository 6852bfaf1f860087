//! Data structures without protocol: keyed hash, table, timing wheel, ranges. None allocates
//! after it is made.

pub mod chunks;
pub mod siphash;
pub mod slots;
pub mod table;
pub mod wheel;

/// No index.
pub const NONE: u32 = u32::MAX;
