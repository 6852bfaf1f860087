use super::*;
use crate::feed::tests::reading;
use crate::moment::NewestReadings;
use serde_json::Value;

fn frame(reading: crate::feed::Reading) -> Value {
    let mut recent = NewestReadings::default();
    for _ in 0..3 {
        recent.push(reading.clone());
    }
    let moment = recent.moment().unwrap();
    serde_json::to_value(Frame::new(&moment, "host")).unwrap()
}

/// Promise 14.
#[test]
fn each_victim_has_the_time_that_enforcement_would_return() {
    let flood = reading(&[(1, "ingest", [10, 600, 0]), (2, "db", [900, 0, 400])]);
    let document = frame(flood.clone());
    let of = |frame: &Value, name: &str| {
        let all = frame["containers"].as_array().unwrap();
        all.iter().find(|c| c["name"] == name).unwrap().clone()
    };
    let help = of(&document, "db")["help"].clone();
    assert_eq!(help["returns"], 0.4);
    assert_eq!(help["offender"], "ingest");
    assert_eq!(
        help["command"],
        "sudo cofferdam rule set ingest --network-cpu enforce"
    );
    assert_eq!(of(&document, "ingest")["help"], Value::Null);
    assert_eq!(document["flows"][0]["cpus"], 0.4);
    // The packets belong to no container: nothing would be returned, and the document says so.
    let host = frame(reading(&[(2, "db", [900, 0, 400])]));
    let help = of(&host, "db")["help"].clone();
    assert_eq!(
        (&help["returns"], &help["beyond"]),
        (&Value::from(0.0), &Value::from(0.4))
    );
    assert_eq!(help["command"], Value::Null);
}

#[test]
fn documents_are_bounded_and_names_stay_text() {
    let long = "ü".repeat(100_000);
    let names: Vec<String> = (0..300)
        .map(|n| format!("<script>{n}\u{0}\n</script>"))
        .collect();
    let mut all: Vec<(u64, &str, [u64; 3])> = vec![(9999, &long, [10, 900, 0])];
    all.extend(
        names
            .iter()
            .zip(0..)
            .map(|(name, id)| (id, name.as_str(), [100, 0, 60])),
    );
    let text = frame(reading(&all)).to_string();
    assert!(text.len() < 600_000, "{} bytes", text.len());
    assert!(
        !text.contains('\n') && !text.contains('\0'),
        "one line, as a stream needs it"
    );
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        document["findings"].as_array().unwrap().len(),
        MOST_FINDINGS
    );
    assert_eq!(document["findings_total"], 300);
    assert_eq!(document["flows"].as_array().unwrap().len(), MOST_FLOWS);
    let most = document["containers"].as_array().unwrap().iter();
    let letters = |c: &Value| c["name"].as_str().unwrap().chars().count();
    assert_eq!(most.map(letters).max(), Some(LONGEST_NAME));
}

/// Promise 14.
#[test]
fn an_absent_agent_is_reported() {
    let mut recent = NewestReadings::default();
    assert!(recent.moment().is_none());
    let mut none = reading(&[(1, "web", [10, 5, 5])]);
    none.ledger.interval_s = 0.0;
    recent.push(none);
    recent.fail("no agent is running".to_owned());
    let moment = recent.moment().unwrap();
    let document = serde_json::to_value(Frame::new(&moment, "host")).unwrap();
    assert_eq!(document["error"], "no agent is running");
    assert_eq!(document["containers"][0]["cpu"], 0.0);
}
