//! Records: the documents that `--json` and jsonl print and that the agent answers with. Programs
//! depend on them.
//!
//! Within one schema number fields are only added. No field is renamed, removed or given another
//! meaning. Counts are those of the interval unless a field says otherwise. CPU time is in
//! nanoseconds, the length of an interval in seconds.
#![forbid(unsafe_code)]

pub mod accounting;
pub mod conditions;
pub mod cores;
pub mod diagnosis;
pub mod doctor;
pub mod explain;
pub mod flow;
pub mod flows;
pub mod node;
pub mod simulation;
pub mod status;

/// Error for a document of another schema than the reader's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "its schema is '{found}' and not '{expected}': use the cofferdam of the version that wrote it"
)]
pub struct OtherSchema {
    /// Schema of the document; empty if it names none.
    pub found: String,
    /// Schema that the reader expects.
    pub expected: &'static str,
}

/// Refuses a document that is not of the schema `expected`, before its fields are read.
///
/// # Errors
/// [`OtherSchema`] when it names another schema, or none.
pub fn check(document: &serde_json::Value, expected: &'static str) -> Result<(), OtherSchema> {
    match document.get("schema").and_then(serde_json::Value::as_str) {
        Some(found) if found == expected => Ok(()),
        other => Err(OtherSchema {
            found: other.unwrap_or_default().to_owned(),
            expected,
        }),
    }
}

/// Text of `time`: RFC 3339 in UTC, to the millisecond.
pub fn time(time: std::time::SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Promise 77.
    #[test]
    fn a_document_of_another_schema_is_refused() {
        let ours = "cofferdam.status/2";
        assert_eq!(check(&json!({"schema": ours, "losses": 1}), ours), Ok(()));
        for (document, found) in [
            (
                json!({"schema": "cofferdam.status/1", "losses": []}),
                "cofferdam.status/1",
            ),
            (json!({"schema": 2}), ""),
            (json!([]), ""),
        ] {
            let refused = check(&document, ours).unwrap_err();
            assert_eq!(refused.found, found);
            assert!(
                refused
                    .to_string()
                    .contains("use the cofferdam of the version"),
                "{refused}"
            );
        }
    }
}
