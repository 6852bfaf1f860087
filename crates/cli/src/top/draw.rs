//! Draws the state. Pure: the same state and size give the same cells.

use super::fold::fold;
use super::help;
use super::history::bar;
use super::state::{Mode, State};
use crate::units;
use crate::view::{Column, Row as View};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

/// A terminal below this shows only a request for a larger one.
const SMALLEST: (u16, u16) = (40, 10);
/// Narrowest useful name column.
const NAME_WIDTH: u16 = 14;
/// Lines that a sentence above the table may take.
const MOST_LINES: usize = 3;
/// Widest name column: longer names are cut.
const NAME_LIMIT: u16 = 36;
/// Narrowest and widest history.
const HISTORY_WIDTH: (u16, u16) = (8, 60);

/// Others paid for this container.
const OWES: Color = Color::Red;
/// This container paid for others.
const PAID: Color = Color::Cyan;

/// Draws everything.
pub fn all(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!(
            "Make this terminal at least {} × {}.",
            SMALLEST.0, SMALLEST.1
        );
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let width = usize::from(area.width);
    let head = head(state, width);
    let [title, above, _, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(head.len() as u16),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title_line(state, title.width), title);
    frame.render_widget(Paragraph::new(head), above);
    match explain_emptiness(state) {
        Some(text) => frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), body),
        None => table(frame, state, body),
    }
    frame.render_widget(key_line(state, keys.width), keys);
    if state.mode == Mode::Help {
        help_window(frame, area);
    }
}

/// The lines above the table, in whole words: headline, losses, CPUs, health.
fn head(state: &State, width: usize) -> Vec<Line<'static>> {
    let lines = |text: &str, most: usize| fold(text, width, most).into_iter().map(Line::from);
    let Some(reading) = &state.reading else {
        let text = format!(
            "Waiting for the end of the first interval, {}.",
            units::duration(state.clock.interval())
        );
        return lines(&text, MOST_LINES).collect();
    };
    let mut head: Vec<_> = lines(&reading.sentence, MOST_LINES)
        .map(Line::bold)
        .collect();
    if let Some(text) = &reading.losses {
        head.extend(lines(text, MOST_LINES));
    }
    head.push(Line::from(reading.host.cpu_line(width)));
    let well = reading.host.warnings.is_empty();
    let health = lines(&reading.host.health_line(), MOST_LINES);
    head.extend(health.map(|line| if well { line.dim() } else { line.yellow() }));
    head
}

fn title_line(state: &State, width: u16) -> Line<'static> {
    let mut parts = vec!["cofferdam top".to_owned()];
    if let Some(reading) = &state.reading {
        parts.push(state.clock.moment(&reading.record.time));
    }
    parts.push(state.clock.words());
    if let Some(reading) = &state.reading {
        let shown = state.visible().len();
        let all = reading.rows.len();
        parts.push(match shown == all {
            true => format!("{all} container{}", if all == 1 { "" } else { "s" }),
            false => format!("{shown} of {all} containers"),
        });
    }
    if state.paused {
        parts.insert(1, "PAUSED".to_owned());
    }
    let width = usize::from(width);
    // Whole parts only, the last to go first.
    while parts.len() > 1 && parts.join(" · ").chars().count() > width {
        parts.pop();
    }
    Line::from(format!("{:<width$}", parts.join(" · ")))
        .style(Style::new().add_modifier(Modifier::REVERSED))
}

fn key_line(state: &State, width: u16) -> Line<'static> {
    match state.mode {
        Mode::Filter => Line::from(format!(
            "filter: {}▏ (Enter keeps, Esc clears)",
            state.filter
        )),
        _ if !state.filter.is_empty() => {
            Line::from(format!("filter: {} (/ changes, Esc clears)", state.filter))
        }
        _ if width < 66 => Line::from("q quit  ? help  s sort  / filter  p pause").dim(),
        _ => Line::from("q quit  ? help  s sort  r reverse  / filter  p pause  +/- interval").dim(),
    }
}

/// Why there is no row, and what to do; `None` when there are rows.
fn explain_emptiness(state: &State) -> Option<String> {
    let Some(reading) = &state.reading else {
        return Some(String::new());
    };
    if reading.rows.is_empty() {
        return Some(match state.is_selective() {
            true => "The selected containers are gone: their cgroups were removed. They \
                     reappear when they start again under the same name. q quits."
                .to_owned(),
            false => "No container runs on this host. Start one with podman, docker or \
                      containerd, or put a process into a cgroup and a network namespace of its \
                      own: it appears here at once."
                .to_owned(),
        });
    }
    state.visible().is_empty().then(|| {
        format!(
            "No container's name has '{}' in it. Esc clears the filter.",
            state.filter
        )
    })
}

fn table(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let rows = state.visible();
    let columns = Column::fitting(area.width.saturating_sub(HISTORY_WIDTH.0 + 1), NAME_WIDTH);
    let numbers: u16 = columns.iter().map(|c| c.width()).sum();
    let longest = rows
        .iter()
        .map(|r| r.name.chars().count())
        .max()
        .unwrap_or(0) as u16;
    let left = area.width.saturating_sub(numbers + HISTORY_WIDTH.0 + 1);
    let name = longest
        .clamp(NAME_WIDTH, NAME_LIMIT)
        .min(left.max(NAME_WIDTH));
    let history = area
        .width
        .saturating_sub(numbers + name + 1)
        .min(HISTORY_WIDTH.1);

    let mut widths: Vec<_> = columns
        .iter()
        .map(|c| Constraint::Length(if *c == Column::Name { name } else { c.width() }))
        .collect();
    widths.push(Constraint::Length(1));
    widths.push(Constraint::Length(history));

    let pasts: Vec<Vec<f64>> = rows
        .iter()
        .map(|r| {
            state
                .histories
                .last(r.cgroup, state.quantity, usize::from(history))
        })
        .collect();
    // One scale for all, so that bars compare; at least 1% of a CPU, so that noise is small.
    let full = pasts
        .iter()
        .flatten()
        .fold(1.0_f64, |max, v| max.max(v.abs()));

    let mut header: Vec<_> = columns.iter().map(|c| heading(state, *c)).collect();
    header.push(Cell::from(""));
    header.push(Cell::from(state.quantity.title()));
    let body = rows.iter().zip(&pasts).map(|(row, past)| {
        let mut cells: Vec<_> = columns.iter().map(|c| cell(*c, row, name)).collect();
        cells.push(Cell::from(""));
        cells.push(Cell::from(bars(past, full, usize::from(history))));
        Row::new(cells)
    });
    let table = Table::new(body, widths)
        .column_spacing(0)
        .header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut cursor = TableState::new();
    // No cursor while everything fits: a highlighted first row would look like an alarm.
    if state.cursor > 0 || rows.len() > usize::from(area.height.saturating_sub(1)) {
        cursor.select(Some(state.cursor));
    }
    frame.render_stateful_widget(table, area, &mut cursor);
}

fn heading(state: &State, column: Column) -> Cell<'static> {
    let sorted = state.sort == column;
    let arrow = match (sorted, state.reverse != (column == Column::Name)) {
        (false, _) => "",
        (true, false) => "▼",
        (true, true) => "▲",
    };
    let text = Line::from(format!("{}{arrow}", column.title()));
    let text = if sorted { text.underlined() } else { text };
    Cell::from(match column {
        Column::Name => text,
        _ => text.alignment(Alignment::Right),
    })
}

fn cell(column: Column, row: &View, name: u16) -> Cell<'static> {
    let text = column.text(row);
    match column {
        Column::Name => Cell::from(cut(&text, usize::from(name))),
        _ => {
            let line = Line::from(text).alignment(Alignment::Right);
            Cell::from(match column {
                Column::Owed if row.owed_pct >= 0.05 => line.style(Style::new().fg(OWES)),
                Column::Owed if row.owed_pct <= -0.05 => line.style(Style::new().fg(PAID)),
                _ => line,
            })
        }
    }
}

/// The name in `width` cells, shortened in the middle: the ends distinguish containers of one pod.
fn cut(name: &str, width: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= width || width < 5 {
        return name.to_owned();
    }
    let tail = width / 2;
    let head: String = letters[..width - tail - 1].iter().collect();
    let end: String = letters[letters.len() - tail..].iter().collect();
    format!("{head}…{end}")
}

/// Bars, the newest at the right.
fn bars(past: &[f64], full: f64, width: usize) -> Line<'static> {
    let mut spans = vec![Span::from(" ".repeat(width.saturating_sub(past.len())))];
    for value in past {
        let color = if *value < 0.0 { PAID } else { OWES };
        spans.push(Span::styled(
            bar(*value, full).to_string(),
            Style::new().fg(color),
        ));
    }
    Line::from(spans)
}

fn help_window(frame: &mut Frame<'_>, area: Rect) {
    let lines = help::lines();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let height = lines.len() as u16 + 2;
    let window = area.centered(
        Constraint::Length(width.min(area.width)),
        Constraint::Length(height.min(area.height)),
    );
    frame.render_widget(Clear, window);
    let block = Block::bordered().title(" help: any key closes ");
    frame.render_widget(
        Paragraph::new(lines)
            .block(block)
            .wrap(Wrap { trim: false }),
        window,
    );
}

#[cfg(test)]
mod tests;
