//! What the screen shows and how keys change it: no terminal, no clock.

use super::clock::Clock;
use super::history::Histories;
use super::inspection::{Inspection, Wanted};
use super::list::List;
use super::reading::Reading;
use crate::selection::Selection;
use crate::view::Row;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::explain::Agent;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Readings that the command that helps is derived from.
const RECENT: usize = 3;

/// What is shown below the headline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// All containers.
    List,
    /// Each CPU.
    Cpus,
    /// The container of this cgroup.
    Details(u64),
}

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

/// What stands still while the screen is paused.
#[derive(Debug)]
pub struct Pause {
    /// Time that has passed since.
    pub age: Duration,
    /// The past as it was then.
    histories: Histories,
    /// What is shown when it ends.
    next: Option<Reading>,
}

/// All that the screen shows.
#[derive(Debug)]
pub struct State {
    /// Where the readings come from.
    pub clock: Clock,
    /// The agent of this host; `None` where it has no say, as in a replay.
    pub agent: Option<Agent>,
    /// While readings are not shown.
    pub pause: Option<Pause>,
    /// Whether the terminal reports the mouse. Without it, the terminal selects text by it.
    pub mouse: bool,
    /// What is shown.
    pub view: View,
    /// What keys mean.
    pub mode: Mode,
    /// The list.
    pub list: List,
    /// First line shown of the CPUs or the details.
    pub scroll: usize,
    /// Whether flows are sampled while details are shown.
    pub flows: bool,
    /// What was gathered for the details; `None` until then.
    pub inspection: Option<Inspection>,
    /// `None` until the first interval has passed.
    pub reading: Option<Reading>,
    recent: Vec<AccountingRecord>,
    histories: Histories,
    selection: Selection,
}

impl State {
    /// The state before the first reading.
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

    /// Takes in a new interval. While paused it is not shown: the screen stands still.
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

    /// The rows that pass the filter.
    pub fn visible(&self) -> Vec<&Row> {
        let rows = self
            .reading
            .as_ref()
            .map_or(&[][..], |reading| &reading.rows);
        self.list.visible(rows)
    }

    /// The recent past as it is shown.
    pub fn histories(&self) -> &Histories {
        match &self.pause {
            Some(pause) => &pause.histories,
            None => &self.histories,
        }
    }

    /// Whether `--container` limits what is shown.
    pub fn is_selective(&self) -> bool {
        !self.selection.is_all()
    }

    /// What the details that are shown need.
    pub fn wanted(&self) -> Wanted {
        match self.view {
            View::Details(cgroup) => Wanted {
                container: Some(cgroup),
                flows: self.flows,
            },
            View::List | View::Cpus => Wanted::default(),
        }
    }

    /// Takes in a key.
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
        self.settle();
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
        // Flows are sampled for one look at one container.
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

    /// After a change of the list.
    pub fn settle(&mut self) {
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
