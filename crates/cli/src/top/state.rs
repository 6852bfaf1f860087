//! State of the screen and its change by keys, without a terminal or a clock.

use super::clock::Clock;
use super::history::Histories;
use super::inspection::{DetailsRequest, Inspection};
use super::list::List;
use super::reading::Reading;
use crate::selection::Selection;
use crate::view::Row;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::explain::Agent;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Number of readings from which the command that helps is derived.
const RECENT: usize = 3;

/// View below the headline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All containers.
    List,
    /// Each CPU.
    Cpus,
    /// The container of this cgroup.
    Details(u64),
}

/// Meaning of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Keys are commands.
    Normal,
    /// Keys are the text of the filter.
    Filter,
    /// The help is on the screen; any key closes it.
    Help,
}

/// Reaction of the loop to a key.
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

/// State of a paused screen.
#[derive(Debug)]
pub struct Pause {
    /// Time since the pause began.
    pub age: Duration,
    /// Past at the begin of the pause.
    histories: Histories,
    /// Reading that appears when the pause ends.
    next: Option<Reading>,
}

/// Whole state of the screen.
#[derive(Debug)]
pub struct State {
    /// Source of the readings.
    pub clock: Clock,
    /// Agent of this host; `None` in a replay, which it does not concern.
    pub agent: Option<Agent>,
    /// Set while the screen is paused.
    pub pause: Option<Pause>,
    /// Whether the terminal reports the mouse. Otherwise it selects text by it.
    pub mouse: bool,
    /// View below the headline.
    pub view: View,
    /// Meaning of keys.
    pub mode: Mode,
    /// The list.
    pub list: List,
    /// First visible line of the CPUs or the details.
    pub scroll: usize,
    /// Whether flows are sampled while details are open.
    pub flows: bool,
    /// Collected details; `None` until they arrive.
    pub inspection: Option<Inspection>,
    /// Last interval; `None` until the first has passed.
    pub reading: Option<Reading>,
    recent: Vec<AccountingRecord>,
    histories: Histories,
    selection: Selection,
}

impl State {
    /// State before the first reading.
    pub fn new(clock: Clock, selection: Selection) -> State {
        State {
            clock,
            agent: None,
            pause: None,
            mouse: false,
            view: View::List,
            mode: Mode::Normal,
            list: List::default(),
            scroll: 0,
            flows: false,
            inspection: None,
            reading: None,
            recent: Vec::new(),
            histories: Histories::default(),
            selection,
        }
    }

    /// Adds a new interval. While paused the screen does not show it.
    pub fn take(&mut self, record: AccountingRecord, no_diagnosis: Option<&str>) {
        let length = record.length();
        self.recent.push(record);
        if self.recent.len() > RECENT {
            self.recent.remove(0);
        }
        let mut reading = Reading::new(
            &self.recent,
            &self.selection,
            no_diagnosis,
            self.agent.as_ref(),
        );
        self.histories.push(&reading.rows);
        self.list.order(&mut reading.rows);
        match &mut self.pause {
            Some(pause) => {
                pause.age += length;
                pause.next = Some(reading);
            }
            None => self.reading = Some(reading),
        }
        self.keep_cursor();
    }

    /// Rows that pass the filter.
    pub fn visible(&self) -> Vec<&Row> {
        let rows = self
            .reading
            .as_ref()
            .map_or(&[][..], |reading| &reading.rows);
        self.list.visible(rows)
    }

    /// Recent past, as the screen shows it.
    pub fn histories(&self) -> &Histories {
        match &self.pause {
            Some(pause) => &pause.histories,
            None => &self.histories,
        }
    }

    /// Whether `--container` selects containers.
    pub fn is_selective(&self) -> bool {
        !self.selection.has_no_selectors()
    }

    /// Details that the screen needs.
    pub fn details_request(&self) -> DetailsRequest {
        match self.view {
            View::Details(cgroup) => DetailsRequest {
                container: Some(cgroup),
                flows: self.flows,
            },
            View::List | View::Cpus => DetailsRequest::default(),
        }
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Effect::Interrupt,
                _ => Effect::Redraw,
            };
        }
        let effect = match self.mode {
            Mode::Normal => self.command(key.code),
            Mode::Filter => {
                if self.list.edit(key.code) {
                    self.mode = Mode::Normal;
                }
                Effect::Redraw
            }
            Mode::Help => {
                self.mode = Mode::Normal;
                Effect::Redraw
            }
        };
        self.apply_list();
        effect
    }

    fn command(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('p' | ' ') => self.toggle_pause(),
            KeyCode::Char('m') => self.mouse = !self.mouse,
            KeyCode::Char('+' | '=') => return self.change_interval(true),
            KeyCode::Char('-') => return self.change_interval(false),
            code => match self.view {
                View::List => self.list_command(code),
                View::Cpus | View::Details(_) => self.page_command(code),
            },
        }
        Effect::Redraw
    }

    fn list_command(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.list.filter.clear(),
            KeyCode::Enter => self.open(self.list.cursor),
            KeyCode::Char('c') => self.show(View::Cpus),
            code => {
                self.list.command(code);
            }
        }
    }

    fn page_command(&mut self, code: KeyCode) {
        match code {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Enter => self.show(View::List),
            KeyCode::Char('c') => match self.view {
                View::Cpus => self.show(View::List),
                _ => self.show(View::Cpus),
            },
            KeyCode::Char('f') => (self.flows, self.scroll) = (!self.flows, 0),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
    }

    /// Opens the details of the row numbered `row`.
    pub fn open(&mut self, row: usize) {
        let cgroup = self.visible().get(row).map(|row| row.cgroup.0);
        if let Some(cgroup) = cgroup {
            self.list.go(row);
            self.show(View::Details(cgroup));
        }
    }

    fn show(&mut self, view: View) {
        // Flows are sampled for one visit to one container.
        (self.view, self.scroll, self.flows, self.inspection) = (view, 0, false, None);
    }

    fn toggle_pause(&mut self) {
        match self.pause.take() {
            Some(pause) => self.reading = pause.next.or(self.reading.take()),
            None => {
                self.pause = Some(Pause {
                    age: Duration::ZERO,
                    histories: self.histories.clone(),
                    next: None,
                });
            }
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

    /// Applies order and cursor after a change of the list.
    pub fn apply_list(&mut self) {
        if let Some(reading) = &mut self.reading {
            self.list.order(&mut reading.rows);
        }
        self.keep_cursor();
    }

    fn keep_cursor(&mut self) {
        self.list.keep(self.visible().len());
    }
}

#[cfg(test)]
mod tests;
