//! `cofferdam dataplane groups` and `move`: the load of each flow group, and its core.

use super::elastic;
use crate::args::{DataplaneGroupsArgs, DataplaneMoveArgs};
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::table;
use crate::units::pct;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write;

const SCHEMA: &str = "cofferdam.dataplane-groups/1";

/// Flow group, as the dataplane reports it.
#[derive(Debug, Deserialize, Serialize)]
struct Group {
    group: u8,
    core: u8,
    connections: u64,
    segments: u64,
}

/// Prints the flow groups once.
pub fn run(args: &DataplaneGroupsArgs) -> Outcome {
    let status = cofferdam_dataplane::status(&args.socket);
    let status = status.map_err(|e| Failure::failed(e.to_string()))?;
    let groups = read(&status).map_err(|e| {
        Failure::failed(format!(
            "the dataplane's answer has no flow groups ({e}); is its version different?"
        ))
    })?;
    let text = if args.json {
        json(&status, &groups)
    } else {
        text(
            &groups,
            elastic::line(&status).as_deref(),
            table::terminal_width(),
        )
    };
    Output::stdout().write(&text)
}

/// Moves one flow group, and prints the result.
pub fn move_one(args: &DataplaneMoveArgs) -> Outcome {
    let (group, core) = (args.group, args.core);
    let from = cofferdam_dataplane::move_group(&args.socket, group, core);
    let from = from.map_err(|e| Failure::failed(e.to_string()))?;
    Output::stdout().write(&if from == core {
        format!("flow group {group} is on core {core} already\n")
    } else {
        format!("flow group {group} is on core {core} now; it was on core {from}\n")
    })
}

fn read(status: &Value) -> serde_json::Result<Vec<Group>> {
    Vec::deserialize(&status["flow_groups"])
}

fn json(status: &Value, groups: &[Group]) -> String {
    let document = serde_json::json!({
        "schema": SCHEMA,
        "device": status["device"],
        "cores_in_use": status["cores_in_use"],
        "elastic": status["elastic"],
        "flow_groups": groups,
    });
    format!("{document:#}\n")
}

/// Table of the flow groups, the busiest first.
fn text(groups: &[Group], cores: Option<&str>, width: Option<u16>) -> String {
    let connections: u64 = groups.iter().map(|g| g.connections).sum();
    let segments: u64 = groups.iter().map(|g| g.segments).sum();
    let used = groups.iter().filter(|g| g.connections > 0).count();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{connections} connections in {used} of {} flow groups, \
         {segments} segments since the start",
        cofferdam_dataplane::FLOW_GROUPS
    );
    if let Some(cores) = cores {
        let _ = writeln!(text, "{cores}");
    }
    if groups.is_empty() {
        return text;
    }
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|g| (std::cmp::Reverse((g.segments, g.connections)), g.group));
    let mut table = table::plain(width);
    table.set_header(["group", "core", "connections", "segments", "share %"]);
    for group in sorted {
        let share = 100.0 * group.segments as f64 / segments.max(1) as f64;
        table.add_row([
            group.group.to_string(),
            group.core.to_string(),
            group.connections.to_string(),
            group.segments.to_string(),
            pct(share),
        ]);
    }
    table::numbers_right(&mut table);
    let _ = writeln!(text, "\n{table}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 78.
    #[test]
    fn flow_groups_are_shown_busiest_first_with_their_share() {
        let status = serde_json::json!({
            "device": "eth0",
            "flow_groups": [
                {"group": 3, "core": 0, "connections": 1, "segments": 10},
                {"group": 90, "core": 1, "connections": 2, "segments": 30},
                {"group": 127, "core": 1, "connections": 0, "segments": 0},
            ],
        });
        let groups = read(&status).expect("they are there");
        let shown = text(&groups, None, None);
        let lines: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0].join(" "),
            "3 connections in 2 of 128 flow groups, 40 segments since the start"
        );
        assert_eq!(
            lines[2],
            ["group", "core", "connections", "segments", "share", "%"]
        );
        assert_eq!(lines[3], ["90", "1", "2", "30", "75.0"]);
        assert_eq!(lines[5][0], "127");
        let document: Value = serde_json::from_str(&json(&status, &groups)).expect("JSON");
        assert_eq!(document["flow_groups"], status["flow_groups"]);
        assert_eq!(document["elastic"], Value::Null);
        assert!(read(&serde_json::json!({})).is_err());
        let shown = text(&groups, Some("1 of 2 cores in use"), None);
        assert_eq!(shown.lines().nth(1), Some("1 of 2 cores in use"));
    }
}
