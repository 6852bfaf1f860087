//! Tables of the fields of a JSON document, rendered from its published JSON Schema.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fmt::Write;

/// Table of the fields of `definition`, or of the document itself if it is `None`.
pub fn table(schema: &str, definition: Option<&str>) -> Result<String> {
    let schema: Value = serde_json::from_str(schema).context("not a JSON document")?;
    let object = match definition {
        Some(name) => resolve(&schema, &format!("#/$defs/{name}"))?,
        None => &schema,
    };
    let fields = object["properties"]
        .as_object()
        .filter(|fields| !fields.is_empty())
        .context("the schema has no fields there")?;
    let required = object["required"].as_array();
    let mut table = String::from("\n| field | type | meaning |\n|---|---|---|\n");
    for (name, field) in fields {
        let mut kind = type_of(&schema, field)?;
        let is_required = required.is_some_and(|names| names.iter().any(|n| n == name));
        // The schema of an optional field is nullable, and the document has it as null.
        if !is_required && !kind.ends_with("or null") {
            kind.push_str(", may be absent");
        }
        let meaning = meaning(&schema, field).with_context(|| format!("field `{name}`"))?;
        writeln!(table, "| `{name}` | {kind} | {meaning} |")?;
    }
    table.push('\n');
    Ok(table)
}

/// Part of the schema that a `$ref` names.
fn resolve<'a>(schema: &'a Value, reference: &str) -> Result<&'a Value> {
    reference
        .strip_prefix('#')
        .and_then(|pointer| schema.pointer(pointer))
        .with_context(|| format!("no definition {reference}"))
}

/// Type of a field in words: `string or null`, `array of PodRow`.
fn type_of(schema: &Value, field: &Value) -> Result<String> {
    if let Some(reference) = field["$ref"].as_str() {
        let target = resolve(schema, reference)?;
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return match target["properties"].is_object() || target["oneOf"].is_array() {
            true => Ok(format!("`{name}`")),
            false => type_of(schema, target),
        };
    }
    if let Some(choices) = field["anyOf"].as_array() {
        let kinds = choices.iter().map(|choice| type_of(schema, choice));
        return Ok(kinds.collect::<Result<Vec<_>>>()?.join(" or "));
    }
    let kinds: Vec<&str> = match &field["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => bail!("a field without a type: {field}"),
    };
    let mut words = Vec::new();
    for kind in kinds {
        words.push(match kind {
            "array" if field["items"].is_object() => {
                format!("array of {}", type_of(schema, &field["items"])?)
            }
            "object" => match &field["additionalProperties"] {
                values @ Value::Object(_) => format!("object of {}", type_of(schema, values)?),
                _ => kind.to_owned(),
            },
            _ => kind.to_owned(),
        });
    }
    Ok(words.join(" or "))
}

/// Description of a field on one line: its own, otherwise that of its definition.
fn meaning(schema: &Value, field: &Value) -> Result<String> {
    let own = field["description"].as_str();
    let text = match (own, field["$ref"].as_str()) {
        (Some(text), _) => text,
        (None, Some(reference)) => resolve(schema, reference)?["description"]
            .as_str()
            .unwrap_or_default(),
        (None, None) => "",
    };
    if text.is_empty() {
        bail!("no description");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    // Links of rustdoc name items of the code, which a reader of the page does not have.
    Ok(words.join(" ").replace(['[', ']'], "").replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{"properties": {
        "schema": {"description": "Always `a/1`.", "type": "string"},
        "rows": {"description": "Rows of [`X`].\nLargest first.", "type": "array",
            "items": {"$ref": "#/$defs/Row"}},
        "most": {"description": "Largest row.",
            "anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}]},
        "by_reason_ns": {"description": "Time | reason.", "type": "object",
            "additionalProperties": {"type": "integer"}}
    }, "required": ["schema", "rows", "by_reason_ns"],
    "$defs": {"Row": {"properties": {"cpus": {"description": "CPUs.",
        "type": ["number", "null"]}}, "required": ["cpus"]}}}"##;

    #[test]
    fn a_field_has_type_and_meaning() {
        let table = table(SCHEMA, None).unwrap();
        for row in [
            "| `schema` | string | Always `a/1`. |",
            "| `rows` | array of `Row` | Rows of `X`. Largest first. |",
            "| `most` | `Row` or null | Largest row. |",
            "| `by_reason_ns` | object of integer | Time \\| reason. |",
        ] {
            assert!(table.contains(row), "{table}");
        }
    }

    #[test]
    fn a_definition_has_a_table_of_its_own() {
        let table = table(SCHEMA, Some("Row")).unwrap();
        assert!(
            table.contains("| `cpus` | number or null | CPUs. |"),
            "{table}"
        );
        assert!(!table.contains("`schema`"));
    }

    #[test]
    fn a_table_without_fields_or_meaning_is_refused() {
        assert!(super::table("{}", None).is_err());
        assert!(super::table(SCHEMA, Some("Column")).is_err());
        let bare = r#"{"properties": {"a": {"type": "string"}}}"#;
        let error = super::table(bare, None).unwrap_err();
        assert!(format!("{error:#}").contains("field `a`: no description"));
    }
}
