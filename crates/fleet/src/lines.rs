//! Reader of JSON Lines, record by record, in bounded memory.

use crate::error::FleetError;
use crate::find::{Format, LedgerFile};
use cofferdam_paths::open_regular;
use cofferdam_records::accounting::{ACCOUNTING, AccountingRecord};
use flate2::read::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest line that is read. A record of ten thousand containers on a hundred CPUs takes a third
/// of it.
pub const LONGEST_LINE_BYTES: u64 = 64 << 20;

/// Line of a file.
#[derive(Debug)]
pub enum Line {
    /// Next record of the file.
    Record(Box<AccountingRecord>),
    /// Last line, which its writer did not finish.
    CutOff,
}

/// Records of a file.
pub struct Lines {
    path: PathBuf,
    input: Box<dyn BufRead>,
    line: u64,
    text: Vec<u8>,
    is_over: bool,
}

impl Lines {
    /// Opens a file of lines.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(found: &LedgerFile) -> Result<Lines, FleetError> {
        let path = found.path.clone();
        let file = open_regular(&path).map_err(|why| FleetError::Read {
            path: path.clone(),
            source: why.into(),
        })?;
        let input: Box<dyn BufRead> = match found.format {
            Format::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(BufReader::new(file)))),
            _ => Box::new(BufReader::new(file)),
        };
        Ok(Lines::of(path, input))
    }

    /// Reads the lines of `input`, which messages call `path`.
    pub fn of(path: PathBuf, input: Box<dyn BufRead>) -> Lines {
        Lines {
            path,
            input,
            line: 0,
            text: Vec::new(),
            is_over: false,
        }
    }

    fn read(&mut self) -> Result<Option<Line>, FleetError> {
        while !self.is_over {
            self.text.clear();
            self.line += 1;
            let mut part = self.input.by_ref().take(LONGEST_LINE_BYTES);
            let read = part.read_until(b'\n', &mut self.text);
            let is_cut = match read {
                Ok(0) => return Ok(None),
                Ok(_) => self.text.last() != Some(&b'\n'),
                // Compressed data that end early: the lines before are complete.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => true,
                Err(source) => {
                    return Err(FleetError::Read {
                        path: self.path.clone(),
                        source,
                    });
                }
            };
            if is_cut && self.text.len() as u64 >= LONGEST_LINE_BYTES {
                return Err(self.wrong(format!("longer than {LONGEST_LINE_BYTES} bytes")));
            }
            if self.text.iter().all(u8::is_ascii_whitespace) && !is_cut {
                continue;
            }
            return match parse(&self.text) {
                Ok(record) => Ok(Some(Line::Record(Box::new(record)))),
                Err(_) if is_cut => {
                    self.is_over = true;
                    Ok(Some(Line::CutOff))
                }
                Err(reason) => Err(self.wrong(reason)),
            };
        }
        Ok(None)
    }

    /// Error in the line that was read last.
    pub fn wrong(&self, reason: String) -> FleetError {
        FleetError::Line {
            path: self.path.clone(),
            line: self.line,
            reason,
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Iterator for Lines {
    type Item = Result<Line, FleetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Parses the record of a line. A wrong schema is reported before a missing field.
fn parse(text: &[u8]) -> Result<AccountingRecord, String> {
    match serde_json::from_slice::<AccountingRecord>(text) {
        Ok(record) if record.schema == ACCOUNTING => Ok(record),
        result => {
            let document = serde_json::from_slice(text).map_err(|e| format!("no JSON: {e}"))?;
            cofferdam_records::check(&document, ACCOUNTING).map_err(|e| e.to_string())?;
            match result {
                Err(e) => Err(format!("no record of a ledger: {e}")),
                Ok(_) => Err("its schema is named twice".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Host;
    use std::io::Cursor;

    fn of(text: Vec<u8>) -> Lines {
        Lines::of("x.jsonl".into(), Box::new(Cursor::new(text)))
    }

    fn two() -> Vec<u8> {
        let host = Host::new("h", 2, 3);
        let mut text = Vec::new();
        for record in (0..2).map(|n| host.record(n, 60.0)) {
            serde_json::to_writer(&mut text, &record).unwrap();
            text.push(b'\n');
        }
        text
    }

    #[test]
    fn a_truncated_last_line_differs_from_a_wrong_one() {
        let whole = two();
        assert_eq!(of(whole.clone()).filter_map(Result::ok).count(), 2);
        let cut: Vec<Line> = of(whole[..whole.len() - 9].to_vec())
            .map(Result::unwrap)
            .collect();
        assert!(matches!(cut[..], [Line::Record(_), Line::CutOff]));
        // A record without its last newline is complete.
        let bare: Vec<Line> = of(whole[..whole.len() - 1].to_vec())
            .map(Result::unwrap)
            .collect();
        assert!(matches!(bare[..], [Line::Record(_), Line::Record(_)]));
        let mut broken = whole.clone();
        broken[10] = b'}';
        let message = of(broken).next().unwrap().unwrap_err().to_string();
        assert!(message.contains("x.jsonl, line 1: no JSON"), "{message}");
    }

    #[test]
    fn foreign_documents_are_named() {
        let first = |text: &str| {
            of(text.as_bytes().to_vec())
                .next()
                .unwrap()
                .unwrap_err()
                .to_string()
        };
        assert!(
            first("{\"schema\":\"cofferdam.accounting/1\"}\n").contains("'cofferdam.accounting/1'")
        );
        assert!(first("{\"a\":1}\n").contains("its schema is ''"));
        assert!(first("{\"schema\":\"cofferdam.accounting/2\"}\n").contains("missing field"));
        assert!(of(b"\n \n".to_vec()).next().is_none());
    }

    #[test]
    fn compressed_data_that_end_early_are_cut_off() {
        use flate2::write::GzEncoder;
        use std::io::Write;
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&two()).unwrap();
        let packed = packed.finish().unwrap();
        let open = |bytes: &[u8]| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.gz");
            std::fs::write(&path, bytes).unwrap();
            let found = LedgerFile {
                path,
                format: Format::Gzip,
            };
            Lines::open(&found).unwrap().collect::<Vec<_>>()
        };
        assert_eq!(open(&packed).len(), 2);
        let cut = open(&packed[..packed.len() - 12]);
        assert!(matches!(cut.last(), Some(Ok(Line::CutOff))), "{cut:?}");
    }
}
