//! The help of the screen.

use crate::view::Column;
use ratatui::text::Line;

/// The lines of the help, keys first.
pub fn lines() -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = [
        ("q", "quit"),
        ("s → / S ←", "sort by the next / previous column"),
        ("r", "reverse the order"),
        ("/", "filter by name; Enter keeps it, Esc clears it"),
        ("p, space", "pause"),
        ("+ / -", "double / halve the interval"),
        ("g", "history of owed or of caused"),
        ("↑ ↓ PgUp PgDn", "move"),
    ]
    .into_iter()
    .map(|(key, meaning)| Line::from(format!("{key:<14} {meaning}")))
    .collect();
    lines.push(Line::from(""));
    lines.push(Line::from("All shares are percent of one CPU."));
    for column in Column::ALL {
        lines.push(Line::from(format!(
            "{:<14} {}",
            column.title(),
            column.meaning()
        )));
    }
    lines.push(Line::from(
        "history        bars ▁▄█: others paid for it; shades ░▒▓: it paid",
    ));
    lines.push(Line::from(
        "softirqs unseen: counted by the kernel, not shown by its tracepoints",
    ));
    lines
}
