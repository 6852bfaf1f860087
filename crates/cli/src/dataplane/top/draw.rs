//! The live screen, and its content as text.

use super::reading::{CounterChanges, StageRow};
use crate::table;
use crate::units;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, Wrap};
use std::fmt::Write;
use std::time::Duration;

/// Cells of the longest bar.
const BAR: usize = 20;

/// State of the live screen.
#[derive(Debug, Default)]
pub struct ScreenState {
    /// Last interval; `None` before the first.
    pub reading: Option<CounterChanges>,
    /// Reason why there is no new reading, if so.
    pub trouble: Option<String>,
    /// Whether the screen is paused.
    pub paused: bool,
    /// Time between readings.
    pub interval: Duration,
}

impl ScreenState {
    /// Draws the whole screen, as a pure function of state and size.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let reading = self.reading.as_ref();
        let stages = reading.map_or(0, |r| r.stages.len() as u16 + 2);
        let people = reading.map_or(0, |r| r.applications.len() as u16 + 2);
        let cores = reading.map_or(0, |r| match r.cores.len() {
            0 => 0,
            count => count as u16 + 2,
        });
        let elastic = reading.and_then(|r| r.elastic.as_deref());
        let elastic_lines = elastic.map_or(0, |text| text.lines().count() as u16);
        let [
            title,
            head,
            failures,
            loops,
            cores,
            changes,
            applications,
            stack,
            keys,
        ] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(2),
            Constraint::Length(u16::from(
                self.trouble.is_some() || reading.is_some_and(|r| r.failures.is_some()),
            )),
            Constraint::Length(stages),
            Constraint::Length(cores),
            Constraint::Length(elastic_lines),
            Constraint::Length(people),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.title(title.width), title);
        match reading {
            None => {
                let text = format!(
                    "Measuring: first figures in {}.",
                    units::duration(self.interval)
                );
                frame.render_widget(Paragraph::new(text), head);
            }
            Some(reading) => {
                let lines = reading
                    .head
                    .each_ref()
                    .map(|line| Line::from(line.as_str()));
                frame.render_widget(Paragraph::new(lines.to_vec()), head);
                let [left, right] =
                    Layout::horizontal([Constraint::Length(56), Constraint::Min(0)]).areas(loops);
                frame.render_widget(stage_table(reading), left);
                frame.render_widget(batch_table(reading), right);
                frame.render_widget(core_table(reading), cores);
                frame.render_widget(Paragraph::new(elastic.unwrap_or_default()), changes);
                frame.render_widget(application_table(reading), applications);
                frame.render_widget(stack_lines(reading, stack), stack);
            }
        }
        let trouble = self.trouble.as_deref();
        if let Some(text) = trouble.or(reading.and_then(|r| r.failures.as_deref())) {
            frame.render_widget(Line::from(text).red().bold(), failures);
        }
        frame.render_widget(Line::from("q quit  p pause  +/- interval").dim(), keys);
    }

    fn title(&self, width: u16) -> Line<'static> {
        let mut text = format!(
            "cofferdam dataplane top · every {}",
            units::duration(self.interval)
        );
        if self.paused {
            text += " · PAUSED";
        }
        let cut: String = text.chars().take(usize::from(width)).collect();
        Line::from(format!("{cut:<width$}", width = usize::from(width)))
            .style(Style::new().add_modifier(Modifier::REVERSED))
    }
}

fn bar(share: f64) -> String {
    "█".repeat((share * BAR as f64).round().clamp(0.0, BAR as f64) as usize)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn each(row: &StageRow) -> String {
    row.cycles_a_packet
        .map_or_else(|| "-".to_owned(), |cycles| format!("{cycles:.0}"))
}

fn header(names: &[&'static str]) -> Row<'static> {
    Row::new(names.to_vec()).dim()
}

fn right(text: String, width: usize) -> String {
    format!("{text:>width$}")
}

fn stage_table(reading: &CounterChanges) -> Table<'_> {
    let rows = reading.stages.iter().map(|row| {
        Row::new([
            row.name.clone(),
            right(percent(row.share), 6),
            right(each(row), 15),
            bar(row.share),
        ])
    });
    let widths = [11, 6, 15, BAR as u16].map(Constraint::Length);
    Table::new(rows, widths)
        .header(header(&["stage", " share", "cycles a packet", ""]).top_margin(1))
}

fn batch_table(reading: &CounterChanges) -> Table<'_> {
    let most = reading.batches.iter().map(|(_, n)| *n).max().unwrap_or(1);
    let all: u64 = reading.batches.iter().map(|(_, n)| *n).sum();
    let rows = reading.batches.iter().map(move |(size, n)| {
        Row::new([
            right(format!("≤{size}"), 5),
            right(percent(*n as f64 / all.max(1) as f64), 7),
            bar(*n as f64 / most as f64),
        ])
    });
    let widths = [5, 7, BAR as u16].map(Constraint::Length);
    Table::new(rows, widths).header(header(&["batch", "  share", ""]).top_margin(1))
}

const CORES: [&str; 7] = [
    "core",
    "groups",
    "in/s",
    "from cores/s",
    "out/s",
    "work %",
    "delay µs",
];

fn core_table(reading: &CounterChanges) -> Table<'_> {
    let widths = [12, 6, 9, 12, 9, 6, 8];
    let rows = reading.cores.iter().map(move |row| {
        let numbers = row.numbers.iter().zip(&widths[1..]);
        let numbers = numbers.map(|(n, width)| right(n.to_string(), *width));
        Row::new(
            std::iter::once(row.name.clone())
                .chain(numbers)
                .collect::<Vec<_>>(),
        )
    });
    Table::new(rows, widths.map(|width| Constraint::Length(width as u16)))
        .header(header(&CORES).top_margin(1))
}

fn application_table(reading: &CounterChanges) -> Table<'_> {
    let rows = reading.applications.iter().map(|row| {
        Row::new([
            row.name.clone(),
            right(row.connections.to_string(), 11),
            right(row.held_frames.to_string(), 11),
        ])
    });
    let widths = [24, 11, 11].map(Constraint::Length);
    Table::new(rows, widths)
        .header(header(&["application", "connections", "held frames"]).top_margin(1))
}

/// Counters of the network stack, as many as fit.
fn stack_lines(reading: &CounterChanges, area: Rect) -> Paragraph<'static> {
    let mut lines = vec![Line::from(""), Line::from("network stack, events/s").dim()];
    let rows = usize::from(area.height).saturating_sub(lines.len());
    lines.extend(
        reading
            .stack
            .iter()
            .take(rows)
            .map(|(name, rate)| Line::from(format!("{rate:>12.0}  {name}"))),
    );
    Paragraph::new(lines).wrap(Wrap { trim: false })
}

/// Content of the screen as text, for `--once`.
pub fn text(reading: &CounterChanges, width: Option<u16>) -> String {
    let mut out = format!("{}\n{}\n\n", reading.head[0], reading.head[1]);
    let mut stages = table::plain(width);
    stages.set_header(["stage", "share", "cycles a packet"]);
    for row in &reading.stages {
        stages.add_row([row.name.clone(), percent(row.share), each(row)]);
    }
    table::numbers_right(&mut stages);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{stages}");
    if let Some(failures) = &reading.failures {
        let _ = writeln!(out, "\n{failures}");
    }
    if !reading.cores.is_empty() {
        let mut cores = table::plain(width);
        cores.set_header(CORES);
        for row in &reading.cores {
            let numbers = row.numbers.iter().map(u64::to_string);
            cores.add_row(std::iter::once(row.name.clone()).chain(numbers));
        }
        table::numbers_right(&mut cores);
        let _ = writeln!(out, "\n{cores}");
    }
    if let Some(elastic) = &reading.elastic {
        let _ = writeln!(out, "\n{elastic}");
    }
    if !reading.applications.is_empty() {
        let mut people = table::plain(width);
        people.set_header(["application", "connections", "held frames"]);
        for row in &reading.applications {
            let numbers = [row.connections, row.held_frames].map(|n| n.to_string());
            let [connections, frames] = numbers;
            people.add_row([row.name.clone(), connections, frames]);
        }
        table::numbers_right(&mut people);
        let _ = write!(out, "\n{people}\n");
    }
    out
}
