//! Rows of one kind, collected column by column.

use crate::column::{COLUMNS, Get, Row, RowContent};
use crate::error::RowError;
use crate::transfer::transfers;
use crate::{LONGEST_HOST_BYTES, MOST_ROWS, MOST_TEXT_BYTES, RowKind, schema};
use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMillisecondBuilder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use cofferdam_records::accounting::AccountingRecord;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Longest interval of a record, seconds: ten years.
const LONGEST_INTERVAL_S: f64 = 3.2e8;

/// Records as rows, until they are taken as batches of one kind each.
pub struct Rows {
    host: String,
    kinds: [Builder; 3],
    records: u64,
}

impl Rows {
    /// Creates an empty collection for `host`.
    ///
    /// # Errors
    /// The name cannot be that of a host.
    pub fn new(host: &str) -> Result<Rows, RowError> {
        if host.is_empty() || host.len() > LONGEST_HOST_BYTES {
            return Err(RowError::Host(host.chars().take(80).collect()));
        }
        Ok(Rows {
            host: host.to_owned(),
            kinds: RowKind::ALL.map(|_| Builder::new()),
            records: 0,
        })
    }

    /// Name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Number of records added so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds the rows of `record`. Afterwards [`Rows::full`] names a kind to take.
    ///
    /// # Errors
    /// The time or the length is invalid; nothing is added then.
    pub fn push(&mut self, record: &AccountingRecord) -> Result<(), RowError> {
        let time_ms = time_ms(record)?;
        let mut add = |of: RowContent<'_>| {
            let row = Row {
                host: &self.host,
                time_ms,
                record,
                of,
            };
            self.kinds[row.kind() as usize].push(&row);
        };
        add(RowContent::Interval);
        for container in &record.containers {
            add(RowContent::container(record, container));
        }
        for transfer in transfers(record) {
            add(RowContent::Transfer(transfer));
        }
        self.records += 1;
        Ok(())
    }

    /// Kind that has enough rows for a batch.
    pub fn full(&self) -> Option<RowKind> {
        RowKind::ALL.into_iter().find(|kind| {
            let builder = &self.kinds[*kind as usize];
            builder.rows >= MOST_ROWS || builder.text_bytes >= MOST_TEXT_BYTES
        })
    }

    /// Takes the rows of `kind`. `None` if there are none.
    pub fn take(&mut self, kind: RowKind) -> Option<RecordBatch> {
        let builder = &mut self.kinds[kind as usize];
        (builder.rows > 0).then(|| builder.finish())
    }
}

pub(crate) fn time_ms(record: &AccountingRecord) -> Result<i64, RowError> {
    let wrong = || RowError::Time(record.time.chars().take(80).collect());
    let time = humantime::parse_rfc3339(&record.time).map_err(|_| wrong())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| wrong())?;
    if !(0.0..LONGEST_INTERVAL_S).contains(&record.interval_s) {
        return Err(RowError::Length {
            time: record.time.clone(),
            interval_s: record.interval_s,
        });
    }
    i64::try_from(since.as_millis()).map_err(|_| wrong())
}

enum Values {
    Time(TimestampMillisecondBuilder),
    Text(StringBuilder),
    Count(UInt64Builder),
    Signed(Int64Builder),
    Number(Float64Builder),
    Flag(BooleanBuilder),
}

struct Builder {
    columns: Vec<Values>,
    rows: usize,
    text_bytes: usize,
}

impl Builder {
    fn new() -> Builder {
        let values = |get: &Get| match get {
            Get::Time(_) => Values::Time(TimestampMillisecondBuilder::new().with_timezone("UTC")),
            Get::Text(_) => Values::Text(StringBuilder::new()),
            Get::Count(_) => Values::Count(UInt64Builder::new()),
            Get::Signed(_) => Values::Signed(Int64Builder::new()),
            Get::Number(_) => Values::Number(Float64Builder::new()),
            Get::Flag(_) => Values::Flag(BooleanBuilder::new()),
        };
        Builder {
            columns: COLUMNS.iter().map(|c| values(&c.get)).collect(),
            rows: 0,
            text_bytes: 0,
        }
    }

    fn push(&mut self, row: &Row<'_>) {
        for (values, column) in self.columns.iter_mut().zip(COLUMNS) {
            match (values, column.get) {
                (Values::Time(to), Get::Time(get)) => to.append_value(get(row)),
                (Values::Text(to), Get::Text(get)) => {
                    let text = get(row);
                    self.text_bytes += text.map_or(0, str::len);
                    to.append_option(text);
                }
                (Values::Count(to), Get::Count(get)) => to.append_option(get(row)),
                (Values::Signed(to), Get::Signed(get)) => to.append_option(get(row)),
                (Values::Number(to), Get::Number(get)) => to.append_option(get(row)),
                (Values::Flag(to), Get::Flag(get)) => to.append_option(get(row)),
                _ => unreachable!("builders are made of the same columns"),
            }
        }
        self.rows += 1;
    }

    fn finish(&mut self) -> RecordBatch {
        (self.rows, self.text_bytes) = (0, 0);
        let finish = |values: &mut Values| -> ArrayRef {
            match values {
                Values::Time(values) => Arc::new(values.finish()),
                Values::Text(values) => Arc::new(values.finish()),
                Values::Count(values) => Arc::new(values.finish()),
                Values::Signed(values) => Arc::new(values.finish()),
                Values::Number(values) => Arc::new(values.finish()),
                Values::Flag(values) => Arc::new(values.finish()),
            }
        };
        let columns = self.columns.iter_mut().map(finish).collect();
        RecordBatch::try_new(schema(), columns).expect("each row has a value for each column")
    }
}
