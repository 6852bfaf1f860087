//! Tests that the shipped dashboard and alerts query metrics that exist.

use super::table::{ALL, Kind, Metric};
use std::path::{Path, PathBuf};

/// Collects every string under a key called `expr` or `query`.
fn queries(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, inner) in map {
                if let (true, Some(text)) = (key == "expr" || key == "query", inner.as_str()) {
                    found.push(text.to_owned());
                }
                queries(inner, found);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|i| queries(i, found)),
        _ => {}
    }
}

/// Fails unless every metric of the agent and every label in `query` exists.
fn check_names(query: &str) {
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let names: Vec<&str> = query
        .split(word)
        .filter(|w| w.starts_with("cofferdam_") && !w.starts_with("cofferdam_dataplane_"))
        .collect();
    let metrics: Vec<&Metric> = names
        .iter()
        .map(|name| {
            let metric = ALL.iter().find(|m| match m.kind {
                Kind::Histogram => ["_bucket", "_count", "_sum"]
                    .iter()
                    .any(|part| m.name() + part == *name),
                _ => m.name() == *name,
            });
            *metric.unwrap_or_else(|| panic!("{query}: there is no {name}"))
        })
        .collect();
    // Labels stand before `=` or `=~` within braces, and after `by (`.
    let inside = query
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next());
    let mut labels: Vec<&str> = inside
        .flat_map(|list| list.split(','))
        .filter_map(|pair| pair.split('=').next())
        .collect();
    let by = query
        .split("by (")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    labels.extend(by.flat_map(|list| list.split(',')));
    for label in labels.into_iter().map(str::trim) {
        let is_known = ["instance", "le"].contains(&label)
            || metrics.iter().all(|m| m.labels.contains(&label));
        assert!(is_known, "{query}: no label {label}");
    }
}

/// Promise 23.
#[test]
fn the_dashboard_asks_for_metrics_and_labels_that_exist() {
    let text = std::fs::read_to_string(packaging_file("grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    let queried: Vec<&String> = found.iter().filter(|q| q.contains("cofferdam_")).collect();
    assert!(queried.len() > 25, "{found:?}");
    for query in queried {
        check_names(query);
    }
}

/// Path of a file of `etc/`.
fn packaging_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../etc")
        .join(name)
}

/// Promise 23.
#[test]
fn the_alerts_ask_for_metrics_that_exist() {
    let text = std::fs::read_to_string(packaging_file("prometheus-rules.yaml")).unwrap();
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let rules = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let mut queried: Vec<&str> = rules
        .flat_map(|line| line.split(word))
        .filter(|w| w.starts_with("cofferdam_"))
        .collect();
    queried.sort_unstable();
    queried.dedup();
    assert!(queried.len() >= 10, "{queried:?}");
    for name in queried {
        check_names(name);
    }
}

/// Each alert has a section on the page of alerts, and its link leads there.
/// Promise 23.
#[test]
fn every_alert_links_to_its_section_of_the_documents() {
    let text = std::fs::read_to_string(packaging_file("prometheus-rules.yaml")).unwrap();
    let page = std::fs::read_to_string(packaging_file("../docs/src/guide/alerts.md")).unwrap();
    let mut alerts = 0;
    for rule in text.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        let link = rule
            .split("runbook_url: ")
            .nth(1)
            .and_then(|l| l.lines().next());
        let (file, section) = link.and_then(|l| l.split_once('#')).expect(name);
        assert_eq!(section, name.to_lowercase());
        // Path at which the package installs the document.
        assert_eq!(
            file,
            "file:///usr/share/doc/cofferdam/docs/src/guide/alerts.md"
        );
        assert!(
            page.contains(&format!("\n### {name}\n")),
            "{name} has no section"
        );
        alerts += 1;
    }
    let sections = page.matches("\n### Cofferdam").count();
    assert!(alerts >= 7 && alerts == sections, "{alerts} {sections}");
}

/// Prometheus' own evaluation of the shipped rules: which alerts fire, when, and with which text.
/// Promise 23.
#[test]
fn the_alerts_fire_when_they_should_and_only_then() {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or(packaging_file("../target"), Into::into);
    let own = target.join("tools/promtool");
    let promtool = if own.exists() { own } else { "promtool".into() };
    let out = std::process::Command::new(&promtool)
        .args(["test", "rules"])
        .arg(packaging_file("prometheus-rules-test.yaml"))
        .output();
    let out = out.unwrap_or_else(|e| panic!("{}: {e}; see scripts/setup", promtool.display()));
    let output = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && output.contains("SUCCESS"),
        "{output}"
    );
}
