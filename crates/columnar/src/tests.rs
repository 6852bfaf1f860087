use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use cofferdam_records::accounting::AccountingRecord;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MS: u64 = 1_000_000;

/// Container that caused and was charged these times on two CPUs, milliseconds.
fn container(id: u64, name: &str, caused: [u64; 2], charged: [u64; 2]) -> Value {
    let (sum, paid) = ((caused[0] + caused[1]) * MS, (charged[0] + charged[1]) * MS);
    let owed = sum as i64 - paid as i64;
    json!({
        "name": name, "cgroup_id": id, "cgroup_path": format!("/tenants/{name}"), "id": null,
        "runtime": "plain", "pod": format!("shop/{name}"), "netns": null, "host_network": false,
        "caused_rx_ns": sum, "caused_tx_ns": 0, "caused_hardirq_ns": 0, "caused_ns": sum,
        "rx_packets": 1000, "rx_bytes": 64000, "tx_packets": 0, "tx_bytes": 0,
        "charged_network_ns": paid, "charged_other_ns": 0, "owed_ns": owed,
        "cpu_usage_ns": 900 * MS, "corrected_cpu_ns": 900 * MS as i64 + owed, "ns_per_packet": 1.0,
        "caused_by_cpu_ns": caused.map(|ms| ms * MS),
        "charged_by_cpu_ns": charged.map(|ms| ms * MS),
    })
}

fn record(second: u64, containers: &[Value]) -> AccountingRecord {
    let cpu = |cpu| {
        json!({"cpu": cpu, "softirq_ns": 0, "network_softirq_ns": 0, "hardirq_ns": 0,
            "napi_thread_ns": 0, "drain_ns": 0, "measured_ns": 500 * MS, "attributed_ns": 500 * MS,
            "charged_ns": 0, "charged_nobody_ns": 0})
    };
    let since = std::time::Duration::from_secs(1_790_000_000 + second);
    let time = std::time::UNIX_EPOCH + since;
    let document = json!({
        "schema": "cofferdam.accounting/2",
        "time": humantime::format_rfc3339_millis(time).to_string(),
        "interval_s": 1.0, "containers": containers, "unattributed_ns": {"host_traffic": 7 * MS},
        "conservation": {"measured_ns": 0, "attributed_ns": 0, "worst_cpu_error_pct": 0.0},
        "health": {"containers_without_slot": 0, "events_lost": 2, "containers_gone": 0,
            "cpu_hotplugs": 0, "segments_rejected": 0, "markers_missed": 3, "softirqs_unseen": 0,
            "cpu_usage_unreadable": 0},
        "cpus": [cpu(0), cpu(1)],
    });
    serde_json::from_value(document).unwrap()
}

fn two() -> Vec<Value> {
    vec![
        container(1, "web", [430, 50], [100, 0]),
        container(2, "db", [0, 0], [310, 30]),
    ]
}

fn written(dir: &Path, records: impl IntoIterator<Item = AccountingRecord>) -> PathBuf {
    let path = dir.join("a.parquet");
    let mut writer = Writer::create(&path, "node-1").unwrap();
    for record in records {
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn rows(path: &Path, kind: RowKind, columns: &[&str]) -> Vec<RecordBatch> {
    let reader = Reader::open(path).unwrap();
    let rows = reader.rows(kind, columns, Text::Plain).unwrap();
    rows.map(Result::unwrap).collect()
}

fn failure<T>(result: Result<T, ReadError>) -> String {
    result.err().expect("refused").to_string()
}

/// Promise 17.
#[test]
fn rows_survive_a_file_and_transfers_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), (0..3).map(|s| record(s, &two())));
    let reader = Reader::open(&path).unwrap();
    assert_eq!((reader.host(), reader.records()), ("node-1", Some(3)));

    let intervals = rows(
        &path,
        RowKind::Interval,
        &["measured_ns", "unattributed_ns", "events_lost"],
    );
    assert_eq!(intervals[0].num_rows(), 3);
    assert_eq!(
        intervals[0].column(0).as_primitive::<UInt64Type>().value(0),
        1000 * MS
    );

    let containers = rows(
        &path,
        RowKind::Container,
        &["host", "name", "owed_ns", "lost_lack_ns"],
    );
    let mut owed: BTreeMap<String, f64> = BTreeMap::new();
    for batch in &containers {
        let (names, values) = (batch.column(1).as_string::<i32>(), batch.column(2));
        let values = values.as_primitive::<Int64Type>();
        assert_eq!(batch.column(0).as_string::<i32>().value(0), "node-1");
        assert_eq!(batch.column(3).null_count(), batch.num_rows());
        for row in 0..batch.num_rows() {
            *owed.entry(names.value(row).to_owned()).or_default() += values.value(row) as f64;
        }
    }
    assert_eq!(owed["web"], 3.0 * 380.0 * MS as f64);
    assert_eq!(owed["db"], -3.0 * 340.0 * MS as f64);

    for batch in rows(&path, RowKind::Transfer, &["offender", "victim", "flow_ns"]) {
        let (offenders, victims) = (batch.column(0).as_string::<i32>(), batch.column(1));
        let (victims, ns) = (
            victims.as_string::<i32>(),
            batch.column(2).as_primitive::<Float64Type>(),
        );
        for row in 0..batch.num_rows() {
            for (name, sign) in [(offenders.value(row), 1.0), (victims.value(row), -1.0)] {
                *owed.entry(name.to_owned()).or_default() -= sign * ns.value(row);
            }
        }
    }
    for name in ["web", "db"] {
        assert!(owed[name].abs() < 1.0, "{owed:?}");
    }
    // 330 ms and 20 ms of web were charged to no container, except the 310 ms and 30 ms of db.
    assert!((owed[NOBODY] / 3e6 - 40.0).abs() < 1e-6, "{owed:?}");
}

/// Values of a column as text, empty if null.
fn text_of(batch: &RecordBatch, column: usize) -> Vec<String> {
    let values = batch.column(column);
    let one = |row: usize| match values.data_type() {
        _ if values.is_null(row) => String::new(),
        DataType::Utf8 => values.as_string::<i32>().value(row).to_owned(),
        DataType::UInt64 => values.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row).to_string(),
        DataType::Boolean => values.as_boolean().value(row).to_string(),
        DataType::Timestamp(..) => {
            let ms = values.as_primitive::<TimestampMillisecondType>().value(row);
            let since = std::time::Duration::from_millis(ms.unsigned_abs());
            humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
        }
        other => panic!("no column has {other}"),
    };
    (0..batch.num_rows()).map(one).collect()
}

/// Promise 16.
#[test]
fn text_has_the_columns_and_values_of_parquet() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = record(1, &two());
    record.diagnosis = Some(
        serde_json::from_value(json!({
            "interval_s": 1.0, "containers": [{
                "name": "web", "cgroup_id": 1, "entitled_ns": 500, "entitled_by": "quota",
                "got_ns": 300, "forced_sharing_ns": 100, "phantom_ns": 50, "throttled_ns": 40,
                "lack_ns": 10, "neighbour": null,
            }],
            "idle_ns": 0, "left_idle_ns": 0, "host_ns": 0, "containers_without_slot": 0,
            "mismatches": 0, "segments_rejected": 0,
        }))
        .unwrap(),
    );
    let expected = text_rows("node-1", &record).unwrap();
    let path = written(dir.path(), [record]);
    let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
    let batches = rows(&path, RowKind::Container, &names);
    assert_eq!((batches.len(), expected.len()), (1, 2));
    for (at, name) in names.iter().enumerate() {
        let text: Vec<_> = expected.iter().map(|row| row[at].clone()).collect();
        assert_eq!(text, text_of(&batches[0], at), "{name}");
    }
    let value = |name: &str| &expected[0][names.iter().position(|n| *n == name).unwrap()];
    assert_eq!(
        (value("kind"), value("name")),
        (&"container".to_owned(), &"web".to_owned())
    );
    assert_eq!(
        (value("entitled_by"), value("lost_phantom_ns")),
        (&"quota".into(), &"50".into())
    );
}

/// Promise 17.
#[test]
fn each_kind_has_row_groups_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let many: Vec<Value> = (0..100)
        .map(|n| container(n, &format!("c{n}"), [1, 0], [1, 0]))
        .collect();
    let records = MOST_ROWS / 100 + 10;
    let path = written(dir.path(), (0..records as u64).map(|s| record(s, &many)));
    let batches = rows(&path, RowKind::Container, &["kind", "cgroup_id"]);
    assert_eq!(
        batches.iter().map(RecordBatch::num_rows).sum::<usize>(),
        records * 100
    );
    for batch in batches {
        let kinds = batch.column(0).as_string::<i32>();
        assert!((0..batch.num_rows()).all(|row| kinds.value(row) == "container"));
    }
}

/// Promise 17.
#[test]
fn many_small_transfers_become_few_rows_of_equal_sum() {
    let mut all: Vec<Value> = (0..60)
        .map(|n| container(n, &format!("o{n}"), [10, 0], [0, 0]))
        .collect();
    all.extend((100..160).map(|n| container(n, &format!("v{n}"), [0, 0], [10, 0])));
    let record = record(0, &all);
    let found = transfer::transfers(&record);
    // 3,600 pairs, each 1/3600 of the whole.
    assert_eq!(found.len(), 60);
    let sum: f64 = found.iter().map(|t| t.ns).sum();
    assert!((sum - 600.0 * MS as f64).abs() < 10.0, "{sum}");
}

/// Promise 77.
#[test]
fn incomplete_and_foreign_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), [record(0, &two())]);
    let whole = std::fs::read(&path).unwrap();
    let other = dir.path().join("b.parquet");
    let open = |bytes: &[u8]| {
        std::fs::write(&other, bytes).unwrap();
        failure(Reader::open(&other))
    };
    assert!(open(&[]).contains("is empty"));
    assert!(open(b"name,owed\n").contains("no whole Parquet file"));
    for cut in [8, whole.len() / 2, whole.len() - 1] {
        assert!(open(&whole[..cut]).contains("truncated"), "{cut}");
    }
    let swapped = |from: &str, to: &str| {
        let mut bytes = whole.clone();
        let places: Vec<usize> = (0..bytes.len() - from.len())
            .filter(|at| bytes[*at..].starts_with(from.as_bytes()))
            .collect();
        assert!(!places.is_empty(), "{from}");
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        bytes
    };
    let newer = open(&swapped(SCHEMA, "cofferdam.columns/9"));
    assert!(
        newer.contains("'cofferdam.columns/9' and not 'cofferdam.columns/1'"),
        "{newer}"
    );
    let foreign = open(&swapped(KEY_SCHEMA, "someone-e.schema"));
    assert!(foreign.contains("not of Cofferdam"), "{foreign}");
    let hostless = open(&swapped(KEY_HOST, "cofferdam.hest"));
    assert!(hostless.contains(KEY_HOST), "{hostless}");
    assert!(failure(Reader::open(&dir.path().join("none"))).contains("cannot open"));
}

#[test]
fn a_damaged_file_never_ends_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), [record(0, &two())]);
    let whole = std::fs::read(&path).unwrap();
    let all: Vec<&str> = COLUMNS.iter().map(|c| c.name).collect();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, bytes).unwrap();
        let read = Reader::open(&path).and_then(|reader| {
            for kind in RowKind::ALL {
                for batch in reader.rows(kind, &all, Text::View)? {
                    batch?;
                }
            }
            Ok(())
        });
        refused += usize::from(read.is_err());
    }
    assert!(refused > whole.len() / 10, "{refused} of {}", whole.len());
}

/// Promise 77.
#[test]
fn a_missing_column_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), [record(0, &two())]);
    let mut bytes = std::fs::read(&path).unwrap();
    let name = b"flow_ns";
    for at in 0..bytes.len() - name.len() {
        if bytes[at..].starts_with(name) {
            bytes[at..at + name.len()].copy_from_slice(b"fluw_ns");
        }
    }
    std::fs::write(&path, bytes).unwrap();
    let reader = Reader::open(&path).unwrap();
    let refused = failure(
        reader
            .rows(RowKind::Transfer, &["flow_ns"], Text::View)
            .map(drop),
    );
    assert!(refused.contains("'flow_ns'"), "{refused}");
}

/// Promise 77.
#[test]
fn existing_files_stay_and_incomplete_ones_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    std::fs::write(&path, "mine").unwrap();
    let refused = Writer::create(&path, "h").err().expect("refused");
    assert!(refused.to_string().contains("exists"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    let path = dir.path().join("b.parquet");
    let mut writer = Writer::create(&path, "h").unwrap();
    writer.write(&record(0, &two())).unwrap();
    drop(writer);
    assert!(!path.exists());
    for host in ["", &"h".repeat(LONGEST_HOST_BYTES + 1)] {
        assert!(matches!(
            Writer::create(&path, host),
            Err(WriteError::Row(RowError::Host(_)))
        ));
        assert!(!path.exists());
    }
}

#[test]
fn a_record_without_a_time_or_length_adds_nothing() {
    let mut rows = Rows::new("h").unwrap();
    let good = record(0, &two());
    for (time, length) in [
        ("yesterday", 1.0),
        ("1969-01-01T00:00:00Z", 1.0),
        (&good.time, f64::NAN),
        (&good.time, -1.0),
    ] {
        let wrong = AccountingRecord {
            time: time.to_owned(),
            interval_s: length,
            ..good.clone()
        };
        rows.push(&wrong).unwrap_err();
    }
    assert!(RowKind::ALL.iter().all(|kind| rows.take(*kind).is_none()));
}
