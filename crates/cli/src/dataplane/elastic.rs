//! State of elastic cores as text, for `groups` and `top`.

use crate::exit::one_line;
use crate::units;
use serde_json::Value;
use std::time::Duration;

/// Cores in use and changes since the start in one line, and the last decision in a second one if
/// there was any. `None` where the number of cores is fixed.
pub fn line(status: &Value) -> Option<String> {
    let elastic = status.get("elastic").filter(|e| e.is_object())?;
    let number = |key| elastic.get(key).and_then(Value::as_u64).unwrap_or(0);
    let in_use = status.get("cores_in_use").and_then(Value::as_u64);
    let all = status.get("cores").and_then(Value::as_array);
    let mut text = format!(
        "{} of {} cores in use ({} to {}); since the start {} added, {} removed, \
         {} flow groups moved",
        in_use.unwrap_or(0),
        all.map_or(0, Vec::len),
        number("least_cores"),
        number("most_cores"),
        number("cores_added"),
        number("cores_removed"),
        number("groups_moved"),
    );
    let age = elastic.get("last_decision_age_s").and_then(Value::as_f64);
    let age = age.and_then(|age| Duration::try_from_secs_f64(age.floor()).ok());
    let why = elastic.get("last_decision").and_then(Value::as_str);
    if let (Some(why), Some(age)) = (why, age) {
        text += &format!("\n{} ago: {}", units::duration(age), one_line(why));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 13.
    #[test]
    fn elastic_cores_take_two_lines_and_fixed_ones_none() {
        let mut status = serde_json::json!({
            "cores": [{}, {}, {}],
            "cores_in_use": 2,
            "elastic": {
                "least_cores": 1, "most_cores": 3, "cores_added": 5, "cores_removed": 4,
                "groups_moved": 300, "last_decision": null, "last_decision_age_s": null,
            },
        });
        let first = "2 of 3 cores in use (1 to 3); \
             since the start 5 added, 4 removed, 300 flow groups moved";
        assert_eq!(line(&status).as_deref(), Some(first));
        status["elastic"]["last_decision"] = "core 1 added\u{1b}".into();
        status["elastic"]["last_decision_age_s"] = 12.7.into();
        let expected = format!("{first}\n12s ago: core 1 added\\x1b");
        assert_eq!(line(&status), Some(expected));
        status["elastic"] = Value::Null;
        assert_eq!(line(&status), None);
        assert_eq!(line(&serde_json::json!({})), None);
    }
}
