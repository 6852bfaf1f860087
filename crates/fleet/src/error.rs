//! Errors of reports.

use cofferdam_columnar::{ReadError, WriteError};
use datafusion_common::DataFusionError;
use parquet::errors::ParquetError;
use std::io;
use std::path::PathBuf;

/// Reason why a report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A file or folder cannot be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file has no known format.
    #[error(
        "{} is no ledger: neither JSON Lines (plain or gzip) nor Parquet nor a history",
        .0.display()
    )]
    Format(PathBuf),
    /// The file has no record.
    #[error("{} holds no record: leave it out, or record again", .0.display())]
    Empty(PathBuf),
    /// The folder has no ledgers.
    #[error("{} holds no ledgers (*.jsonl, *.jsonl.gz, *.parquet, history)", .0.display())]
    Nothing(PathBuf),
    /// A line is no record.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Fault of the line.
        reason: String,
    },
    /// The history of an agent cannot be read.
    #[error("{}: {reason}", path.display())]
    History {
        /// Path of the history.
        path: PathBuf,
        /// Cause.
        reason: String,
    },
    /// Two ledgers of one host cover the same time.
    #[error(
        "{} and {} both hold records of host '{}' between {from} and {to}: \
        they would be counted twice; leave one out, or name the hosts apart",
        first.display(), second.display(), host.escape_debug()
    )]
    Overlap {
        /// Host of both ledgers.
        host: String,
        /// Ledger that begins first.
        first: PathBuf,
        /// Other ledger.
        second: PathBuf,
        /// Begin of the common time.
        from: String,
        /// End of the common time.
        to: String,
    },
    /// A ledger has a record twice.
    #[error(
        "{} holds the record of {time} twice: it would be counted twice; \
        record or export it again",
        path.display()
    )]
    Twice {
        /// Path of the ledger.
        path: PathBuf,
        /// End of the record's interval.
        time: String,
    },
    /// `--host` was given with ledgers of several hosts.
    #[error(
        "--host names one host, but the ledgers are of '{}' and '{}': leave --host out",
        .0.escape_debug(),
        .1.escape_debug()
    )]
    Hosts(String, String),
    /// A ledger in Parquet form cannot be read.
    #[error(transparent)]
    Columns(#[from] ReadError),
    /// A temporary file cannot be written.
    #[error(transparent)]
    Convert(#[from] WriteError),
    /// The query engine failed.
    #[error("the query failed: {0}")]
    Query(String),
    /// The output exists already.
    #[error("{} exists: name another folder, or replace its report by --force", .0.display())]
    Exists(PathBuf),
    /// The output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A result cannot be written or read again.
    #[error("cannot write or read {}: {source}", path.display())]
    Result {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: ParquetError,
    },
    /// A chart cannot be drawn.
    #[error(transparent)]
    Draw(#[from] cofferdam_page::DrawError),
}

impl From<DataFusionError> for FleetError {
    fn from(error: DataFusionError) -> FleetError {
        // The engine wraps the message of a source in its own text.
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => FleetError::Query(
                "not enough memory or temporary disk for it: raise --memory, or name a roomier \
                 --temporary folder"
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

    /// Each kind of error that has a source, as the program prints it.
    /// Promise 76.
    #[test]
    fn no_error_repeats_its_cause() {
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
