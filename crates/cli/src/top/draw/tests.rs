//! Tests of the drawing, as text.

mod details;
mod names;

use super::*;
use crate::fixture::{entry, interval};
use crate::selection::Selection;
use crate::top::clock::Clock;
use crate::view::{Column, HostView};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::diagnosis::{CpuLossRecord, DiagnosisRecord, NeighbourRecord};
use cofferdam_records::explain::{Agent, Start};
use cofferdam_types::Interval;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

const SECOND: Clock = Clock::Live {
    interval: Duration::from_secs(1),
};

fn state(intervals: &[Interval]) -> State {
    let mut state = State::new(SECOND, Selection::default());
    for interval in intervals {
        state.take(AccountingRecord::new(interval), None);
    }
    state
}

fn press(state: &mut State, keys: &str) {
    for c in keys.chars() {
        state.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
    }
}

fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| all(frame, state, Palette::of(None, Some("xterm"))))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let (mut line, mut x) = (String::new(), 0);
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line += symbol;
            // A wide letter covers the next cell too.
            x += (text::width(symbol) as u16).max(1);
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

#[test]
fn a_wide_screen_has_every_column() {
    let lines = screen(&state(&[interval(), interval()]), 140, 12);
    assert_eq!(
        lines[0],
        "cofferdam top · 08:00:01 UTC · every 1s · 3 containers"
    );
    assert_eq!(lines[1], "web-3 takes 0.31 CPUs from db-1 for its packets.");
    assert_eq!(lines[2], "network work: CPU 0 44.0% · CPU 1 0.5%");
    assert_eq!(lines[3], "conservation error 0.00% · nothing lost");
    for column in Column::ALL {
        assert!(lines[5].contains(column.title()), "{}", lines[5]);
    }
    assert!(lines[5].contains("OWED%▼"), "{}", lines[5]);
    assert!(
        lines[6].starts_with("web-3") && lines[6].ends_with("██"),
        "{}",
        lines[6]
    );
    assert!(
        lines[6].contains("+33.0") && lines[6].contains("700k"),
        "{}",
        lines[6]
    );
    assert!(
        lines[8].starts_with("db-1") && lines[8].contains("-31.0"),
        "{}",
        lines[8]
    );
    assert!(lines[11].starts_with("q quit"), "{}", lines[11]);
}

#[test]
fn narrow_screens_keep_name_cpu_rx_and_owed() {
    for width in [60, 80] {
        let lines = screen(&state(&[interval()]), width, 14);
        let header = lines.iter().find(|l| l.starts_with("CONTAINER")).unwrap();
        for word in ["CPU%", "RX%", "OWED%▼", "OWED HI"] {
            assert!(header.contains(word), "{width}: {header}");
        }
        assert!(
            lines
                .iter()
                .any(|l| l.starts_with("web-3") && l.contains("+33.0")),
            "{lines:#?}"
        );
    }
    let lines = screen(&state(&[interval()]), 80, 14);
    assert!(
        lines
            .iter()
            .any(|l| l.contains("CHARGED%") && l.contains("CORRECT%")),
        "{lines:#?}"
    );
}

#[test]
fn a_long_sentence_wraps_and_pushes_nothing_off() {
    let mut long = interval();
    long.containers = vec![
        entry(1, "a-container-with-a-rather-long-name-0001", 10, 430, 0, 0),
        entry(2, "another-container-with-a-long-name-0002", 0, 0, 310, 600),
    ];
    let lines = screen(&state(&[long]), 60, 14);
    assert!(lines[1].starts_with("a-container"), "{lines:#?}");
    assert!(
        lines[1..4].join(" ").contains("takes 0.31 CPUs"),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|l| l.contains("…")),
        "names are cut: {lines:#?}"
    );
}

#[test]
fn emptiness_is_explained() {
    let text = |s: &State| screen(s, 80, 12).join(" ");
    assert!(text(&state(&[])).contains("Waiting for the end of the first interval, 1s."));
    let mut empty = interval();
    empty.containers.clear();
    assert!(text(&state(&[empty])).contains("No container runs on this host. Start one"));
    let mut filtered = state(&[interval()]);
    press(&mut filtered, "/zzz");
    let shown = text(&filtered);
    assert!(
        shown.contains("No container's name, pod or runtime has 'zzz' in it"),
        "{shown}"
    );
    assert!(shown.contains("filter: zzz▏"), "{shown}");
    assert!(shown.contains("0 of 3 containers"), "{shown}");
}

#[test]
fn warnings_are_shown() {
    let mut bad = interval();
    bad.health.events_lost = 7;
    let lines = screen(&state(&[bad]), 100, 12);
    assert!(
        lines[3].contains("kernel events lost, then scanned again: 7"),
        "{}",
        lines[3]
    );
}

#[test]
fn help_names_every_key_and_column() {
    let mut state = state(&[interval()]);
    press(&mut state, "?");
    let text = screen(&state, 100, 30).join("\n");
    for word in [
        "help: any key closes",
        "pause",
        "÷ 2",
        "CORRECT%",
        "caused − charged",
        "softirqs unseen",
        "░▒▓",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
}

/// Promise 13.
#[test]
fn the_help_fits_a_small_terminal() {
    let mut state = state(&[interval()]);
    press(&mut state, "?");
    let text = screen(&state, 80, 24).join("\n");
    for word in [
        "Ctrl-Z",
        "Esc goes back",
        "in details: flows",
        "tracepoints",
        "──┘",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    for column in Column::ALL {
        assert!(text.contains(column.meaning()), "{column:?}:\n{text}");
    }
    assert!(
        !text.contains('…') || text.matches('…').count() == 1,
        "nothing is cut:\n{text}"
    );
}

/// Promise 13.
#[test]
fn no_line_above_the_table_ends_inside_a_word() {
    let mut bad = interval();
    bad.health.events_lost = 7;
    bad.health.softirqs_unseen = 70;
    bad.health.containers_without_slot = 7;
    let sentence = "no diagnosis: loading BPF programs needs root (CAP_BPF and CAP_PERFMON)";
    for width in 40..120 {
        let mut state = State::new(SECOND, Selection::default());
        state.take(
            AccountingRecord::new(&bad),
            Some("loading BPF programs needs root (CAP_BPF and CAP_PERFMON)"),
        );
        let lines = screen(&state, width, 30);
        let table = lines
            .iter()
            .position(|l| l.starts_with("CONTAINER"))
            .unwrap();
        let head = lines[1..table].join(" ");
        let health = HostView::new(&AccountingRecord::new(&bad)).health_line();
        for word in sentence.split_whitespace().chain(health.split_whitespace()) {
            let whole = head.split_whitespace().any(|w| w == word);
            assert!(
                whole || head.contains('…'),
                "{width}: `{word}` is cut: {lines:#?}"
            );
        }
        for line in &lines[1..table] {
            let last = line.split_whitespace().last().unwrap_or("…");
            let expected = format!(
                "{sentence} {health} {} …",
                state.reading.as_ref().unwrap().sentence
            );
            let cpus = HostView::new(&AccountingRecord::new(&bad)).cpu_line(usize::from(width));
            let whole = expected
                .split_whitespace()
                .chain(cpus.split_whitespace())
                .any(|w| w == last);
            assert!(whole || line.ends_with('…'), "{width}: {line}");
        }
    }
}

/// Promise 13.
#[test]
fn the_sign_of_the_owed_history_needs_no_colour() {
    let lines = screen(&state(&[interval(), interval()]), 140, 12);
    // Rows have more space after a name than the headline, which names a container too.
    let of = |name: &str| {
        let row = lines.iter().find(|l| l.starts_with(&format!("{name}  ")));
        row.unwrap().clone()
    };
    assert!(of("web-3").ends_with("██"), "{lines:#?}");
    assert!(of("db-1").ends_with("▓▓"), "{lines:#?}");
}

#[test]
fn pause_is_shown() {
    let mut state = state(&[interval()]);
    press(&mut state, "p");
    assert!(screen(&state, 100, 12)[0].starts_with("cofferdam top · PAUSED"));
}

/// Promise 13.
#[test]
fn no_size_panics() {
    let mut state = state(&[interval()]);
    for mode in ["", "?"] {
        press(&mut state, mode);
        for width in [1, 5, 39, 40, 41, 60, 200] {
            for height in [1, 5, 9, 10, 11, 50] {
                screen(&state, width, height);
            }
        }
    }
    assert!(screen(&state, 39, 10)[0].starts_with("Make this terminal"));
}

#[test]
fn the_cursor_reaches_rows_below_the_screen() {
    let mut many = interval();
    many.containers = (0..100)
        .map(|i| entry(i, &format!("c{i:02}"), 0, 0, 0, 0))
        .collect();
    let mut state = state(&[many]);
    press(&mut state, &"j".repeat(100));
    let lines = screen(&state, 80, 14);
    assert!(lines.iter().any(|l| l.starts_with("c99")), "{lines:#?}");
}

fn busy() -> AccountingRecord {
    let mut record = AccountingRecord::new(&interval());
    let web = &mut record.containers[0];
    web.received_from = [(13, 650_000), (99, 10)].into();
    record.diagnosis = Some(DiagnosisRecord {
        interval_s: 1.0,
        counted_s: None,
        containers: vec![CpuLossRecord {
            name: "db-1".to_owned(),
            cgroup_id: 11,
            entitled_ns: 1_000_000_000,
            entitled_by: cofferdam_types::Entitlement::Weight,
            got_ns: 620_000_000,
            forced_sharing_ns: 310_000_000,
            phantom_ns: 0,
            throttled_ns: 0,
            lack_ns: 70_000_000,
            neighbour: Some(NeighbourRecord::Container {
                name: "web-3".to_owned(),
            }),
        }],
        idle_ns: 0,
        left_idle_ns: 0,
        host_ns: 0,
        containers_without_slot: 0,
        mismatches: 0,
        segments_rejected: 0,
        shares: Vec::new(),
        by_cpu: Vec::new(),
    });
    record
}

/// Promise 13.
#[test]
fn each_cpu_names_who_caused_and_who_was_charged() {
    let mut state = state(&[interval()]);
    press(&mut state, "c");
    let lines = screen(&state, 80, 24);
    let text = lines.join("\n");
    let bar = lines.iter().find(|l| l.starts_with("CPU 0")).unwrap();
    assert_eq!(bar.matches('█').count(), 30, "44% of 69 cells: {bar}");
    for words in [
        "network 44.0% · other softirq 1.0%",
        "caused by  web-3 43.0%",
        "charged to db-1 31.0% · web-3 10.0%",
        "caused by  nobody",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
}

/// Promise 11.
#[test]
fn the_command_that_helps_is_below_the_offender() {
    let mut state = State::new(SECOND, Selection::default());
    state.agent = Some(Agent::NotRunning(Start::Service));
    state.take(busy(), None);
    for width in [40, 80, 200] {
        let lines = screen(&state, width, 24);
        assert!(lines[1].starts_with("web-3 takes 0.31 CPUs"), "{lines:#?}");
        let at = lines
            .iter()
            .position(|l| l.starts_with("helps: sudo"))
            .unwrap();
        let remedy = lines[at..at + 3].join(" ");
        assert!(
            remedy.contains("cofferdam rule set web-3"),
            "{width}: {remedy}"
        );
    }
}
