//! Explanation as text for one screen: 80 columns, 24 lines.

use super::{Explanation, Finding, Party};
use std::fmt::Write;

/// Most columns of a line.
pub const COLUMNS: usize = 80;
/// Most lines; a shell's prompt needs the last of 24.
pub const LINES: usize = 23;
/// Most letters of a container's name: longer ones are cut in the middle, where they differ least.
const NAME: usize = 24;
/// Columns before a line of the worst finding.
const INDENT: usize = 11;

/// Text with the worst finding in full and one line for each of the others.
pub fn screen(explanation: &Explanation) -> String {
    let mut lines = Vec::new();
    match explanation.findings.split_first() {
        None => calm(explanation, &mut lines),
        Some((worst, others)) => {
            full(worst, &mut lines);
            rest(others, &mut lines);
        }
    }
    let mut text = String::new();
    for line in &lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn full(finding: &Finding, lines: &mut Vec<String>) {
    let mut sentence = shorten(finding, &finding.sentence);
    if let (Some(since), Some(for_s)) = (&finding.since, finding.for_s) {
        let end = sentence.trim_end_matches('.').len();
        sentence.truncate(end);
        let _ = write!(sentence, ", since {} ({}).", clock(since), length(for_s));
    }
    lines.extend(wrap(&sentence, COLUMNS));
    lines.push(String::new());
    for (place, reason) in finding.reasons.iter().enumerate() {
        let label = if place == 0 { "why" } else { "" };
        labelled(label, &shorten(finding, reason), lines);
    }
    labelled(&finding.certainty, &finding.evidence, lines);
    lines.push(String::new());
    match &finding.command {
        // Never wrapped, so that it can be copied.
        Some(command) => lines.push(format!("  {}", one_line(command))),
        None => lines.push("  No command helps by itself.".to_owned()),
    }
    for line in wrap(&shorten(finding, &finding.effect), COLUMNS - 4) {
        lines.push(format!("    {line}"));
    }
}

fn rest(others: &[Finding], lines: &mut Vec<String>) {
    if others.is_empty() {
        return;
    }
    lines.push(String::new());
    // A command that is longer than a line takes two lines on a screen.
    let taken: usize = lines
        .iter()
        .map(|l| l.chars().count().div_ceil(COLUMNS).max(1))
        .sum();
    let free = LINES.saturating_sub(taken).max(1);
    let shown = match others.len() <= free {
        true => others.len(),
        false => free - 1,
    };
    for finding in &others[..shown] {
        lines.push(cut(
            &format!("+ {}", shorten(finding, &finding.sentence)),
            COLUMNS,
        ));
    }
    if shown < others.len() {
        lines.push(format!("+ {} more (--json has all)", others.len() - shown));
    }
}

fn calm(explanation: &Explanation, lines: &mut Vec<String>) {
    let figures = &explanation.figures;
    lines.extend(wrap(&one_line(&explanation.summary), COLUMNS));
    lines.push(String::new());
    let party = |party: &Option<Party>| match party {
        Some(party) => format!(" by {}", name(&party.name)),
        None => String::new(),
    };
    labelled(
        "paid",
        &format!(
            "at most {:.2} CPUs for others{}",
            figures.most_paid_cpus,
            party(&figures.most_paid_by)
        ),
        lines,
    );
    let lost = match figures.most_taken_cpus {
        Some(cpus) => format!(
            "at most {cpus:.2} CPUs to others{}",
            party(&figures.most_taken_from)
        ),
        None => "not diagnosed".to_owned(),
    };
    labelled("lost", &lost, lines);
    let caused = format!(
        "{:.2} CPUs, by {} containers",
        figures.caused_cpus, figures.containers
    );
    labelled("network", &caused, lines);
    let measured = format!(
        "{} readings over {:.1} s; the ledger adds up within {:.2}%",
        figures.readings, figures.measured_s, figures.ledger_error_pct
    );
    labelled("measured", &measured, lines);
    labelled("agent", agent(&explanation.agent), lines);
}

/// Text for the value of `agent` in the document.
fn agent(label: &str) -> &'static str {
    match label {
        "running" => "running",
        "not_permitted" => "running, but does not answer this user: use sudo",
        _ => "not running: no agent watches; 'sudo cofferdam agent' starts one",
    }
}

/// Writes `label` in its column, and `text` next to it.
fn labelled(label: &str, text: &str, lines: &mut Vec<String>) {
    for (place, line) in wrap(&one_line(text), COLUMNS - INDENT)
        .into_iter()
        .enumerate()
    {
        let label = if place == 0 { label } else { "" };
        lines.push(format!("  {label:<width$}{line}", width = INDENT - 2));
    }
}

/// Cuts long names of the finding's containers in `text`.
fn shorten(finding: &Finding, text: &str) -> String {
    let mut text = text.to_owned();
    for party in finding.offender.iter().chain(&finding.victim) {
        if party.name.chars().count() > NAME || party.name.chars().any(char::is_control) {
            text = text.replace(&party.name, &name(&party.name));
        }
    }
    one_line(&text)
}

/// Name that fits, and cannot control the terminal.
fn name(name: &str) -> String {
    let plain = one_line(name);
    let letters: Vec<char> = plain.chars().collect();
    if letters.len() <= NAME {
        return plain;
    }
    let (head, tail) = (NAME / 2, NAME - NAME / 2 - 1);
    let begin: String = letters[..head].iter().collect();
    let end: String = letters[letters.len() - tail..].iter().collect();
    format!("{begin}…{end}")
}

/// Text as one line without control characters.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    cofferdam_types::printable(&words.join(" "))
}

/// Wraps `text` between words at `columns`; cuts a word that is longer.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let word = cut(word, columns);
        let last = lines.last_mut().expect("the list starts with one line");
        let used = last.chars().count();
        if used > 0 && used + 1 + word.chars().count() > columns {
            lines.push(word);
            continue;
        }
        if used > 0 {
            last.push(' ');
        }
        last.push_str(&word);
    }
    lines
}

fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let head: String = text.chars().take(columns - 1).collect();
    format!("{head}…")
}

/// Time of day with its zone, such as `03:12:05 UTC` for `2026-11-24T03:12:05.123Z`.
fn clock(time: &str) -> String {
    match time.get(11..19) {
        Some(clock) => format!("{clock} UTC"),
        None => one_line(time),
    }
}

/// Duration in its two largest units, such as `12m 40s`.
fn length(seconds: f64) -> String {
    let all = seconds.max(0.0) as u64;
    let parts = [
        (all / 86_400, "d"),
        (all / 3600 % 24, "h"),
        (all / 60 % 60, "m"),
        (all % 60, "s"),
    ];
    let begin = parts.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    // Smaller units are noise.
    let shown: Vec<String> = parts[begin..]
        .iter()
        .take(2)
        .map(|(n, unit)| format!("{n}{unit}"))
        .collect();
    shown.join(" ")
}
