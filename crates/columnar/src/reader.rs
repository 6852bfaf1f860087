//! Reader of a file. It refuses a foreign file before it reads a row.

use crate::error::ReadError;
use crate::{COLUMNS, Column, KEY_HOST, KEY_RECORDS, KEY_SCHEMA, RowKind, SCHEMA};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::statistics::Statistics;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limit on the rows of a batch.
const BATCH_ROWS: usize = 8192;

/// Arrow type of text columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// `Utf8`: plain.
    Plain,
    /// `Utf8View`: the type that query engines group fastest.
    View,
}

/// File of one host.
pub struct Reader {
    path: PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
    host: String,
}

impl Reader {
    /// Opens `path` and reads its footer.
    ///
    /// # Errors
    /// The file cannot be read, is truncated, or does not have [`SCHEMA`].
    pub fn open(path: &Path) -> Result<Reader, ReadError> {
        let unopened = |source| ReadError::Open {
            path: path.to_owned(),
            source,
        };
        let file = cofferdam_paths::open_regular(path).map_err(|why| unopened(why.into()))?;
        if file.metadata().map_err(unopened)?.len() == 0 {
            return Err(ReadError::Empty(path.to_owned()));
        }
        let broken = |source| ReadError::Broken {
            path: path.to_owned(),
            source,
        };
        let load = || ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
        let metadata = catch_panics(load).map_err(broken)?;
        let key = |key| metadata_value(&metadata, key);
        let foreign = |key| ReadError::Foreign {
            path: path.to_owned(),
            key,
        };
        let schema = key(KEY_SCHEMA).ok_or_else(|| foreign(KEY_SCHEMA))?;
        if schema != SCHEMA {
            return Err(ReadError::OtherSchema {
                path: path.to_owned(),
                found: schema.chars().take(80).collect(),
            });
        }
        let host = key(KEY_HOST).ok_or_else(|| foreign(KEY_HOST))?.to_owned();
        Ok(Reader {
            path: path.to_owned(),
            file,
            host,
            metadata,
        })
    }

    /// Host of the ledgers.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Number of records, according to the writer.
    pub fn records(&self) -> Option<u64> {
        metadata_value(&self.metadata, KEY_RECORDS)?.parse().ok()
    }

    /// Rows of `kind` with these columns, in the order of [`COLUMNS`].
    ///
    /// # Errors
    /// The file lacks a column, or mixes kinds of rows.
    pub fn rows(&self, kind: RowKind, columns: &[&str], text: Text) -> Result<Batches, ReadError> {
        let groups = self.groups(kind)?;
        let wanted: Vec<&Column> = COLUMNS
            .iter()
            .filter(|c| columns.contains(&c.name))
            .collect();
        let fields = self.metadata.schema().fields();
        for column in &wanted {
            let expected = column.data_type();
            let field = fields.iter().find(|f| f.name() == column.name);
            if field.is_none_or(|f| *f.data_type() != expected) {
                return Err(ReadError::Column {
                    path: self.path.clone(),
                    column: column.name.to_owned(),
                    expected: expected.to_string(),
                });
            }
        }
        let rows = |source| ReadError::Rows {
            path: self.path.clone(),
            source,
        };
        let typed: Vec<Field> = fields
            .iter()
            .map(|f| match (f.data_type(), text) {
                (DataType::Utf8, Text::View) => {
                    f.as_ref().clone().with_data_type(DataType::Utf8View)
                }
                _ => f.as_ref().clone(),
            })
            .collect();
        let options = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(typed)));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(self.metadata.metadata()), options)
            .map_err(rows)?;
        let file = self.file.try_clone().map_err(|source| ReadError::Open {
            path: self.path.clone(),
            source,
        })?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
        let mask = ProjectionMask::columns(builder.parquet_schema(), wanted.iter().map(|c| c.name));
        let builder = builder
            .with_row_groups(groups)
            .with_projection(mask)
            .with_batch_size(BATCH_ROWS);
        Ok(Batches {
            path: self.path.clone(),
            reader: Some(catch_panics(|| builder.build()).map_err(rows)?),
        })
    }

    /// Row groups of `kind`, by the statistics of the column `kind`.
    fn groups(&self, kind: RowKind) -> Result<Vec<usize>, ReadError> {
        let mut found = Vec::new();
        for (group, metadata) in self.metadata.metadata().row_groups().iter().enumerate() {
            let chunk = metadata
                .columns()
                .iter()
                .find(|c| c.column_path().string() == "kind");
            let bounds = match chunk.and_then(|c| c.statistics()) {
                Some(Statistics::ByteArray(s)) => s.min_opt().zip(s.max_opt()),
                _ => None,
            };
            let only = bounds.filter(|(min, max)| min.data() == max.data());
            let Some((name, _)) = only else {
                return Err(ReadError::Mixed {
                    path: self.path.clone(),
                    group,
                });
            };
            if name.data() == kind.name().as_bytes() {
                found.push(group);
            }
        }
        Ok(found)
    }
}

fn metadata_value<'a>(metadata: &'a ArrowReaderMetadata, key: &str) -> Option<&'a str> {
    let pairs = metadata.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

/// Runs `read`. The Parquet library panics on some damaged files: that becomes an error of the
/// file, and does not end the program.
fn catch_panics<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let what = "its bytes do not decode: it is damaged";
        Err(ParquetError::General(what.to_owned()))
    })
}

/// Batches of rows.
pub struct Batches {
    path: PathBuf,
    /// `None` after an error: the state of the reader is undefined then.
    reader: Option<ParquetRecordBatchReader>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        let next = catch_panics(|| reader.next().transpose().map_err(ParquetError::from));
        if next.is_err() {
            self.reader = None;
        }
        next.map_err(|source| ReadError::Rows {
            path: self.path.clone(),
            source,
        })
        .transpose()
    }
}
