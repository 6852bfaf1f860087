//! Details of one container: figures, past, offenders and victims, treatment by the agent,
//! processes and flows.

use super::bars::{self, LABEL};
use super::cpus::indented;
use super::style::Palette;
use crate::exit::one_line;
use crate::text;
use crate::top::history::Quantity;
use crate::top::reading::Reading;
use crate::top::state::State;
use crate::units::{count, pct, signed_pct};
use cofferdam_types::CgroupId;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};

mod gathered;
mod relations;

/// Cells of the newest and the highest value after a past.
const FIGURES: usize = 22;
/// Narrowest terminal with two columns.
const TWO_COLUMNS: u16 = 150;

/// View of the details in lines of `width`.
pub fn lines(state: &State, id: u64, width: u16, palette: Palette) -> Vec<Line<'static>> {
    let Some(reading) = &state.reading else {
        return Vec::new();
    };
    let Some(container) = reading.container(id) else {
        let notice = "This container is gone: its cgroup was removed. Esc goes back.";
        return indented("", notice, usize::from(width) + LABEL);
    };
    let column = match width >= TWO_COLUMNS {
        true => usize::from(width / 2 - 2),
        false => usize::from(width),
    };
    let mut left = figures(reading, id, column);
    left.push(Line::from(""));
    let wide = column < usize::from(width);
    // On a narrow terminal the flows come first: otherwise they would be below the screen.
    if state.flows && !wide {
        left.extend(gathered::flows(state, column));
        left.push(Line::from(""));
    }
    left.extend(pasts(state, id, column, palette));
    left.push(Line::from(""));
    left.extend(relations::lines(
        &reading.record,
        container,
        column,
        palette,
    ));
    let mut right = gathered::lines(state, column);
    if wide || !state.flows {
        right.push(Line::from(""));
        right.extend(gathered::flows(state, column));
    }
    if wide {
        return join_columns(left, right, column + 3);
    }
    left.push(Line::from(""));
    left.extend(right);
    left
}

/// Joins two columns, the second from the cell `at` on.
fn join_columns(
    left: Vec<Line<'static>>,
    right: Vec<Line<'static>>,
    at: usize,
) -> Vec<Line<'static>> {
    let count = left.len().max(right.len());
    let mut right = right.into_iter();
    let mut left = left.into_iter();
    (0..count)
        .map(|_| {
            let mut line = left.next().unwrap_or_default();
            let gap = at.saturating_sub(line.width());
            // The style of a line applies to its own part only.
            let style = line.style;
            line.spans
                .iter_mut()
                .for_each(|span| span.style = style.patch(span.style));
            line.style = ratatui::style::Style::new();
            let second = right.next().unwrap_or_default();
            line.spans.push(Span::from(" ".repeat(gap)));
            let style = second.style;
            line.spans.extend(second.spans.into_iter().map(|span| Span {
                style: style.patch(span.style),
                ..span
            }));
            line
        })
        .collect()
}

fn figures(reading: &Reading, id: u64, width: usize) -> Vec<Line<'static>> {
    let Some(container) = reading.container(id) else {
        return Vec::new();
    };
    let row = crate::view::Row::new(container, reading.record.length());
    let name = text::cut_middle(&row.name, width);
    let mut lines = vec![Line::from(name).bold()];
    let mut identity = format!(
        "{} · cgroup {}",
        row.runtime,
        one_line(&container.cgroup_path)
    );
    if let Some(id) = &container.id {
        let short: String = id.chars().take(12).collect();
        identity += &format!(" · id {}", one_line(&short));
    }
    if let Some(netns) = container.netns {
        identity += &format!(" · network namespace {netns}");
    }
    if container.host_network {
        identity += " · in the host's network namespace";
    }
    lines.extend(indented("is", &identity, width));
    let usage = format!(
        "CPU {}% · caused {}% (RX {}, TX {}, IRQ {}) · charged {}% · owed {}% · corrected {}%",
        pct(row.cpu_pct),
        pct(row.caused_pct),
        pct(row.caused_rx_pct),
        pct(row.caused_tx_pct),
        pct(row.caused_irq_pct),
        pct(row.charged_pct),
        signed_pct(row.owed_pct),
        pct(row.corrected_pct),
    );
    lines.extend(indented("now", &usage, width));
    let seconds = reading.record.interval_s.max(1e-9);
    let packets = format!(
        "{}/s received · {}/s sent · {} ns each",
        count(container.rx_packets as f64 / seconds),
        count(container.tx_packets as f64 / seconds),
        row.ns_per_packet.map_or("–".to_owned(), count),
    );
    lines.extend(indented("packets", &packets, width));
    if let Some(loss) = reading.loss(id) {
        let length = std::time::Duration::try_from_secs_f64(reading.record.interval_s);
        let words = one_line(&loss.words(length.unwrap_or_default()));
        lines.extend(indented("promised", &words, width));
    }
    lines
}

/// Last minutes, a line for each quantity: bars, newest value, highest value.
fn pasts(state: &State, id: u64, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let cells = width.saturating_sub(LABEL + FIGURES);
    let one = |quantity: Quantity| {
        let past = state.histories().last(CgroupId(id), quantity, cells);
        if past.iter().all(|v| v.is_nan()) {
            return None;
        }
        let highest = past.iter().fold(0.0_f64, |max, v| max.max(v.abs()));
        let floor = if quantity == Quantity::Packets {
            10.0
        } else {
            1.0
        };
        let value = |v: f64| match quantity {
            _ if v.is_nan() => "–".to_owned(),
            Quantity::Packets => count(v),
            Quantity::Owed => format!("{}%", signed_pct(v)),
            _ => format!("{}%", pct(v)),
        };
        let newest = past.last().copied().unwrap_or(f64::NAN);
        let mut spans = bars::past(&past, highest.max(floor), cells, palette);
        spans.push(Span::from(format!(
            " {:>8}  max {:>7}",
            value(newest),
            value(highest)
        )));
        Some(bars::labelled(quantity.label(), spans))
    };
    Quantity::ALL.into_iter().filter_map(one).collect()
}
