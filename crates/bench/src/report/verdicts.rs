//! Judgements of [`crate::evidence`] as sentences and as a table.

use super::format::number;
use super::section::section;
use crate::data::{Doubt, GoalBound, Judgement, Verdict};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// Most sentences of one kind; the table has all goals.
const MOST_SENTENCES: usize = 4;
/// Number of rows from which the table is folded.
const FOLDED_FROM: usize = 16;

/// Text of a bound, such as `at least 3.00`.
pub fn bound(bound: GoalBound) -> String {
    match bound {
        GoalBound::AtMost(most) => format!("at most {}", number(most)),
        GoalBound::AtLeast(least) => format!("at least {}", number(least)),
        GoalBound::Within([least, most]) => format!("{} to {}", number(least), number(most)),
    }
}

/// Sentence that counts the goals by verdict; `None` without a goal.
pub fn tally(goals: &[Judgement]) -> Option<String> {
    let count = |of: Verdict| goals.iter().filter(|g| g.verdict == of).count();
    let measured = goals.len() - count(Verdict::NotMeasured);
    if goals.is_empty() {
        return None;
    }
    let one_or = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("one {one}")),
        n => Some(format!("{n} {many}")),
    };
    let others = [
        one_or(count(Verdict::Missed), "is missed", "are missed"),
        one_or(
            count(Verdict::Inconclusive),
            "is inconclusive",
            "are inconclusive",
        ),
        one_or(
            count(Verdict::NoHarm),
            "had no harm to mend",
            "had no harm to mend",
        ),
        one_or(
            count(Verdict::NotMeasured),
            "was not measured",
            "were not measured",
        ),
    ];
    let others: Vec<String> = others.into_iter().flatten().collect();
    Some(match (measured, others.is_empty()) {
        (0, _) => "No goal was measured.".to_owned(),
        (n, true) => format!("{} of {n} goals are reached.", count(Verdict::Reached)),
        (n, false) => format!(
            "{} of {n} goals are reached; {}.",
            count(Verdict::Reached),
            others.join(", ")
        ),
    })
}

/// Function from a condition's id to its name.
type Names<'a> = &'a dyn Fn(&str) -> String;

/// Tally, then missed goals, then inconclusive ones with the reason.
pub fn sentences(goals: &[Judgement], names: Names<'_>) -> Vec<String> {
    let mut text = Vec::from_iter(tally(goals));
    let mut missed: Vec<&Judgement> = of(goals, Verdict::Missed).collect();
    missed.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
    let shown = missed.iter().take(MOST_SENTENCES);
    text.extend(shown.map(|goal| {
        format!(
            "Missed: {} is {}; the goal is {}.",
            subject(goal, names),
            figure(goal),
            bound(goal.bound)
        )
    }));
    let rest = missed.len().saturating_sub(MOST_SENTENCES);
    if rest > 0 {
        text.push(format!("{rest} more are missed."));
    }
    let mut doubtful: BTreeMap<Doubt, Vec<&Judgement>> = BTreeMap::new();
    for goal in of(goals, Verdict::Inconclusive) {
        if let Some(doubt) = goal.doubt {
            doubtful.entry(doubt).or_default().push(goal);
        }
    }
    text.extend(
        doubtful
            .iter()
            .map(|(doubt, goals)| inconclusive(*doubt, goals, names)),
    );
    text
}

fn inconclusive(doubt: Doubt, goals: &[&Judgement], names: Names<'_>) -> String {
    let each = |goal: &&Judgement| format!("{} is {}", subject(goal, names), figure(goal));
    let shown: Vec<String> = goals.iter().take(MOST_SENTENCES).map(each).collect();
    let rest = match goals.len().saturating_sub(MOST_SENTENCES) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("Inconclusive ({doubt}): {}{rest}.", shown.join("; "))
}

fn of(goals: &[Judgement], verdict: Verdict) -> impl Iterator<Item = &Judgement> {
    goals.iter().filter(move |g| g.verdict == verdict)
}

/// Distance of the figure beyond the goal, as a part of the goal if that is not 0.
fn excess(goal: &Judgement) -> f64 {
    let size = match goal.bound {
        GoalBound::AtMost(at) | GoalBound::AtLeast(at) => at.abs(),
        GoalBound::Within([least, most]) => most - least,
    };
    goal.bound.excess(goal.median.unwrap_or(f64::NAN)) / size.max(f64::MIN_POSITIVE)
}

/// Goal within a sentence, such as `the penalty factor (cpu · 3 × 200 B UDP in · veth)`.
fn subject(goal: &Judgement, names: Names<'_>) -> String {
    let mut letters = goal.what.chars();
    let first = letters.next().unwrap_or_default();
    let what = match letters.as_str().starts_with(char::is_lowercase) {
        true => first.to_lowercase().to_string() + letters.as_str(),
        false => goal.what.clone(),
    };
    match &goal.case {
        Some(case) => format!("{what} ({})", names(case)),
        None => what,
    }
}

/// The figure with its interval, or with the number of measurements.
fn figure(goal: &Judgement) -> String {
    let Some(median) = goal.median else {
        return "–".to_owned();
    };
    match (goal.low, goal.high, goal.blocks) {
        (Some(low), Some(high), _) => {
            format!("{} [{}, {}]", number(median), number(low), number(high))
        }
        (_, _, Some(n)) => format!("{} (n = {n})", number(median)),
        _ => number(median),
    }
}

/// Table of every goal with its figure; `None` if the run has none.
pub fn table(goals: &[Judgement], names: Names<'_>) -> Option<Markup> {
    let counts = tally(goals)?;
    let rows = html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "what" } th.words { "condition" } th.words { "verdict" } th { "figure" }
                th.words { "goal" } th.words { "why" }
            } }
            tbody { @for goal in goals { tr {
                th.words.goal { (goal.what) }
                td.words { @if let Some(case) = &goal.case { span title=(case) { (names(case)) } } }
                td.words { (mark(goal.verdict)) }
                td { (figure(goal)) }
                td.words { (bound(goal.bound)) }
                td.words.why { @if let Some(doubt) = goal.doubt { (doubt) } }
            } } }
        } }
    };
    let inside = html! {
        @if goals.len() < FOLDED_FROM { (rows) }
        @else { details { summary { "All " (goals.len()) ": " (counts) } (rows) } }
    };
    Some(section(
        "Goals",
        "Reached: the whole 95% interval is on the good side; missed: the whole interval is on the \
         bad side; otherwise inconclusive. Fewer than five blocks, or blocks that are all alike, \
         have no interval. Where the same cell without Cofferdam did not miss the goal, there was \
         no harm to mend.",
        inside,
    ))
}

/// Verdict as words and a sign, so that colour is not needed.
fn mark(verdict: Verdict) -> Markup {
    let (class, sign) = match verdict {
        Verdict::Reached => ("good", "✓"),
        Verdict::Missed => ("bad", "✗"),
        Verdict::Inconclusive => ("doubt", "?"),
        Verdict::NoHarm => ("doubt", "="),
        Verdict::NotMeasured => ("doubt", "–"),
    };
    html! { span class=(class) { (sign) " " (verdict.words()) } }
}
