//! Drawing of the state, as a pure function: the same state and size yield the same cells.

mod bars;
mod cpus;
mod details;
mod list;
pub mod style;

pub use list::ListPlaces;

use super::clock::Clock;
use super::fold::fold;
use super::help;
use super::state::{Mode, State, View};
use crate::text;
use crate::units;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use style::Palette;

/// Smallest usable terminal; a smaller one shows only a request for more space.
const SMALLEST: (u16, u16) = (40, 10);
/// Most lines of a sentence above the table.
const MOST_LINES: usize = 3;

/// Positions of the parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    title: Rect,
    head: Rect,
    /// Area of the view.
    pub body: Rect,
    keys: Rect,
}

impl Places {
    /// Positions on a screen of the size `area`; `None` where it is too small.
    pub fn new(state: &State, area: Rect) -> Option<Places> {
        Places::with(area, head(state, area, Palette::of(None, None)).len())
    }

    fn with(area: Rect, head_lines: usize) -> Option<Places> {
        if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
            return None;
        }
        let [title, head, _, body, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(head_lines as u16),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ])
        .areas(area);
        Some(Places {
            title,
            head,
            body,
            keys,
        })
    }
}

/// Draws the whole screen.
pub fn all(frame: &mut Frame<'_>, state: &State, palette: Palette) {
    let area = frame.area();
    let head = head(state, area, palette);
    let Some(places) = Places::with(area, head.len()) else {
        let text = format!(
            "Make this terminal at least {} × {}.",
            SMALLEST.0, SMALLEST.1
        );
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    };
    frame.render_widget(title_line(state, places.title.width), places.title);
    frame.render_widget(Paragraph::new(head), places.head);
    let body = places.body;
    match state.view {
        View::List => match explain_emptiness(state) {
            Some(text) => {
                frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), body);
            }
            None => list::draw(frame, state, body, palette),
        },
        View::Cpus => scrolled(frame, state, body, cpus::lines(state, body.width, palette)),
        View::Details(id) => {
            let lines = details::lines(state, id, body.width, palette);
            scrolled(frame, state, body, lines);
        }
    }
    frame.render_widget(key_line(state, places.keys.width), places.keys);
    if state.mode == Mode::Help {
        help_window(frame, area);
    }
}

/// Draws `lines` from `state.scroll` on; never only blanks.
fn scrolled(frame: &mut Frame<'_>, state: &State, area: Rect, lines: Vec<Line<'static>>) {
    let last = lines.len().saturating_sub(usize::from(area.height));
    let lines: Vec<_> = lines.into_iter().skip(state.scroll.min(last)).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Lines above the view, in whole words: headline, remedy, losses, CPUs, health. On a low terminal
/// the last ones are omitted first.
fn head(state: &State, area: Rect, palette: Palette) -> Vec<Line<'static>> {
    let width = usize::from(area.width);
    let lines = |text: &str, most: usize| fold(text, width, most).into_iter().map(Line::from);
    let Some(reading) = &state.reading else {
        let text = format!(
            "Waiting for the end of the first interval, {}.",
            units::duration(state.clock.interval())
        );
        return lines(&text, MOST_LINES).collect();
    };
    let note = state.clock.note();
    let note = note.iter().flat_map(|note| lines(note, MOST_LINES));
    let mut head: Vec<_> = note.map(|line| line.style(palette.warning())).collect();
    head.extend(lines(&reading.sentence, MOST_LINES).map(Line::bold));
    if let Some(command) = &reading.remedy {
        head.extend(remedy(command, width).into_iter().map(Line::from));
    }
    let losses = reading.losses.as_ref();
    // The details show their losses themselves.
    let losses = losses.filter(|_| !matches!(state.view, View::Details(_)));
    if let Some(text) = losses {
        head.extend(lines(text, MOST_LINES));
    }
    if state.view == View::List {
        head.push(Line::from(reading.host.cpu_line(width)));
        let well = reading.host.warnings.is_empty();
        let health = lines(&reading.host.health_line(), MOST_LINES);
        head.extend(health.map(|line| match well {
            true => line.dim(),
            false => line.style(palette.warning()),
        }));
    }
    // Space for the title, a blank, the headings, a few rows and the keys.
    head.truncate(usize::from(area.height.saturating_sub(7)).max(1));
    head
}

/// Lines of the command that helps: one, or broken where a shell may break it.
fn remedy(command: &str, width: usize) -> Vec<String> {
    let whole = format!("helps: {command}");
    match whole.split_once(" && ") {
        Some((first, second)) if text::width(&whole) > width => {
            let mut lines = fold(&format!("{first} &&"), width, MOST_LINES);
            lines.extend(fold(second, width, MOST_LINES));
            lines
        }
        _ => fold(&whole, width, MOST_LINES),
    }
}

fn title_line(state: &State, width: u16) -> Line<'static> {
    let mut parts = vec!["cofferdam top".to_owned()];
    if let Some(pause) = &state.pause {
        let age = units::duration(std::time::Duration::from_secs(pause.age.as_secs()));
        parts.push(format!("PAUSED, {age} old"));
    }
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
    let width = usize::from(width);
    // Whole parts only, the last one omitted first.
    while parts.len() > 1 && text::width(&parts.join(" · ")) > width {
        parts.pop();
    }
    Line::from(format!("{:<width$}", parts.join(" · ")))
        .style(Style::new().add_modifier(Modifier::REVERSED))
}

fn key_line(state: &State, width: u16) -> Line<'static> {
    let filter = text::cut_middle(&state.list.filter, usize::from(width).saturating_sub(34));
    let keys = match (state.mode, state.view) {
        (Mode::Filter, _) => {
            return Line::from(format!("filter: {filter}▏ (Enter keeps, Esc clears)"));
        }
        (_, View::List) if !filter.is_empty() => {
            return Line::from(format!("filter: {filter} (/ changes, Esc clears)"));
        }
        (_, View::List) => match state.clock {
            Clock::Live { .. } => help::LIST_KEYS,
            Clock::Replay { .. } => help::REPLAY_KEYS,
        },
        (_, View::Cpus) => help::CPU_KEYS,
        (_, View::Details(_)) => help::DETAIL_KEYS,
    };
    Line::from(help::fitting(keys, usize::from(width))).dim()
}

/// Reason why there is no row, and the remedy; `None` when there are rows.
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
            "No container's name, pod or runtime has '{}' in it. Esc clears the filter.",
            state.list.filter
        )
    })
}

fn help_window(frame: &mut Frame<'_>, area: Rect) {
    let lines = help::lines(area.width.saturating_sub(4), area.height.saturating_sub(2));
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let height = lines.len() as u16 + 2;
    let window = area.centered(
        Constraint::Length(width.min(area.width)),
        Constraint::Length(height.min(area.height)),
    );
    frame.render_widget(Clear, window);
    let block = Block::bordered().title(" help: any key closes ");
    frame.render_widget(Paragraph::new(lines).block(block), window);
}

#[cfg(test)]
mod tests;
