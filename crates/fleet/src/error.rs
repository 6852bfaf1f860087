//! What goes wrong.

use cofferdam_columnar::{ReadError, WriteError};
use datafusion_common::DataFusionError;
use parquet::errors::ParquetError;
use std::io;
use std::path::PathBuf;

/// A report that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Something cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of no known format.
    #[error("{} is no ledger: neither JSON Lines (plain or gzip) nor Parquet nor a history", .0.display())]
    Format(PathBuf),
    /// A file without a record.
    #[error("{} holds no record: leave it out, or record again", .0.display())]
    Empty(PathBuf),
    /// A folder without ledgers.
    #[error("{} holds no ledgers (*.jsonl, *.jsonl.gz, *.parquet, history)", .0.display())]
    Nothing(PathBuf),
    /// A line that is no record.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// Of which file.
        path: PathBuf,
        /// Its number, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// An agent's history.
    #[error("{}: {reason}", path.display())]
    History {
        /// Where it is.
        path: PathBuf,
        /// Why it cannot be read.
        reason: String,
    },
    /// Two ledgers of one host tell of the same time.
    #[error(
        "{} and {} both hold records of host '{}' between {from} and {to}: they would be counted twice; leave one out, or name the hosts apart",
        first.display(), second.display(), host.escape_debug()
    )]
    Overlap {
        /// Whose.
        host: String,
        /// The one that began first.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// Begin of what both have.
        from: String,
        /// Its end.
        to: String,
    },
    /// A ledger holds a record twice.
    #[error("{} holds the record of {time} twice: it would be counted twice; record or export it again", path.display())]
    Twice {
        /// Which.
        path: PathBuf,
        /// End of the record's interval.
        time: String,
    },
    /// `--host` with ledgers of several hosts.
    #[error("--host names one host, but the ledgers are of '{}' and '{}': leave --host out", .0.escape_debug(), .1.escape_debug())]
    Hosts(String, String),
    /// A ledger as Parquet.
    #[error(transparent)]
    Columns(#[from] ReadError),
    /// A temporary file.
    #[error(transparent)]
    Convert(#[from] WriteError),
    /// The query engine.
    #[error("the query failed: {0}")]
    Query(String),
    /// The output is there already.
    #[error("{} exists: name another folder, or replace its report by --force", .0.display())]
    Exists(PathBuf),
    /// The output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A result cannot be written or read again.
    #[error("cannot write or read {}: {source}", path.display())]
    Result {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// A chart.
    #[error(transparent)]
    Draw(#[from] cofferdam_page::DrawError),
}

impl From<DataFusionError> for FleetError {
    fn from(error: DataFusionError) -> FleetError {
        // What a source said stands inside of what the engine says around it.
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => FleetError::Query(
                "not enough memory or temporary disk for it: raise --memory, or name a roomier --temporary folder"
                    .to_owned(),
            ),
            DataFusionError::External(source) => FleetError::Query(source.to_string()),
            root => FleetError::Query(root.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_fleet_args::error_chain;

    /// Each kind that has a source, as the program prints it.
    /// Promise 76.
    #[test]
    fn no_error_gives_its_cause_twice() {
        let path = || PathBuf::from("/nosuch");
        let io = || io::Error::from_raw_os_error(2);
        let parquet = || ParquetError::External(Box::new(io()));
        let all = [
            FleetError::Read {
                path: path(),
                source: io(),
            },
            FleetError::Write {
                path: path(),
                source: io(),
            },
            FleetError::Result {
                path: path(),
                source: parquet(),
            },
            FleetError::from(DataFusionError::IoError(io())),
            FleetError::from(DataFusionError::External(Box::new(io()))),
        ];
        for error in all {
            let text = error_chain(&error);
            assert_eq!(text.matches("No such file").count(), 1, "{text}");
        }
    }
}
