//! Foreign ledgers: a record as JSON that becomes rows, and a Parquet file.
#![no_main]

use cofferdam_columnar::{COLUMNS, Reader, RowKind, Rows, Text};
use cofferdam_records::accounting::AccountingRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = serde_json::from_slice::<AccountingRecord>(bytes) {
        let mut rows = Rows::new("host").expect("a name");
        if rows.push(&record).is_ok() {
            let containers = rows.take(RowKind::Container).map_or(0, |b| b.num_rows());
            assert_eq!(containers, record.containers.len());
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.parquet");
    std::fs::write(&path, bytes).expect("written");
    let Ok(reader) = Reader::open(&path) else {
        return;
    };
    let all: Vec<&str> = COLUMNS.iter().map(|c| c.name).collect();
    for kind in RowKind::ALL {
        if let Ok(batches) = reader.rows(kind, &all, Text::View) {
            let _rows: usize = batches.map_while(Result::ok).map(|b| b.num_rows()).sum();
        }
    }
});
