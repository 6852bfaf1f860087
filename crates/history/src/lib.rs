//! History: frames of the agent, stored for days within a bounded size.
//!
//! A [`Frame`] is one interval: the ledger with its diagnosis, and the conditions of containers.
//! The agent's [`Store`] appends one a second. It stores one hour of them, a day of ten seconds
//! each, and 30 days of minutes ([`TIERS`]). Coarser frames are exact sums of finer ones: CPU time,
//! packets and losses add up to the same totals. A [`Reader`] can read at the same time, in the
//! same process or in another one.
//!
//! The file is an SQLite database. A frame is one row with a checksum of its own, so that a crash
//! loses nothing that was committed, and a damaged row only itself.
//!
//! Frames age by *recorded time*, the sum of their lengths, not by the wall clock: a clock that
//! jumps removes nothing, and time without an agent does not count.
#![forbid(unsafe_code)]

mod body;
mod dictionary;
mod error;
mod files;
mod frame;
mod header;
mod prune;
mod reader;
mod row;
mod salvage;
mod state;
mod store;
mod sum;
mod tier;
mod timeline;
mod wall;

pub use body::decode;
pub use error::{AppendError, BadTime, Damage, OpenError, ReadError};
pub use frame::Frame;
pub use reader::Reader;
pub use store::set_aside;
pub use store::{Access, DEFAULT_LIMIT_BYTES, Limits, SMALLEST_LIMIT_BYTES, Store, Usage};
pub use sum::{Sum, sum_of_losses};
pub use tier::{TIERS, Tier};
