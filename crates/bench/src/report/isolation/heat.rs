//! The 4×4 matrix as a heat map: how much performance a lost, by its own level and b's.

use crate::data::{IsolationRow, IsolationTable, Level};
use crate::report::format::{number, short};
use maud::{Markup, html};

/// A table of coloured cells: readable without colour, as each has its number.
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
        div.scroll { table.heat {
            thead { tr { th { "a ↓ beside b →" } @for b in Level::ALL { th { (b) } } } }
            tbody {
                @for a in &levels { tr {
                    th { (a) }
                    @for b in Level::ALL {
                        @let row = of.rows.iter().find(|r| r.scenario.a == *a && r.scenario.b == Some(*b));
                        (cell(row))
                    }
                } }
            }
        } }
    }
}

fn cell(row: Option<&IsolationRow>) -> Markup {
    let Some(loss) = row.and_then(|r| r.performance_loss_pct.as_ref()) else {
        return html! { td { "–" } };
    };
    let noise = loss.values.len() < super::FEWEST || (loss.low <= 0.0 && loss.high >= 0.0);
    let class = format!("heat{}", step(loss.median, noise));
    html! {
        td class=(class) title=(short(&format!("{} to {}", number(loss.low), number(loss.high)), 60)) {
            (number(loss.median)) "%" @if noise { " ·" }
        }
    }
}

/// 0: noise or a gain; 1 to 5: from a loss of some percent to one of more than half.
fn step(loss_pct: f64, noise: bool) -> u8 {
    match loss_pct {
        _ if noise => 0,
        l if l < 2.0 => 0,
        l if l < 5.0 => 1,
        l if l < 15.0 => 2,
        l if l < 30.0 => 3,
        l if l < 50.0 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_and_gains_have_no_colour() {
        assert_eq!(
            (step(80.0, true), step(-30.0, false), step(1.0, false)),
            (0, 0, 0)
        );
        assert_eq!((step(3.0, false), step(74.0, false)), (1, 5));
    }
}
