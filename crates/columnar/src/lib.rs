//! Ledgers as columns: one schema, and Parquet files of it, written and read in bounded memory.
//!
//! A file holds the ledgers of one host. It has three kinds of rows, told apart by the column `kind`:
//! `interval` (one a record: what was measured, what failed), `container` (one a container and record)
//! and `flow` (who caused what who was charged). Each kind has row groups of its own, so that the
//! statistics of `kind` let a reader skip the others; columns of another kind are null, which costs a few
//! bytes a row group. The names of both sides of a flow stand in its row: no reader needs a join.
#![forbid(unsafe_code)]

mod column;
mod error;
mod reader;
mod rows;
mod transfer;
mod writer;

pub use column::{COLUMNS, Column, schema, text_rows};
pub use error::{ReadError, RowError, WriteError};
pub use reader::{Batches, Reader, Text};
pub use rows::Rows;
pub use transfer::{NO_CONTAINER, NOBODY, SMALL, SMALL_SHARE};
pub use writer::Writer;

/// Name and version of the schema. Within one number columns are only added.
pub const SCHEMA: &str = "cofferdam.columns/1";
/// Rows that a row group holds at most, and a writer keeps in memory for each kind.
pub const MOST_ROWS: usize = 1 << 16;
/// Distinct text that a writer keeps in memory for each kind, about; more begins a new row group.
pub const MOST_TEXT_BYTES: usize = 8 << 20;
/// Longest name of a host: Linux allows 64, a domain name 253.
pub const LONGEST_HOST_BYTES: usize = 255;

/// Key of the file's metadata under which [`SCHEMA`] stands.
pub const KEY_SCHEMA: &str = "cofferdam.schema";
/// Key under which the host's name stands.
pub const KEY_HOST: &str = "cofferdam.host";
/// Key under which the number of records stands.
pub const KEY_RECORDS: &str = "cofferdam.records";

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A record as a whole.
    Interval,
    /// A container in a record.
    Container,
    /// Who caused what who was charged, in a record.
    Flow,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Interval, Kind::Container, Kind::Flow];

    /// As in the column `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Interval => "interval",
            Kind::Container => "container",
            Kind::Flow => "flow",
        }
    }
}

#[cfg(test)]
mod tests;
