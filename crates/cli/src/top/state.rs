//! What the screen shows and how keys change it: no terminal, no clock.

use super::clock::Clock;
use super::history::{Histories, Quantity};
use crate::diagnosis;
use crate::headline;
use crate::selection::Selection;
use crate::view::{Column, HostView, Row, sort};
use cofferdam_records::accounting::AccountingRecord;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Longest filter text.
const FILTER_LENGTH: usize = 64;

/// What keys mean now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Keys are commands.
    Normal,
    /// Keys are the text of the filter.
    Filter,
    /// The help is shown; any key takes it away.
    Help,
}

/// What the loop has to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Draw again.
    Redraw,
    /// The interval has another length.
    IntervalChanged,
    /// End with exit code 0.
    Quit,
    /// End as Ctrl-C does, with exit code 130.
    Interrupt,
}

/// The last interval that was measured.
#[derive(Debug)]
pub struct Reading {
    /// The ledger, with its diagnosis.
    pub record: AccountingRecord,
    /// The headline.
    pub sentence: String,
    /// CPUs and health.
    pub host: HostView,
    /// Who lost most CPU to others, or why that is not known.
    pub losses: Option<String>,
    /// The selected containers, sorted, unfiltered.
    pub rows: Vec<Row>,
}

/// All that the screen shows.
#[derive(Debug)]
pub struct State {
    /// Where the readings come from.
    pub clock: Clock,
    /// True while readings are not shown.
    pub paused: bool,
    /// Sort key.
    pub sort: Column,
    /// Sort order turned round.
    pub reverse: bool,
    /// Only names with this part are shown.
    pub filter: String,
    /// What keys mean.
    pub mode: Mode,
    /// What the history column shows.
    pub quantity: Quantity,
    /// Number of the row under the cursor.
    pub cursor: usize,
    /// `None` until the first interval has passed.
    pub reading: Option<Reading>,
    /// The recent past.
    pub histories: Histories,
    selection: Selection,
}

impl State {
    /// The state before the first reading.
    pub fn new(clock: Clock, selection: Selection) -> State {
        State {
            clock,
            paused: false,
            sort: Column::Owed,
            reverse: false,
            filter: String::new(),
            mode: Mode::Normal,
            quantity: Quantity::Owed,
            cursor: 0,
            reading: None,
            histories: Histories::default(),
            selection,
        }
    }

    /// Takes in a new interval. While paused it is dropped: the screen stands still.
    pub fn take(&mut self, record: AccountingRecord, no_diagnosis: Option<&str>) {
        if self.paused {
            return;
        }
        let length = record.length();
        let mut rows: Vec<_> = (self.selection.of_record(&record))
            .map(|container| Row::new(container, length))
            .collect();
        self.histories.push(&rows);
        sort(&mut rows, self.sort, self.reverse);
        self.reading = Some(Reading {
            sentence: headline::of(&record),
            host: HostView::new(&record),
            losses: match (no_diagnosis, &record.diagnosis) {
                (Some(why), _) => Some(format!("no diagnosis: {why}")),
                (None, losses) => losses.as_ref().and_then(diagnosis::worst_of),
            },
            rows,
            record,
        });
        self.keep_cursor();
    }

    /// The rows that pass the filter.
    pub fn visible(&self) -> Vec<&Row> {
        let wanted = self.filter.to_lowercase();
        self.reading
            .iter()
            .flat_map(|reading| &reading.rows)
            .filter(|row| row.name.to_lowercase().contains(&wanted))
            .collect()
    }

    /// Whether `--container` limits what is shown.
    pub fn is_selective(&self) -> bool {
        !self.selection.is_all()
    }

    /// Takes in a key.
    pub fn key(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Effect::Interrupt;
        }
        let effect = match self.mode {
            Mode::Normal => self.command(key.code),
            Mode::Filter => self.edit(key.code),
            Mode::Help => {
                self.mode = Mode::Normal;
                Effect::Redraw
            }
        };
        self.keep_cursor();
        effect
    }

    fn command(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') | KeyCode::Right => self.sort_by(1),
            KeyCode::Char('S') | KeyCode::Left => self.sort_by(Column::ALL.len() - 1),
            KeyCode::Char('r') => {
                self.reverse = !self.reverse;
                self.resort();
            }
            KeyCode::Char('g') => self.quantity = self.quantity.other(),
            KeyCode::Char('+' | '=') => return self.change_interval(true),
            KeyCode::Char('-') => return self.change_interval(false),
            KeyCode::Up | KeyCode::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.cursor += 1,
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(10),
            KeyCode::PageDown => self.cursor += 10,
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = usize::MAX,
            _ => {}
        }
        Effect::Redraw
    }

    fn edit(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Enter => self.mode = Mode::Normal,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Normal;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.len() < FILTER_LENGTH => self.filter.push(c),
            _ => {}
        }
        Effect::Redraw
    }

    fn sort_by(&mut self, step: usize) {
        let now = Column::ALL
            .iter()
            .position(|c| *c == self.sort)
            .unwrap_or(0);
        self.sort = Column::ALL[(now + step) % Column::ALL.len()];
        self.reverse = false;
        self.resort();
    }

    fn resort(&mut self) {
        if let Some(reading) = &mut self.reading {
            sort(&mut reading.rows, self.sort, self.reverse);
        }
    }

    fn change_interval(&mut self, longer: bool) -> Effect {
        match self.clock.changed(longer) {
            Some(clock) => {
                self.clock = clock;
                Effect::IntervalChanged
            }
            None => Effect::Redraw,
        }
    }

    fn keep_cursor(&mut self) {
        self.cursor = self.cursor.min(self.visible().len().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::record;
    use crate::top::clock::LONGEST_INTERVAL;
    use cofferdam_types::quantity::SHORTEST_INTERVAL;
    use std::time::Duration;

    const SECOND: Clock = Clock::Live {
        interval: Duration::from_secs(1),
    };

    fn state() -> State {
        let mut state = State::new(SECOND, Selection::default());
        state.take(record(), None);
        state
    }

    fn press(state: &mut State, keys: &str) -> Effect {
        let mut effect = Effect::Redraw;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            effect = state.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        effect
    }

    fn names(state: &State) -> Vec<&str> {
        state.visible().iter().map(|r| r.name.as_str()).collect()
    }

    #[test]
    fn sorted_by_owed_until_a_key_says_otherwise() {
        let mut state = state();
        assert_eq!(names(&state), ["web-3", "cache", "db-1"]);
        press(&mut state, "r");
        assert_eq!(names(&state), ["db-1", "cache", "web-3"]);
        while state.sort != Column::Name {
            press(&mut state, "s");
        }
        assert_eq!(names(&state), ["cache", "db-1", "web-3"]);
        press(&mut state, "S");
        assert_eq!(state.sort, Column::NsPerPacket);
    }

    #[test]
    fn the_filter_takes_letters_that_are_commands_elsewhere() {
        let mut state = state();
        press(&mut state, "/qWEB");
        assert_eq!((state.mode, state.filter.as_str()), (Mode::Filter, "qWEB"));
        assert!(names(&state).is_empty());
        press(&mut state, "\u{1b}/WEB\n");
        assert_eq!(names(&state), ["web-3"]);
        assert_eq!(state.mode, Mode::Normal);
        press(&mut state, "\u{1b}");
        assert_eq!(names(&state).len(), 3);
    }

    #[test]
    fn pause_stands_still() {
        let mut state = state();
        press(&mut state, "p");
        let mut later = record();
        later.containers.clear();
        state.take(later.clone(), None);
        assert_eq!(names(&state).len(), 3);
        press(&mut state, "p");
        state.take(later, None);
        assert!(names(&state).is_empty());
    }

    #[test]
    fn the_interval_stays_in_bounds() {
        let mut state = state();
        assert_eq!(press(&mut state, "+"), Effect::IntervalChanged);
        assert_eq!(state.clock.interval(), Duration::from_secs(2));
        press(&mut state, "++++++++++");
        assert_eq!(state.clock.interval(), LONGEST_INTERVAL);
        press(&mut state, "--------------------");
        assert_eq!(state.clock.interval(), SHORTEST_INTERVAL);
    }

    #[test]
    fn the_cursor_stays_on_a_row() {
        let mut state = state();
        press(&mut state, "jjjjjjj");
        assert_eq!(state.cursor, 2);
        press(&mut state, "/web\n");
        assert_eq!(state.cursor, 0);
    }

    #[test]
    fn quit_and_ctrl_c_differ() {
        let mut state = state();
        assert_eq!(press(&mut state, "q"), Effect::Quit);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(ctrl_c), Effect::Interrupt);
        press(&mut state, "/");
        assert_eq!(state.key(ctrl_c), Effect::Interrupt);
    }

    #[test]
    fn any_key_leaves_the_help() {
        let mut state = state();
        press(&mut state, "?");
        assert_eq!(state.mode, Mode::Help);
        assert_eq!(press(&mut state, "q"), Effect::Redraw);
        assert_eq!(state.mode, Mode::Normal);
    }
}
