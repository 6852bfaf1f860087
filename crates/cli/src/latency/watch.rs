//! `cofferdam latency watch`: live histograms, on the terminal.

use super::args::WatchArgs;
use super::session::Session;
use super::text::nanoseconds;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::top::screen::Screen;
use cofferdam_latency::{Distribution, Flow, FlowSummary, Summary};
use crossterm::event::KeyCode;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

/// Between two readings of the rings, and two looks at the keyboard.
const READ_EVERY: Duration = Duration::from_millis(20);

/// Shows until `q`, Ctrl-C or a signal.
pub fn run(args: &WatchArgs, interrupt: &Interrupt) -> Outcome {
    if !stdout().is_terminal() {
        return Err(Failure::Usage(
            "watch needs a terminal on standard output: use 'latency record' here".to_owned(),
        ));
    }
    let mut session = Session::begin(&args.measure)?;
    let mut screen = Screen::open(interrupt)?;
    let mut summary = Summary::default();
    let mut picture = Picture::default();
    let mut due = Instant::now();
    loop {
        session.take(|_, sample| summary.add(&sample))?;
        if Instant::now() >= due {
            due += args.interval;
            picture = Picture::take(&session, &summary)?;
            summary.clear();
        }
        screen.draw(|frame| draw(frame, &picture))?;
        for key in screen.keys()? {
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c')
                    if key
                        .modifiers
                        .contains(crossterm::event::KeyModifiers::CONTROL) =>
                {
                    return Err(Failure::Interrupted(None));
                }
                _ => {}
            }
        }
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        std::thread::sleep(READ_EVERY);
    }
}

/// What one picture shows.
#[derive(Clone, Debug, Default)]
struct Picture {
    head: String,
    rows: Vec<[String; 8]>,
}

impl Picture {
    fn take(session: &Session, summary: &Summary) -> Result<Picture, Failure> {
        let counts = session.counts()?;
        let names: BTreeMap<_, _> = counts
            .iter()
            .map(|(netns, container, counts)| (*netns, (container.name.as_str(), counts)))
            .collect();
        let (mut packets, mut reports) = (0, 0);
        for (_, _, c) in &counts {
            packets += c.packets.iter().flatten().sum::<u64>();
            reports += c.reports.iter().flatten().sum::<u64>();
        }
        let mut rows = Vec::new();
        for (flow, summary) in summary.flows() {
            if let Some((name, _)) = names.get(&flow.netns) {
                rows.extend(parts(name, flow, summary));
            }
        }
        let lost = session.totals().lost;
        Ok(Picture {
            head: format!(
                "latency: {} containers, {packets} packets, {reports} reports, {lost} lost; q quits",
                counts.len()
            ),
            rows,
        })
    }
}

/// One row for the total, what is added, and each part.
fn parts(name: &str, flow: &Flow, summary: &FlowSummary) -> Vec<[String; 8]> {
    let added = (!summary.added.is_empty()).then_some(("added", &summary.added));
    let stages = summary.stages.iter().map(|(stage, h)| (stage.label(), h));
    let all = std::iter::once(("total", &summary.total))
        .chain(added)
        .chain(stages);
    all.enumerate()
        .map(|(i, (part, histogram))| {
            let d = Distribution::of(histogram);
            let [p50, p90, p99, max] =
                [d.p50_ns, d.p90_ns, d.p99_ns, d.max_ns].map(|ns| nanoseconds(ns as f64));
            let [who, way, protocol] = match i {
                0 => [name, flow.direction.label(), flow.class.label()].map(str::to_owned),
                _ => Default::default(),
            };
            [who, way, protocol, part.to_owned(), p50, p90, p99, max]
        })
        .collect()
}

fn draw(frame: &mut Frame<'_>, picture: &Picture) {
    let [head, body] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(frame.area());
    frame.render_widget(Line::from(picture.head.as_str()).bold(), head);
    let titles = [
        "container",
        "way",
        "protocol",
        "part",
        "p50",
        "p90",
        "p99",
        "max",
    ];
    let widths = [
        Constraint::Min(12),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(16),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let rows = picture.rows.iter().map(|cells| {
        let style = match cells[0].is_empty() {
            true => Style::new(),
            false => Style::new().bold(),
        };
        Row::new(cells.clone()).style(style)
    });
    let table = Table::new(rows, widths).header(Row::new(titles).dim());
    frame.render_widget(table, body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};

    #[test]
    fn no_size_panics() {
        let row = [
            "web", "egress", "udp", "total", "1.0µs", "2.0µs", "3.0µs", "4.0µs",
        ];
        let picture = Picture {
            head: "latency: 1 containers".to_owned(),
            rows: vec![row.map(str::to_owned); 40],
        };
        for width in [1, 10, 40, 80, 200] {
            for height in [1, 2, 24] {
                let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                terminal.draw(|frame| draw(frame, &picture)).unwrap();
            }
        }
    }
}
