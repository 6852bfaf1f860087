//! Heat map of the 4×4 matrix: a's loss of performance, by its level and b's.

use super::table::tenths;
use crate::isolation::data::{IsolationRow, IsolationTable, Level};
use crate::report::format::certainty;
use maud::{Markup, html};

/// Losses at which one colour ends and the next begins, percent.
const STEPS: [f64; 5] = [2.0, 5.0, 15.0, 30.0, 50.0];

/// Table of coloured cells. Each has its number, so it is readable without colour.
pub fn map(of: &IsolationTable) -> Markup {
    let levels: Vec<Level> = Level::ALL
        .iter()
        .copied()
        .filter(|a| {
            of.rows
                .iter()
                .any(|r| r.scenario.a == *a && r.scenario.b.is_some())
        })
        .collect();
    if levels.is_empty() {
        return html! {};
    }
    html! {
        div.scroll tabindex="0" { table.heat {
            thead { tr {
                th { "a ↓ b →" }
                @for b in Level::ALL { th title=(b) { "b" sub { (b.letter()) } } }
            } }
            tbody {
                @for a in &levels { tr {
                    th title=(a) { "a" sub { (a.letter()) } }
                    @for b in Level::ALL {
                        @let levels = (*a, Some(*b));
                        @let row = of.rows.iter().find(|r| (r.scenario.a, r.scenario.b) == levels);
                        (cell(row))
                    }
                } }
            }
        } }
        (scale())
    }
}

/// Legend of the colours.
fn scale() -> Markup {
    let upper = STEPS.iter().map(|upper| format!("below {upper}%"));
    let words = upper.chain([format!("{}% or more", STEPS[STEPS.len() - 1])]);
    html! {
        p.keys {
            span { "performance that a lost:" }
            @for (step, words) in words.enumerate() {
                span { span class=(format!("swatch heat{step}")) {} " " (words) }
            }
            span { "· no difference is shown" }
        }
    }
}

fn cell(row: Option<&IsolationRow>) -> Markup {
    let Some(loss) = row.and_then(|r| r.performance_loss_pct.as_ref()) else {
        return html! { td { "–" } };
    };
    let noise = loss.interval().is_none_or(|interval| interval.holds(0.0));
    let class = format!("heat{}", step(loss.median, noise));
    html! {
        td class=(class) title=(certainty(loss)) {
            (tenths(loss.median)) "%" @if noise { " ·" }
        }
    }
}

/// Index of a loss in [`STEPS`]; noise and gains have 0.
fn step(loss_pct: f64, noise: bool) -> usize {
    match noise {
        true => 0,
        false => STEPS.iter().filter(|upper| loss_pct >= **upper).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_loss_is_none_and_has_no_sign() {
        assert_eq!(tenths(-0.005), "0.0");
        assert_eq!(tenths(1.4e-4), "0.0");
        assert_eq!(
            (tenths(-1.96), tenths(71.03)),
            ("-2.0".into(), "71.0".into())
        );
    }

    #[test]
    fn noise_and_gains_have_no_colour() {
        assert_eq!(
            (step(80.0, true), step(-30.0, false), step(1.0, false)),
            (0, 0, 0)
        );
        assert_eq!((step(3.0, false), step(74.0, false)), (1, 5));
    }
}
