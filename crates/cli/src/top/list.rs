//! The list of containers: order, filter and cursor, without a terminal.

use super::history::Quantity;
use crate::view::{Column, Row, sort};
use crossterm::event::KeyCode;

/// Longest filter text, bytes.
const FILTER_LENGTH: usize = 64;
/// Rows of one page.
const PAGE: usize = 10;
/// Rows of one turn of the wheel.
const WHEEL: usize = 3;

/// Settings of the list.
#[derive(Clone, Debug)]
pub struct List {
    /// Sort key.
    pub sort: Column,
    /// Whether the sort order is reversed.
    pub reverse: bool,
    /// Text that must be part of the name, pod or runtime of a container in the list.
    pub filter: String,
    /// Number of the row under the cursor.
    pub cursor: usize,
    /// Whether a key or a click has moved the cursor: before that, no cursor is drawn.
    pub pointed: bool,
    /// Quantity of the history column.
    pub quantity: Quantity,
}

impl Default for List {
    fn default() -> List {
        List {
            sort: Column::Owed,
            reverse: false,
            filter: String::new(),
            cursor: 0,
            pointed: false,
            quantity: Quantity::Owed,
        }
    }
}

impl List {
    /// Rows that pass the filter, in the order of `rows`.
    pub fn visible<'a>(&self, rows: &'a [Row]) -> Vec<&'a Row> {
        let wanted = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        let passes = |row: &&Row| wanted.is_empty() || has(&row.name) || has(&row.runtime);
        rows.iter().filter(passes).collect()
    }

    /// Sorts `rows`.
    pub fn order(&self, rows: &mut [Row]) {
        sort(rows, self.sort, self.reverse);
    }

    /// Sorts by `column`; reverses the order if it is the sort key already.
    pub fn sort_by(&mut self, column: Column) {
        self.reverse = self.sort == column && !self.reverse;
        self.sort = column;
    }

    /// Handles a command; returns false if it is not one of the list.
    pub fn command(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Char('s') | KeyCode::Right => self.step(1),
            KeyCode::Char('S') | KeyCode::Left => self.step(Column::ALL.len() - 1),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char(digit @ '0'..='9') => {
                // The tenth column is 0, as on the keyboard.
                let place = (digit as usize + 9 - '0' as usize) % 10;
                if let Some(column) = Column::ALL.get(place) {
                    self.sort_by(*column);
                }
            }
            KeyCode::Char('g') => self.quantity = self.quantity.other(),
            KeyCode::Up | KeyCode::Char('k') => self.go(self.cursor.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.go(self.cursor + usize::from(self.pointed)),
            KeyCode::PageUp => self.go(self.cursor.saturating_sub(PAGE)),
            KeyCode::PageDown => self.go(self.cursor + PAGE),
            KeyCode::Home => self.go(0),
            KeyCode::End => self.go(usize::MAX),
            _ => return false,
        }
        true
    }

    /// Handles a turn of the wheel.
    pub fn wheel(&mut self, down: bool) {
        self.go(match down {
            true => self.cursor.saturating_add(WHEEL),
            false => self.cursor.saturating_sub(WHEEL),
        });
    }

    /// Moves the cursor to a row.
    pub fn go(&mut self, row: usize) {
        (self.cursor, self.pointed) = (row, true);
    }

    /// Handles a key while the filter is edited; returns true when the editing ends.
    pub fn edit(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Enter => return true,
            KeyCode::Esc => {
                self.filter.clear();
                return true;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.len() < FILTER_LENGTH && !c.is_control() => {
                self.filter.push(c);
            }
            _ => {}
        }
        false
    }

    /// Keeps the cursor within `count` rows.
    pub fn keep(&mut self, count: usize) {
        self.cursor = self.cursor.min(count.saturating_sub(1));
    }

    fn step(&mut self, step: usize) {
        let now = Column::ALL
            .iter()
            .position(|c| *c == self.sort)
            .unwrap_or(0);
        self.sort = Column::ALL[(now + step) % Column::ALL.len()];
        self.reverse = false;
    }
}
