//! Picture of hosts and hours: the harm, and the times without records.

use super::NAME;
use super::unit::date;
use crate::census::{Census, HOUR_MS};
use crate::figures::{Figures, Hours};
use cofferdam_page::format::{number, short};
use cofferdam_page::section::section;
use maud::{Markup, html};

/// Limit on the columns: the number that a reader can distinguish on a phone.
const COLUMNS: i64 = 48;
/// Steps of the colour.
const STEPS: f64 = 5.0;

/// One column of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    covered_s: f64,
    harm_s: f64,
}

impl Cell {
    /// CPUs that were billed to the wrong container. `None` if nothing was recorded.
    fn cpus(self) -> Option<f64> {
        (self.covered_s > 0.0).then(|| self.harm_s / self.covered_s)
    }
}

/// First hour of the period, hours per column, and number of columns.
fn columns(census: &Census) -> (i64, i64, i64) {
    let first = census.period.from_ms.div_euclid(HOUR_MS);
    let last = (census.period.to_ms - 1).div_euclid(HOUR_MS).max(first);
    let hours = last - first + 1;
    let width = hours.div_euclid(COLUMNS) + i64::from(hours.rem_euclid(COLUMNS) > 0);
    (
        first,
        width,
        hours.div_euclid(width) + i64::from(hours.rem_euclid(width) > 0),
    )
}

fn cells(host: &Hours, (first, width, count): (i64, i64, i64)) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); count as usize];
    for (hour, (covered_s, harm_s)) in &host.hours {
        let place = (hour - first).div_euclid(width);
        if let Some(cell) = usize::try_from(place)
            .ok()
            .and_then(|place| cells.get_mut(place))
        {
            cell.covered_s += covered_s;
            cell.harm_s += harm_s;
        }
    }
    cells
}

/// Section with the harm by host and hour.
pub fn hours(figures: &Figures, census: &Census) -> Markup {
    let scale = columns(census);
    let hosts: Vec<(&str, Vec<Cell>)> = figures
        .hours
        .iter()
        .map(|h| (h.host.as_str(), cells(h, scale)))
        .collect();
    let all = hosts
        .iter()
        .flat_map(|(_, cells)| cells.iter().filter_map(|c| c.cpus()));
    let most = all.fold(0.0, f64::max);
    if hosts.is_empty() || most <= 0.0 {
        return html! {};
    }
    let step = |cpus: f64| (cpus / most * STEPS).ceil().clamp(0.0, STEPS) as u32;
    let (first, width, count) = scale;
    let from = |column: i64| date((first + column * width) * HOUR_MS);
    let lead = format!(
        "CPUs billed to the wrong container, the {} with most harm; \
         one column is {width} h. The strongest colour: {}.",
        if hosts.len() == 1 {
            "host".to_owned()
        } else {
            format!("{} hosts", hosts.len())
        },
        number(most)
    );
    section(
        "When",
        &lead,
        html! {
            table.strip {
                tbody { @for (host, cells) in &hosts { tr {
                    th.words scope="row" { (short(host, NAME)) }
                    td {
                        @let worst = cells.iter().filter_map(|c| c.cpus()).fold(0.0, f64::max);
                        @let gaps = cells.iter().filter(|c| c.cpus().is_none()).count();
                        @let label = format!(
                            "{}: at most {} CPUs, {gaps} of {count} columns without records",
                            short(host, NAME),
                            number(worst)
                        );
                        svg role="img" viewBox=(format!("0 0 {} 10", count * 10))
                            preserveAspectRatio="none" aria-label=(label) {
                            @for (n, cell) in (0..).zip(cells) {
                                @let class = match cell.cpus() {
                                    Some(cpus) => format!("step{}", step(cpus)),
                                    None => "gap".to_owned(),
                                };
                                rect class=(class) x=(n * 10) y="0" width="9.4" height="10" {
                                    title {
                                        (from(n)) ": "
                                        @match cell.cpus() {
                                            Some(cpus) => { (number(cpus)) " CPUs" },
                                            None => "not recorded",
                                        }
                                    }
                                }
                            }
                        }
                    }
                } } }
            }
            p.note.keys {
                span { (from(0)) " to " (date(census.period.to_ms)) }
                span { svg.key viewBox="0 0 60 10" aria-hidden="true" {
                    @for n in 0..6 {
                        rect class=(format!("step{n}")) x=(n * 10) y="0" width="9.4" height="10" {}
                    }
                } " none to most" }
                span {
                    svg.key.one viewBox="0 0 10 10" aria-hidden="true" {
                        rect.gap x="0" y="0" width="9.4" height="10" {}
                    }
                    " not recorded"
                }
            }
        },
    )
}
