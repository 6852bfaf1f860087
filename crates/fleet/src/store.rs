//! Parquet files of results: written while they are computed, read again as sources.

use crate::engine::{Batches, Source};
use crate::error::FleetError;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Name and version of the schema of results. Within one number, columns are only added.
pub const SCHEMA: &str = "cofferdam.fleet/1";
/// Rows of a row group, which a writer holds in memory.
const GROUP_ROWS: usize = 1 << 16;
/// Nanoseconds of a second.
const NS: f64 = 1e9;

/// Column of text.
pub fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8View, true)
}

/// Column of numbers.
pub fn number(name: &str) -> Field {
    Field::new(name, DataType::Float64, false)
}

/// Schema with these columns.
pub fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

/// Writes the batches of `rows` to a Parquet file at `path`. Returns the number of rows.
///
/// # Errors
/// A row cannot be computed or written.
pub fn write(
    path: &Path,
    schema: &SchemaRef,
    rows: impl Iterator<Item = Result<RecordBatch, FleetError>>,
) -> Result<u64, FleetError> {
    let failed = |source: ParquetError| FleetError::Result {
        path: path.to_owned(),
        source,
    };
    let file = File::create(path).map_err(|source| FleetError::Write {
        path: path.to_owned(),
        source,
    })?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("cofferdam ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_key_value_metadata(Some(vec![KeyValue::new(
            cofferdam_columnar::KEY_SCHEMA.to_owned(),
            SCHEMA.to_owned(),
        )]))
        .build();
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let mut writer =
        ArrowWriter::try_new_with_options(file, Arc::clone(schema), options).map_err(failed)?;
    let mut count = 0;
    for batch in rows {
        let batch = batch?;
        count += batch.num_rows() as u64;
        writer.write(&batch).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(count)
}

/// Source of the rows of `path` in batches of `schema`.
pub fn read(path: &Path, schema: &SchemaRef) -> Source {
    let (path, own) = (path.to_owned(), Arc::clone(schema));
    Source {
        schema: Arc::clone(schema),
        open: Arc::new(move || match open(&path, &own) {
            Ok(batches) => batches,
            Err(e) => Box::new(std::iter::once(Err(e))),
        }),
    }
}

fn open(path: &Path, schema: &SchemaRef) -> Result<Batches, FleetError> {
    let failed = |source: ParquetError| FleetError::Result {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(|source| FleetError::Read {
        path: path.to_owned(),
        source,
    })?;
    let options = ArrowReaderOptions::new().with_schema(Arc::clone(schema));
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .map_err(failed)?;
    let path = path.to_owned();
    Ok(Box::new(reader.map(move |batch| {
        batch.map_err(|e| FleetError::Result {
            path: path.clone(),
            source: e.into(),
        })
    })))
}

/// Source that converts every batch of `source` to `schema`.
pub fn shaped(
    source: Source,
    schema: &SchemaRef,
    shape: impl Fn(&RecordBatch) -> Vec<ArrayRef> + Send + Sync + 'static,
) -> Source {
    let own = Arc::clone(schema);
    let shape = Arc::new(shape);
    Source {
        schema: Arc::clone(schema),
        open: Arc::new(move || {
            let (own, shape) = (Arc::clone(&own), Arc::clone(&shape));
            Box::new((source.open)().map(move |batch| batch_of(&own, shape(&batch?))))
        }),
    }
}

/// Concatenation of several sources of one schema.
///
/// # Panics
/// If there is no source.
pub fn chained(sources: Vec<Source>) -> Source {
    let schema = Arc::clone(&sources[0].schema);
    Source {
        schema,
        open: Arc::new(move || {
            let sources = sources.clone();
            Box::new(sources.into_iter().flat_map(|s| (s.open)()))
        }),
    }
}

/// Builds a batch of `schema`.
///
/// # Errors
/// The columns do not fit the schema.
pub fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, FleetError> {
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|e| FleetError::Query(e.to_string()))
}

/// Column `name` of a batch of our own schemas.
pub fn column<'a>(batch: &'a RecordBatch, name: &str) -> &'a ArrayRef {
    batch
        .column_by_name(name)
        .expect("the schemas of results are our own")
}

/// Column `name` as text.
pub fn texts<'a>(batch: &'a RecordBatch, name: &str) -> &'a StringViewArray {
    let column = column(batch, name).as_any();
    column
        .downcast_ref()
        .expect("the schemas of results are our own")
}

/// Column `name` as numbers.
pub fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> &'a Float64Array {
    let column = column(batch, name).as_any();
    column
        .downcast_ref()
        .expect("the schemas of results are our own")
}

/// Column of nanoseconds, or of a count with `unit` 1, as numbers.
pub fn scaled(batch: &RecordBatch, name: &str, unit: f64) -> Float64Array {
    let column = column(batch, name).as_any();
    if let Some(values) = column.downcast_ref::<UInt64Array>() {
        return values
            .iter()
            .map(|v| v.unwrap_or(0) as f64 / unit)
            .collect();
    }
    if let Some(values) = column.downcast_ref::<Int64Array>() {
        return values
            .iter()
            .map(|v| v.unwrap_or(0) as f64 / unit)
            .collect();
    }
    let values: &Float64Array = column.downcast_ref().expect("a number");
    values.iter().map(|v| v.unwrap_or(0.0) / unit).collect()
}

/// Column of nanoseconds as seconds.
pub fn seconds(batch: &RecordBatch, name: &str) -> ArrayRef {
    Arc::new(scaled(batch, name, NS))
}

/// Column of the same number, as long as `batch`.
pub fn constant(batch: &RecordBatch, value: f64) -> ArrayRef {
    Arc::new(Float64Array::from(vec![value; batch.num_rows()]))
}
