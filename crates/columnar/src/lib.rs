//! Ledgers as columns: one schema, and Parquet files of it, written and read in bounded memory.
//!
//! A file has the ledgers of one host. The column `kind` distinguishes three kinds of rows:
//! `interval` (one per record: measurements and failures), `container` (one per container and
//! record) and `flow` (one per transfer). Each kind has row groups of its own, so that the
//! statistics of `kind` let a reader skip the others. Columns of another kind are null, which costs
//! a few bytes a row group. A transfer's row has the names of both sides: no reader needs a join.
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

/// Name and version of the schema. Within one number, columns are only added.
pub const SCHEMA: &str = "cofferdam.columns/1";
/// Limit on the rows of a row group, which a writer holds in memory for each kind.
pub const MOST_ROWS: usize = 1 << 16;
/// Approximate limit on the distinct text that a writer holds in memory for each kind; more begins
/// a new row group.
pub const MOST_TEXT_BYTES: usize = 8 << 20;
/// Longest name of a host: Linux allows 64 bytes, a domain name 253.
pub const LONGEST_HOST_BYTES: usize = 255;

/// Key of the file's metadata with [`SCHEMA`].
pub const KEY_SCHEMA: &str = "cofferdam.schema";
/// Key with the name of the host.
pub const KEY_HOST: &str = "cofferdam.host";
/// Key with the number of records.
pub const KEY_RECORDS: &str = "cofferdam.records";

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowKind {
    /// Record as a whole.
    Interval,
    /// Container in a record.
    Container,
    /// Transfer in a record.
    Transfer,
}

impl RowKind {
    /// All kinds.
    pub const ALL: [RowKind; 3] = [RowKind::Interval, RowKind::Container, RowKind::Transfer];

    /// Name in the column `kind`.
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Interval => "interval",
            RowKind::Container => "container",
            RowKind::Transfer => "flow",
        }
    }
}

#[cfg(test)]
mod tests;
