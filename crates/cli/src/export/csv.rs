//! Comma-separated values (RFC 4180): a row for each container and interval, with the columns of
//! Parquet.

use cofferdam_columnar::{COLUMNS, text_rows};
use cofferdam_records::accounting::AccountingRecord;
use std::io::{self, Write};

/// Writer of rows.
pub struct Rows<W: Write> {
    to: csv::Writer<W>,
    host: String,
}

impl<W: Write> Rows<W> {
    /// Writes the heading, for records of `host`.
    pub fn new(to: W, host: String) -> io::Result<Rows<W>> {
        let mut to = csv::WriterBuilder::new().from_writer(to);
        to.write_record(COLUMNS.iter().map(|column| column.name))?;
        Ok(Rows { to, host })
    }

    /// Writes the rows of one interval.
    pub fn write(&mut self, record: &AccountingRecord) -> io::Result<()> {
        for row in text_rows(&self.host, record).map_err(io::Error::other)? {
            self.to.write_record(row)?;
        }
        Ok(())
    }

    /// Flushes the rows and returns the underlying writer.
    pub fn finish(self) -> io::Result<W> {
        self.to
            .into_inner()
            .map_err(|e| io::Error::new(e.error().kind(), e.to_string()))
    }
}
