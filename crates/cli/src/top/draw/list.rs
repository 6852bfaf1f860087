//! The list of containers.

use super::bars;
use super::style::Palette;
use crate::text;
use crate::top::state::State;
use crate::view::{Column, Row as View};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, TableState};

/// Narrowest useful name column.
const NAME_WIDTH: u16 = 14;
/// Widest name column: longer names are cut.
const NAME_LIMIT: u16 = 48;
/// Narrowest and widest history.
const HISTORY_WIDTH: (u16, u16) = (8, 120);

/// Positions of the columns and rows of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPlaces {
    columns: Vec<Column>,
    widths: Vec<u16>,
    name: u16,
    history: u16,
    x: u16,
    /// Number of the first row on the screen.
    pub first: usize,
}

impl ListPlaces {
    /// Positions inside `area`, whose first line has the headings.
    pub fn new(state: &State, area: Rect) -> ListPlaces {
        let rows = state.visible();
        let columns = Column::fitting(area.width.saturating_sub(HISTORY_WIDTH.0 + 1), NAME_WIDTH);
        let numbers: u16 = columns.iter().map(|c| c.width()).sum();
        let longest = rows.iter().map(|r| text::width(&r.name)).max().unwrap_or(0);
        let longest = u16::try_from(longest).unwrap_or(u16::MAX);
        let left = area.width.saturating_sub(numbers + HISTORY_WIDTH.0 + 1);
        let name = longest
            .clamp(NAME_WIDTH, NAME_LIMIT)
            .min(left.max(NAME_WIDTH));
        let history = area.width.saturating_sub(numbers + name + 1);
        let width = |c: &Column| if *c == Column::Name { name } else { c.width() };
        // The first row stays the first while the cursor is on the screen.
        let height = usize::from(area.height.saturating_sub(1)).max(1);
        ListPlaces {
            widths: columns.iter().map(width).collect(),
            columns,
            name,
            history: history.min(HISTORY_WIDTH.1),
            x: area.x,
            first: (state.list.cursor + 1).saturating_sub(height),
        }
    }

    /// Column at the cell `x`.
    pub fn column_at(&self, x: u16) -> Option<Column> {
        let mut end = self.x;
        self.columns
            .iter()
            .zip(&self.widths)
            .find_map(|(column, width)| {
                end += width;
                (x < end).then_some(*column)
            })
    }
}

/// Draws the rows that pass the filter.
pub fn draw(frame: &mut Frame<'_>, state: &State, area: Rect, palette: Palette) {
    let places = ListPlaces::new(state, area);
    let rows = state.visible();
    let shown = usize::from(area.height.saturating_sub(1));
    let history = usize::from(places.history);
    let pasts: Vec<Vec<f64>> = (rows.iter())
        .map(|r| {
            state
                .histories()
                .last(r.cgroup, state.list.quantity, history)
        })
        .collect();
    // One scale for all, so that bars can be compared; at least 1% of a CPU, so that noise is
    // small.
    let full = pasts
        .iter()
        .flatten()
        .fold(1.0_f64, |max, v| max.max(v.abs()));

    let mut widths: Vec<_> = places
        .widths
        .iter()
        .map(|w| Constraint::Length(*w))
        .collect();
    widths.extend([Constraint::Length(1), Constraint::Length(places.history)]);
    let mut header: Vec<_> = places.columns.iter().map(|c| heading(state, *c)).collect();
    header.extend([Cell::from(""), Cell::from(state.list.quantity.title())]);
    let body = rows
        .iter()
        .zip(&pasts)
        .skip(places.first)
        .take(shown)
        .map(|(row, past)| {
            let mut cells: Vec<_> = places
                .columns
                .iter()
                .map(|c| cell(*c, row, places.name, palette))
                .collect();
            cells.push(Cell::from(""));
            cells.push(Cell::from(Line::from(bars::past(
                past, full, history, palette,
            ))));
            Row::new(cells)
        });
    let table = Table::new(body, widths)
        .column_spacing(0)
        .header(Row::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut cursor = TableState::new();
    // No cursor before it was moved: a highlighted first row would look like an alarm.
    if state.list.pointed {
        cursor.select(Some(
            state.list.cursor - places.first.min(state.list.cursor),
        ));
    }
    frame.render_stateful_widget(table, area, &mut cursor);
}

fn heading(state: &State, column: Column) -> Cell<'static> {
    let sorted = state.list.sort == column;
    let arrow = match (sorted, state.list.reverse != (column == Column::Name)) {
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

fn cell(column: Column, row: &View, name: u16, palette: Palette) -> Cell<'static> {
    let text = column.text(row);
    match column {
        Column::Name => Cell::from(text::cut_middle(&text, usize::from(name))),
        _ => {
            let line = Line::from(text).alignment(Alignment::Right);
            Cell::from(match column {
                Column::Owed if row.owed_pct >= 0.05 => line.style(palette.owes()),
                Column::Owed if row.owed_pct <= -0.05 => line.style(palette.paid()),
                _ => line,
            })
        }
    }
}
