//! Help of the screen: every key.

use crate::text;
use crate::view::Column;
use ratatui::text::Line;

/// Keys of the list, the most important first.
pub const LIST_KEYS: &[&str] = &[
    "q quit",
    "? help",
    "Enter details",
    "/ filter",
    "s sort",
    "space pause",
    "c CPUs",
    "r reverse",
    "+/- interval",
    "g history",
    "m mouse",
];
/// Keys of a replay's list.
pub const REPLAY_KEYS: &[&str] = &[
    "q quit",
    "? help",
    "[ ] step",
    "{ } minute",
    "PgUp PgDn hour",
    "space play",
    "Enter details",
    "/ filter",
    "s sort",
    "c CPUs",
];
/// Keys of the CPUs.
pub const CPU_KEYS: &[&str] = &[
    "Esc back",
    "q quit",
    "? help",
    "space pause",
    "+/- interval",
];
/// Keys of the details.
pub const DETAIL_KEYS: &[&str] = &[
    "Esc back",
    "f flows",
    "↑↓ scroll",
    "q quit",
    "? help",
    "space pause",
    "c CPUs",
    "+/- interval",
];

/// Line with as many of `keys` as fit.
pub fn fitting(keys: &[&str], width: usize) -> String {
    let mut line = String::new();
    for key in keys {
        let gap = if line.is_empty() { 0 } else { 2 };
        if text::width(&line) + gap + text::width(key) > width {
            break;
        }
        line.extend(std::iter::repeat_n(' ', gap));
        line += key;
    }
    line
}

const KEYS: &[(&str, &str)] = &[
    ("q, Ctrl-C", "quit"),
    ("Enter", "details; Esc goes back"),
    ("/", "filter; Esc clears it"),
    ("s S, → ←", "sort by another column"),
    ("1 … 9, 0", "sort by that column"),
    ("r", "reverse the order"),
    ("p, space", "pause"),
    ("c", "each CPU"),
    ("f", "in details: flows"),
    ("+ -", "interval × 2, ÷ 2"),
    ("g", "history: owed, caused"),
    ("m", "mouse on, off"),
    ("↑ ↓, k j", "move; PgUp, PgDn too"),
    ("Ctrl-Z", "stop; 'fg' continues"),
    ("[ ] { }", "replay: one, a minute"),
    ("PgUp PgDn", "replay: an hour"),
];

/// Lines of the help: keys in two columns where they fit, then the meaning of the table's columns.
pub fn lines(width: u16, height: u16) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(width), usize::from(height));
    let keys: Vec<_> = KEYS
        .iter()
        .map(|(key, meaning)| format!("{key:<10}{meaning}"))
        .collect();
    let widest = keys.iter().map(|l| text::width(l)).max().unwrap_or(0) + 3;
    let mut lines = keys;
    if 2 * widest <= width + 3 {
        let second = lines.split_off(lines.len().div_ceil(2));
        for (first, second) in lines.iter_mut().zip(second) {
            let pad = widest - text::width(first);
            *first = format!("{first}{}{second}", " ".repeat(pad));
        }
    }
    lines.push(String::new());
    lines.push("All shares are percent of one CPU.".to_owned());
    lines.extend(
        Column::ALL
            .iter()
            .map(|c| format!("{:<10}{}", c.title(), c.meaning())),
    );
    lines.push("HISTORY   bars ▁▄█: others paid for it; shades ░▒▓: it paid for others".to_owned());
    lines
        .push("softirqs unseen: counted by the kernel, not reported by its tracepoints".to_owned());
    lines.truncate(height.max(1));
    lines
        .into_iter()
        .map(|l| Line::from(text::cut_end(&l, width)))
        .collect()
}
