//! State and drawing of the screen: one block of rows for each container, direction and protocol.

use crate::exit::Failure;
use crate::latency::session::Session;
use crate::latency::text::nanoseconds;
use crate::top::fold::fold;
use cofferdam_latency::{Class, Counts, Direction, Distribution, FlowSummary, Miss, Summary};
use cofferdam_types::NetnsId;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block as Bordered, Clear, Paragraph, Row, Table};
use std::cmp::Ordering;
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

/// Rows of one container, direction and protocol.
#[derive(Clone)]
pub(super) struct Block {
    name: String,
    packets_per_s: f64,
    p99_ns: u64,
    max_ns: u64,
    rows: Vec<Cells>,
}

/// Last interval.
#[derive(Default)]
pub(super) struct Picture {
    head: Vec<String>,
    blocks: Vec<Block>,
    /// Counts at the end of the previous interval.
    before: BTreeMap<NetnsId, Counts>,
}

impl Picture {
    pub fn head(&self) -> &[String] {
        &self.head
    }

    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Adds an interval of this length; the containers `ended` have ended meanwhile.
    pub fn take(
        &mut self,
        session: &Session,
        summary: &Summary,
        (length, ended): (Duration, &[String]),
    ) -> Result<(), Failure> {
        let counts = session.counts()?;
        let totals = session.totals();
        let (mut new, mut new_reports) = (0, 0);
        let mut misses = [0; Miss::COUNT];
        self.blocks.clear();
        for (netns, container, now) in &counts {
            let before = self.before.get(netns).copied().unwrap_or_default();
            for direction in Direction::ALL {
                let d = direction as usize;
                for (sum, count) in misses.iter_mut().zip(now.misses[d]) {
                    *sum += count;
                }
                for class in Class::ALL {
                    let c = class as usize;
                    let come = now.packets[d][c].saturating_sub(before.packets[d][c]);
                    new += come;
                    new_reports += now.reports[d][c].saturating_sub(before.reports[d][c]);
                    let flow = cofferdam_latency::Flow {
                        netns: *netns,
                        direction,
                        class,
                    };
                    let who = [&container.name, direction.label(), class.label()];
                    let rate = come as f64 / length.as_secs_f64().max(1e-3);
                    let part = (now.packets[d][c], now.reports[d][c]);
                    if let Some(summary) = summary.flow(flow) {
                        self.blocks.push(block(who, rate, part, summary));
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
            // A report may come an interval after its packet.
            percent(new, new_reports.min(new))
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
        if !ended.is_empty() {
            self.head.push(format!("gone: {}", ended.join(", ")));
        }
        if counts.is_empty() {
            let what = "no container with an interface of its own; waiting for one";
            self.head.push(what.to_owned());
        } else if new == 0 {
            self.head.push("no packets in this interval".to_owned());
        } else if self.blocks.is_empty() {
            let what = "no packet of this interval has a report yet";
            self.head.push(what.to_owned());
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

/// Rate in three digits.
fn rounded(rate: f64) -> String {
    match rate {
        r if r < 9.95 => format!("{r:.1}"),
        r if r < 999.5 => format!("{r:.0}"),
        r if r < 99_950.0 => format!("{:.1}k", r / 1e3),
        r if r < 999_500.0 => format!("{:.0}k", r / 1e3),
        r => format!("{:.2}M", r / 1e6),
    }
}

/// Rows of the total, of the added time, and of each stage.
fn block(
    who: [&str; 3],
    rate: f64,
    (packets, reports): (u64, u64),
    summary: &FlowSummary,
) -> Block {
    let added = (!summary.added.is_empty()).then_some(("added", &summary.added));
    let stages = summary.stages.iter().map(|(stage, h)| (stage.label(), h));
    let all = std::iter::once(("total", &summary.total))
        .chain(added)
        .chain(stages);
    let of_all = Distribution::of(&summary.total);
    let rows = all.enumerate().map(|(i, (part, histogram))| {
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
    });
    Block {
        name: who[0].to_owned(),
        packets_per_s: rate,
        p99_ns: of_all.p99_ns,
        max_ns: of_all.max_ns,
        rows: rows.collect(),
    }
}

/// Sort key of the blocks: names ascend, numbers descend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Name,
    Packets,
    P99,
    Max,
}

impl Sort {
    const ALL: [Sort; 4] = [Sort::Name, Sort::Packets, Sort::P99, Sort::Max];

    fn label(self) -> &'static str {
        match self {
            Sort::Name => "container",
            Sort::Packets => "packets/s",
            Sort::P99 => "p99",
            Sort::Max => "max",
        }
    }

    /// Next or previous key.
    pub fn step(self, forward: bool) -> Sort {
        let now = Sort::ALL.iter().position(|s| *s == self).unwrap_or(0);
        let step = if forward { 1 } else { Sort::ALL.len() - 1 };
        Sort::ALL[(now + step) % Sort::ALL.len()]
    }

    fn order(self, a: &Block, b: &Block) -> Ordering {
        match self {
            Sort::Name => a.name.cmp(&b.name),
            Sort::Packets => b.packets_per_s.total_cmp(&a.packets_per_s),
            Sort::P99 => b.p99_ns.cmp(&a.p99_ns),
            Sort::Max => b.max_ns.cmp(&a.max_ns),
        }
    }
}

/// Meaning of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Normal,
    Filter,
    Help,
}

/// The help: keys, columns, parts.
const HELP: [&str; 18] = [
    "q, Esc         quit",
    "s / S          sort by the next / previous: container, packets/s, p99, max",
    "r              reverse the order",
    "/              filter by container; Enter accepts it, Esc clears it",
    "p, space       pause",
    "+ / -          double / halve the interval",
    "\u{2191} \u{2193} PgUp PgDn  move",
    "",
    "coverage       packets with a report, of all since the start",
    "total          from the first timestamp on this host to the last",
    "added          what the container's own network adds to it",
    "stack          in the container's stack",
    "container_qdisc, host_qdisc   waiting in a queue of packets",
    "veth           from the container's device to the host's, or back",
    "forward        in the host: bridge, routing, NAT",
    "reader         from the socket to the reader",
    "",
    "any key closes",
];

/// Content of the screen, and its presentation.
pub(super) struct ScreenState {
    pub head: Vec<String>,
    blocks: Vec<Block>,
    /// Rows of the blocks that pass the filter, sorted.
    rows: Vec<Cells>,
    pub sort: Sort,
    pub reverse: bool,
    pub filter: String,
    pub mode: Mode,
    /// First row on the screen.
    pub top: usize,
    pub paused: bool,
    pub interval: Duration,
    one_in: u32,
    /// Number of rows that fit.
    height: usize,
}

impl ScreenState {
    pub fn new(interval: Duration, one_in: u32) -> ScreenState {
        ScreenState {
            head: vec![format!(
                "latency: waiting for the end of the first interval, {}",
                humantime::format_duration(interval)
            )],
            blocks: Vec::new(),
            rows: Vec::new(),
            sort: Sort::Name,
            reverse: false,
            filter: String::new(),
            mode: Mode::Normal,
            top: 0,
            paused: false,
            interval,
            one_in,
            height: 1,
        }
    }

    /// Replaces the blocks.
    pub fn take(&mut self, blocks: Vec<Block>) {
        self.blocks = blocks;
        self.arrange();
    }

    /// Sorts and filters again.
    pub fn arrange(&mut self) {
        let wanted = self.filter.to_lowercase();
        let passes = |block: &&Block| block.name.to_lowercase().contains(&wanted);
        let mut blocks: Vec<&Block> = self.blocks.iter().filter(passes).collect();
        let (sort, reverse) = (self.sort, self.reverse);
        // A stable sort: equal blocks stay in the order of names, directions and protocols.
        blocks.sort_by(|a, b| match reverse {
            true => sort.order(b, a),
            false => sort.order(a, b),
        });
        self.rows = blocks.into_iter().flat_map(|b| b.rows.clone()).collect();
    }

    /// Scrolls by this many rows, as far as there are any.
    pub fn scroll(&mut self, rows: isize) {
        let last = self.rows.len().saturating_sub(self.height);
        self.top = self.top.saturating_add_signed(rows).min(last);
    }

    pub fn page(&self) -> isize {
        isize::try_from(self.height).unwrap_or(1).max(1)
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let width = usize::from(frame.area().width);
        let folded = self.head.iter().enumerate();
        let text: Vec<Line<'_>> = folded
            .flat_map(|(i, line)| {
                let lines = fold(line, width, 3).into_iter().map(Line::from);
                lines.map(move |line| if i == 0 { line.bold() } else { line })
            })
            .collect();
        let lines = u16::try_from(text.len()).unwrap_or(1);
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(lines),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(text), head);
        self.height = usize::from(body.height.saturating_sub(1)).max(1);
        self.scroll(0);
        // A block whose first row is above the screen keeps its name on the screen.
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
        let foot_line = fold(&self.foot(), width, 1).join("");
        frame.render_widget(Line::from(foot_line).dim(), foot);
        if self.mode == Mode::Help {
            help_window(frame);
        }
    }

    fn foot(&self) -> String {
        if self.mode == Mode::Filter {
            return format!("filter: {}\u{258f} (Enter keeps, Esc clears)", self.filter);
        }
        let mut text = format!(
            "every {}, by {}  q quit  ? help  s sort  / filter  p pause",
            humantime::format_duration(self.interval),
            self.sort.label()
        );
        if !self.filter.is_empty() {
            text.insert_str(0, &format!("only '{}'  ", self.filter));
        }
        if self.paused {
            text.insert_str(0, "PAUSED  ");
        }
        let hidden = self.rows.len().saturating_sub(self.top + self.height);
        if hidden > 0 {
            text.insert_str(0, &format!("{hidden} more rows  "));
        }
        if self.one_in > 1 {
            text += &format!("  one flow in {} is measured", self.one_in);
        }
        text
    }
}

fn help_window(frame: &mut Frame<'_>) {
    let widest = HELP.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    let area = frame.area();
    let window = area.centered(
        Constraint::Length((widest as u16 + 4).min(area.width)),
        Constraint::Length((HELP.len() as u16 + 2).min(area.height)),
    );
    frame.render_widget(Clear, window);
    let block = Bordered::bordered().title(" help ");
    let text: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Paragraph::new(text).block(block), window);
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

    fn shown(rows: usize) -> ScreenState {
        let mut shown = ScreenState::new(Duration::from_secs(1), 1);
        shown.rows = (0..rows)
            .map(|i| cells(if i % 7 == 0 { "web" } else { "" }, &format!("part{i}")))
            .collect();
        shown
    }

    fn drawn(shown: &mut ScreenState, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| shown.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        buffer
            .content()
            .chunks(usize::from(width.max(1)))
            .map(|line| line.iter().map(|c| c.symbol()).collect())
            .collect()
    }

    /// Promise 13.
    #[test]
    fn no_size_panics() {
        for width in [1, 10, 40, 80, 200] {
            for height in [1, 2, 24] {
                drawn(&mut shown(40), width, height);
            }
        }
    }

    #[test]
    fn rows_below_the_screen_are_announced_and_can_be_reached() {
        let mut shown = shown(40);
        // One line of head, one of titles, one of foot: 21 rows.
        let lines = drawn(&mut shown, 100, 24);
        assert!(
            lines[2].contains("web") && lines[2].contains("part0 "),
            "{lines:?}"
        );
        assert!(lines[23].starts_with("19 more rows"), "{lines:?}");
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

    fn one_block(name: &str, rate: f64, p99_ns: u64) -> Block {
        Block {
            name: name.to_owned(),
            packets_per_s: rate,
            p99_ns,
            max_ns: p99_ns,
            rows: vec![cells(name, "total"), cells("", "stack")],
        }
    }

    /// Promise 13.
    #[test]
    fn blocks_are_sorted_and_filtered_whole() {
        let mut shown = ScreenState::new(Duration::from_secs(1), 1);
        shown.take(vec![
            one_block("a", 1.0, 50),
            one_block("b", 9.0, 10),
            one_block("cache", 5.0, 90),
        ]);
        let names = |shown: &ScreenState| -> Vec<String> {
            let named = shown.rows.iter().filter(|r| !r[0].is_empty());
            named.map(|r| r[0].clone()).collect()
        };
        for (sort, order) in [
            (Sort::Name, ["a", "b", "cache"]),
            (Sort::Packets, ["b", "cache", "a"]),
            (Sort::P99, ["cache", "a", "b"]),
        ] {
            shown.sort = sort;
            shown.arrange();
            assert_eq!(names(&shown), order, "{sort:?}");
            assert_eq!(shown.rows.len(), 6);
        }
        shown.reverse = true;
        shown.arrange();
        assert_eq!(names(&shown), ["b", "a", "cache"]);
        shown.filter = "CACH".to_owned();
        shown.arrange();
        assert_eq!(names(&shown), ["cache"]);
        let lines = drawn(&mut shown, 80, 24);
        assert!(lines[23].contains("only 'CACH'"), "{lines:?}");
        assert_eq!(Sort::Max.step(true), Sort::Name);
        assert_eq!(Sort::Name.step(false), Sort::Max);
    }

    /// Promise 13.
    #[test]
    fn the_help_fits_a_small_terminal() {
        let mut shown = shown(3);
        shown.mode = Mode::Help;
        let text = drawn(&mut shown, 80, 24).join("\n");
        for line in HELP {
            assert!(text.contains(line), "{line}: {text}");
        }
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
