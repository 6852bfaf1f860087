//! Writer of a file of one host.

use crate::error::WriteError;
use crate::{KEY_HOST, KEY_RECORDS, KEY_SCHEMA, MOST_ROWS, RowKind, Rows, SCHEMA, schema};
use cofferdam_records::accounting::AccountingRecord;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Writes records to a Parquet file while they come, with at most [`MOST_ROWS`] rows of each kind
/// in memory.
///
/// A file is complete only after [`Writer::finish`]. Dropping the writer before that removes it.
pub struct Writer {
    path: PathBuf,
    rows: Rows,
    /// `None` after the end.
    file: Option<ArrowWriter<File>>,
}

impl Writer {
    /// Begins the file `path` for records of `host`.
    ///
    /// # Errors
    /// `path` exists or cannot be created, or `host` is no name of a host.
    pub fn create(path: &Path, host: &str) -> Result<Writer, WriteError> {
        let rows = Rows::new(host)?;
        let sink = File::create_new(path).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => WriteError::Exists(path.to_owned()),
            _ => WriteError::Create {
                path: path.to_owned(),
                source,
            },
        })?;
        let key = |name: &str, value: &str| KeyValue::new(name.to_owned(), value.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("cofferdam ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_max_row_group_row_count(Some(MOST_ROWS))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_key_value_metadata(Some(vec![key(KEY_SCHEMA, SCHEMA), key(KEY_HOST, host)]))
            .build();
        // Parquet's own types express all that ours do.
        let options = ArrowWriterOptions::new()
            .with_properties(properties)
            .with_skip_arrow_metadata(true);
        let file = ArrowWriter::try_new_with_options(sink, schema(), options);
        Ok(Writer {
            path: path.to_owned(),
            rows,
            file: Some(file.map_err(|source| failed(path, source))?),
        })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// The record has no valid time or length (the file can continue), or no more can be written.
    pub fn write(&mut self, record: &AccountingRecord) -> Result<(), WriteError> {
        self.rows.push(record)?;
        while let Some(kind) = self.rows.full() {
            self.flush(kind)?;
        }
        Ok(())
    }

    /// Ends the file. Returns the number of records.
    ///
    /// # Errors
    /// The rest cannot be written.
    pub fn finish(mut self) -> Result<u64, WriteError> {
        for kind in RowKind::ALL {
            self.flush(kind)?;
        }
        let records = self.rows.records();
        let file = self.file.as_mut().expect("ended only here");
        file.append_key_value_metadata(KeyValue::new(KEY_RECORDS.to_owned(), records.to_string()));
        file.finish().map_err(|source| failed(&self.path, source))?;
        self.file = None;
        Ok(records)
    }

    /// Writes the rows of `kind` as a row group of their own.
    fn flush(&mut self, kind: RowKind) -> Result<(), WriteError> {
        let Some(batch) = self.rows.take(kind) else {
            return Ok(());
        };
        let file = self.file.as_mut().expect("ended only by finish");
        let written = file.write(&batch).and_then(|()| file.flush());
        written.map_err(|source| failed(&self.path, source))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // An incomplete file is useless; a reader would refuse it.
            let _stays = fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, source: ParquetError) -> WriteError {
    WriteError::Write {
        path: path.to_owned(),
        source,
    }
}
