use super::*;
use crate::fixture::interval;
use cofferdam_records::accounting::ACCOUNTING;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference")
}

/// Collects every name of a property in a JSON Schema, definitions included.
fn properties(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(fields)) = map.get("properties") {
                found.extend(fields.keys().cloned());
            }
            map.values().for_each(|value| properties(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| properties(value, found)),
        _ => {}
    }
}

/// Promise 78.
#[test]
fn the_published_schemas_are_those_of_the_code() {
    for (name, schema) in all() {
        let path = reference().join(name);
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        let code = crate::generate::schema_text(&schema).unwrap();
        assert!(
            published == code,
            "{} is out of date: run 'cofferdam generate schemas docs/src/reference'",
            path.display()
        );
    }
}

/// Promise 78.
#[test]
fn every_field_is_documented() {
    for (name, schema) in all() {
        let stem = name.trim_end_matches(".schema.json");
        let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        let page = reference().join(format!("{stem}.md"));
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let mut names = Vec::new();
        properties(schema.as_value(), &mut names);
        for field in names {
            assert!(
                text.contains(&format!("`{field}`")),
                "{}: no `{field}`",
                page.display()
            );
        }
    }
}

/// Promise 78.
#[test]
fn a_record_survives_the_round_trip() {
    let record = AccountingRecord::new(&interval());
    let text = serde_json::to_string(&record).unwrap();
    let parsed: AccountingRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed, record);
    assert_eq!(record.schema, ACCOUNTING);
    assert_eq!(record.cpus[0].measured_ns, 451_000_000);
    assert_eq!(record.unattributed_ns["host_traffic"], 5_000_000);
}

#[test]
fn owed_falls_from_the_top() {
    let record = AccountingRecord::new(&interval());
    let owed: Vec<_> = record.containers.iter().map(|c| c.owed_ns).collect();
    assert_eq!(owed, [330_000_000, 0, -310_000_000]);
}
