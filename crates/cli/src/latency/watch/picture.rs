//! What the screen shows: one block of rows for each container, direction and protocol.

use crate::exit::Failure;
use crate::latency::session::Session;
use crate::latency::text::nanoseconds;
use cofferdam_latency::{Class, Counts, Direction, Distribution, FlowSummary, Miss, Summary};
use cofferdam_types::NetnsId;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table};
use std::collections::BTreeMap;
use std::time::Duration;

const TITLES: [&str; 10] = [
    "container",
    "way",
    "protocol",
    "packets/s",
    "coverage",
    "part",
    "p50",
    "p90",
    "p99",
    "max",
];
const WIDTHS: [Constraint; 10] = [
    Constraint::Min(9),
    Constraint::Length(7),
    Constraint::Length(8),
    Constraint::Length(9),
    Constraint::Length(8),
    Constraint::Length(15),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Length(7),
];

pub(super) type Cells = [String; TITLES.len()];

/// The last interval.
#[derive(Default)]
pub(super) struct Picture {
    head: Vec<String>,
    rows: Vec<Cells>,
    /// Counts at the end of the interval before.
    before: BTreeMap<NetnsId, Counts>,
}

impl Picture {
    pub fn head(&self) -> &[String] {
        &self.head
    }

    pub fn rows(&self) -> &[Cells] {
        &self.rows
    }

    /// Takes an interval of this length in; `gone` went meanwhile.
    pub fn take(
        &mut self,
        session: &Session,
        summary: &Summary,
        (length, gone): (Duration, &[String]),
    ) -> Result<(), Failure> {
        let counts = session.counts()?;
        let totals = session.totals();
        let (mut packets, mut reports, mut new) = (0, 0, 0);
        let mut misses = [0; Miss::COUNT];
        self.rows.clear();
        for (netns, container, now) in &counts {
            let before = self.before.get(netns).copied().unwrap_or_default();
            for direction in Direction::ALL {
                let d = direction as usize;
                for (sum, count) in misses.iter_mut().zip(now.misses[d]) {
                    *sum += count;
                }
                for class in Class::ALL {
                    let c = class as usize;
                    packets += now.packets[d][c];
                    reports += now.reports[d][c];
                    let come = now.packets[d][c].saturating_sub(before.packets[d][c]);
                    new += come;
                    let flow = cofferdam_latency::Flow {
                        netns: *netns,
                        direction,
                        class,
                    };
                    let who = [&container.name, direction.label(), class.label()];
                    let rate = come as f64 / length.as_secs_f64().max(1e-3);
                    let part = (now.packets[d][c], now.reports[d][c]);
                    if let Some(summary) = summary.flow(flow) {
                        self.rows.extend(block(who, rate, part, summary));
                    }
                }
            }
        }
        let each = |n: u64| if n == 1 { "" } else { "s" };
        let count = counts.len() as u64;
        self.head = vec![format!(
            "latency: {count} container{}, {} packets/s, coverage {}",
            each(count),
            rounded(new as f64 / length.as_secs_f64().max(1e-3)),
            percent(packets, reports)
        )];
        let mut notes: Vec<String> = Miss::ALL
            .iter()
            .zip(misses)
            .filter(|(_, n)| *n > 0)
            .map(|(miss, n)| format!("{} {n}", miss.label()))
            .collect();
        if totals.lost > 0 {
            notes.push(format!(
                "reports lost before they were read {}",
                totals.lost
            ));
        }
        if totals.rejected > 0 {
            notes.push(format!("reports rejected {}", totals.rejected));
        }
        if !notes.is_empty() {
            self.head
                .push(format!("missed since the start: {}", notes.join(", ")));
        }
        if !gone.is_empty() {
            self.head.push(format!("gone: {}", gone.join(", ")));
        }
        if counts.is_empty() {
            let what = "no container with an interface of its own; waiting for one";
            self.head.push(what.to_owned());
        } else if self.rows.is_empty() {
            self.head.push("no packets in this interval".to_owned());
        }
        self.before = counts.into_iter().map(|(n, _, c)| (n, c)).collect();
        Ok(())
    }
}

fn percent(packets: u64, reports: u64) -> String {
    match packets {
        0 => "-".to_owned(),
        _ => format!("{:.2}%", reports as f64 / packets as f64 * 100.0),
    }
}

/// Three digits.
fn rounded(rate: f64) -> String {
    match rate {
        r if r < 9.95 => format!("{r:.1}"),
        r if r < 999.5 => format!("{r:.0}"),
        r if r < 99_950.0 => format!("{:.1}k", r / 1e3),
        r if r < 999_500.0 => format!("{:.0}k", r / 1e3),
        r => format!("{:.2}M", r / 1e6),
    }
}

/// One row for the total, what is added, and each part.
fn block(
    who: [&str; 3],
    rate: f64,
    (packets, reports): (u64, u64),
    summary: &FlowSummary,
) -> Vec<Cells> {
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
            let [name, way, protocol, rate, coverage] = match i {
                0 => {
                    let [name, way, protocol] = who.map(str::to_owned);
                    [
                        name,
                        way,
                        protocol,
                        rounded(rate),
                        percent(packets, reports),
                    ]
                }
                _ => Default::default(),
            };
            let part = part.to_owned();
            [
                name, way, protocol, rate, coverage, part, p50, p90, p99, max,
            ]
        })
        .collect()
}

/// What the terminal shows, and how.
pub(super) struct Shown {
    pub head: Vec<String>,
    pub rows: Vec<Cells>,
    /// First row on the screen.
    pub top: usize,
    pub paused: bool,
    pub interval: Duration,
    one_in: u32,
    /// Rows that fit.
    height: usize,
}

impl Shown {
    pub fn new(interval: Duration, one_in: u32) -> Shown {
        Shown {
            head: vec!["latency: measuring".to_owned()],
            rows: Vec::new(),
            top: 0,
            paused: false,
            interval,
            one_in,
            height: 1,
        }
    }

    /// Moves by so many rows, as far as there are some.
    pub fn scroll(&mut self, rows: isize) {
        let last = self.rows.len().saturating_sub(self.height);
        self.top = self.top.saturating_add_signed(rows).min(last);
    }

    pub fn page(&self) -> isize {
        isize::try_from(self.height).unwrap_or(1).max(1)
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let lines = u16::try_from(self.head.len()).unwrap_or(1);
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(lines),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let text: Vec<Line<'_>> = self
            .head
            .iter()
            .enumerate()
            .map(|(i, line)| match i {
                0 => Line::from(line.as_str()).bold(),
                _ => Line::from(line.as_str()),
            })
            .collect();
        frame.render_widget(Paragraph::new(text), head);
        self.height = usize::from(body.height.saturating_sub(1)).max(1);
        self.scroll(0);
        // The block that the first row belongs to keeps its name on the screen.
        let rows = self
            .rows
            .iter()
            .enumerate()
            .skip(self.top)
            .map(|(i, cells)| {
                let mut cells = cells.clone();
                let first = !cells[0].is_empty();
                if i == self.top
                    && !first
                    && let Some(named) = self.rows[..i].iter().rev().find(|c| !c[0].is_empty())
                {
                    cells[..5].clone_from_slice(&named[..5]);
                }
                let style = if first {
                    Style::new().bold()
                } else {
                    Style::new()
                };
                Row::new(cells).style(style)
            });
        let table = Table::new(rows, WIDTHS).header(Row::new(TITLES).dim());
        frame.render_widget(table, body);
        frame.render_widget(Line::from(self.foot()).dim(), foot);
    }

    fn foot(&self) -> String {
        let mut text = format!(
            "every {}  q quit  p pause  +/- interval  \u{2191}\u{2193} PgUp PgDn move",
            humantime::format_duration(self.interval)
        );
        if self.paused {
            text.insert_str(0, "PAUSED  ");
        }
        let hidden = self.rows.len().saturating_sub(self.top + self.height);
        if hidden > 0 {
            text += &format!("  {hidden} more rows");
        }
        if self.one_in > 1 {
            text += &format!("  one flow in {} is measured", self.one_in);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};

    fn cells(name: &str, part: &str) -> Cells {
        let rest = ["1.0\u{b5}s"; 4].map(str::to_owned);
        let [a, b, c, d] = rest;
        let [way, protocol, rate, coverage] = match name {
            "" => Default::default(),
            _ => ["egress", "udp", "10.0", "100.00%"].map(str::to_owned),
        };
        let (name, part) = (name.to_owned(), part.to_owned());
        [name, way, protocol, rate, coverage, part, a, b, c, d]
    }

    fn shown(rows: usize) -> Shown {
        let mut shown = Shown::new(Duration::from_secs(1), 1);
        shown.rows = (0..rows)
            .map(|i| cells(if i % 7 == 0 { "web" } else { "" }, &format!("part{i}")))
            .collect();
        shown
    }

    fn drawn(shown: &mut Shown, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| shown.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        buffer
            .content()
            .chunks(usize::from(width.max(1)))
            .map(|line| line.iter().map(|c| c.symbol()).collect())
            .collect()
    }

    #[test]
    fn no_size_panics() {
        for width in [1, 10, 40, 80, 200] {
            for height in [1, 2, 24] {
                drawn(&mut shown(40), width, height);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_said_and_can_be_reached() {
        let mut shown = shown(40);
        // One line of head, one of titles, one of foot: 21 rows.
        let lines = drawn(&mut shown, 100, 24);
        assert!(
            lines[2].contains("web") && lines[2].contains("part0 "),
            "{lines:?}"
        );
        assert!(lines[23].contains("19 more rows"), "{lines:?}");
        shown.scroll(10);
        let lines = drawn(&mut shown, 100, 24);
        assert!(
            lines[2].contains("web") && lines[2].contains("part10 "),
            "{lines:?}"
        );
        shown.scroll(isize::MAX / 2);
        let lines = drawn(&mut shown, 100, 24);
        assert!(lines[22].contains("part39 "), "{lines:?}");
        assert!(!lines[23].contains("more rows"), "{lines:?}");
        shown.rows.truncate(3);
        let lines = drawn(&mut shown, 100, 24);
        assert!(lines[2].contains("part0 "), "{lines:?}");
    }

    #[test]
    fn rates_have_three_digits() {
        let cases = [
            (0.0, "0.0"),
            (12.3, "12"),
            (1234.0, "1.2k"),
            (123_456.0, "123k"),
        ];
        for (rate, text) in cases {
            assert_eq!(rounded(rate), text);
        }
        assert_eq!(rounded(1_234_567.0), "1.23M");
    }
}
