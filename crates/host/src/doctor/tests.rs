use super::*;

/// On this machine or any other: the report comes, and is sound.
#[test]
fn report_is_complete_and_sound() {
    let report = examine();
    let mut ids: Vec<_> = report.checks.iter().map(|c| c.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
    assert!(
        report
            .checks
            .iter()
            .all(|c| !c.detail.is_empty() && !c.enables.is_empty())
    );
    assert!(
        serde_json::to_string(&report)
            .unwrap()
            .contains("\"required_for_accounting\":true")
    );
}
