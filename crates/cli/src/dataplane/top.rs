//! `cofferdam dataplane top`: rates between two readings, live or once.

mod draw;
mod reading;

use crate::args::DataplaneTopArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json};
use crate::table;
use crate::top::screen::Screen;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use draw::ScreenState;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reading::CounterChanges;
use serde_json::Value;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);

/// Prints until `q` or a signal, or once.
pub fn run(args: &DataplaneTopArgs, interrupt: &Interrupt) -> Outcome {
    if args.json {
        return Output::stdout().write(&json(&ask(args)?)?);
    }
    if args.once {
        return once(args, interrupt);
    }
    if !stdout().is_terminal() {
        return Err(Failure::Usage(
            "top needs a terminal on standard output: use 'dataplane top --once' or \
             'dataplane top --json' here"
                .to_owned(),
        ));
    }
    live(args, interrupt)
}

fn ask(args: &DataplaneTopArgs) -> Result<Value, Failure> {
    cofferdam_dataplane::status(&args.socket).map_err(|e| Failure::failed(e.to_string()))
}

fn once(args: &DataplaneTopArgs, interrupt: &Interrupt) -> Outcome {
    let (start, before) = (Instant::now(), ask(args)?);
    while start.elapsed() < args.interval {
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        let left = args.interval.saturating_sub(start.elapsed());
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    let reading = CounterChanges::new(&before, &ask(args)?, start.elapsed());
    Output::stdout().write(&draw::text(&reading, table::terminal_width()))
}

/// Runs the live screen. A dataplane that ends meanwhile is waited for: it may be restarted.
fn live(args: &DataplaneTopArgs, interrupt: &Interrupt) -> Outcome {
    let mut last = Some((Instant::now(), ask(args)?));
    let mut shown = ScreenState {
        interval: args.interval,
        ..ScreenState::default()
    };
    let mut screen = Screen::open(interrupt)?;
    let mut next = Instant::now() + shown.interval;
    loop {
        screen.draw(|frame| shown.draw(frame))?;
        wait(&screen, next);
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        for key in screen.keys()? {
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                _ if is_interrupt(key) => return Err(Failure::Interrupted(None)),
                KeyCode::Char('p' | ' ') => shown.paused = !shown.paused,
                KeyCode::Char('+') => shown.interval = (shown.interval * 2).min(LONGEST),
                KeyCode::Char('-') => shown.interval = (shown.interval / 2).max(SHORTEST),
                _ => {}
            }
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + shown.interval;
        match cofferdam_dataplane::status(&args.socket) {
            Ok(now) => {
                if let Some((at, before)) = &last
                    && !shown.paused
                {
                    shown.reading = Some(CounterChanges::new(before, &now, at.elapsed()));
                }
                shown.trouble = None;
                last = Some((Instant::now(), now));
            }
            Err(e) => {
                // The next dataplane counts from zero.
                last = None;
                shown.trouble = Some(e.to_string());
            }
        }
    }
}

fn is_interrupt(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Waits until a key, a resize, a signal or the next reading.
fn wait(screen: &Screen, next: Instant) {
    let left = next.saturating_duration_since(Instant::now());
    // A millisecond is added: rounded down, the wait would spin until the time has come.
    let left = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    let mut fds = [PollFd::new(screen.wake(), PollFlags::POLLIN)];
    // The loop checks everything next, whether or not the wait was interrupted.
    let _ = poll(&mut fds, left);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::{Terminal, backend::TestBackend};

    fn at(received: u64, offences: u64) -> Value {
        serde_json::json!({
            "device": "eth0",
            "counts": {"received_packets": received, "batches": received / 10,
                       "offences": offences, "idle_cycles": received * 400},
            "batch_sizes": [0, 0, 0, 0, received / 10, 0, 0, 0, 0],
            "stage_cycles": {"receive": received * 100, "flush": received * 300},
            "stack": {"tcp_segments_in": received, "never": 0},
            "free_frames": 512,
            "applications": [{"name": "web\u{1b}[2J", "connections": 3, "held_frames": 4}],
            "cores": [
                {"core": 0, "cpu": 3, "groups": 64, "received_packets": received,
                 "busy_cycles": received, "idle_cycles": received * 3,
                 "queue_delay_ns": 250_999},
                {"core": 1, "cpu": null, "groups": 64, "steered_in_packets": received / 2},
            ],
            "cores_in_use": 2,
            "elastic": {"least_cores": 1, "most_cores": 2, "cores_added": 3, "cores_removed": 2,
                        "groups_moved": 90, "last_decision_age_s": 7.2,
                        "last_decision": "core 1 added, with 45 flow groups"},
            "last_offence": "web: it handed over a frame that it does not hold",
        })
    }

    fn interval() -> CounterChanges {
        CounterChanges::new(&at(1000, 1), &at(3000, 2), Duration::from_secs(2))
    }

    #[test]
    fn rates_are_differences_and_only_failures_are_listed() {
        let shown = draw::text(&interval(), None);
        assert!(
            shown.starts_with(
                "eth0: 1000 packets/s in, 0 out; 50% of the loop's time with work\n\
                 10.0 packets a batch"
            ),
            "{shown}"
        );
        assert!(shown.contains("75.0%"), "{shown}");
        assert!(
            shown.contains("1 offences") && !shown.contains("overruns"),
            "{shown}"
        );
        assert!(
            shown
                .lines()
                .any(|l| l.starts_with("web") && l.contains('3')),
            "{shown}"
        );
    }

    fn drawn(shown: &ScreenState, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| shown.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content().chunks(usize::from(width));
        let line = |cells: &[ratatui::buffer::Cell]| {
            let text: String = cells.iter().map(|c| c.symbol()).collect();
            text.trim_end().to_owned()
        };
        lines.map(line).collect::<Vec<_>>().join("\n")
    }

    /// Promise 13.
    #[test]
    fn the_screen_shows_stages_batches_and_applications_in_place() {
        let mut shown = ScreenState {
            interval: Duration::from_secs(1),
            ..ScreenState::default()
        };
        assert!(drawn(&shown, 100, 30).contains("Measuring: first figures in 1s."));
        shown.reading = Some(interval());
        let screen = drawn(&shown, 100, 30);
        for words in [
            "eth0: 1000 packets/s in",
            "receive      25.0%             100 █████",
            "flush        75.0%             300 ███████████████",
            "≤16  100.0%",
            "0 (cpu 3)        64      1000            0         0     25      250",
            "2 of 2 cores in use (1 to 2); since the start 3 added, 2 removed, \
             90 flow groups moved",
            "7s ago: core 1 added, with 45 flow groups",
            "1                64         0          500         0      0",
            r"web\x1b[2J                         3           4",
            "1000  tcp segments in",
            "the last: web: it handed over",
            "q quit",
        ] {
            assert!(screen.contains(words), "no `{words}` in\n{screen}");
        }
        assert!(!screen.contains("never"), "{screen}");
        shown.trouble = Some("no dataplane answers on /x".to_owned());
        assert!(drawn(&shown, 100, 30).contains("no dataplane answers on /x"));
    }

    /// Promise 13.
    #[test]
    fn a_terminal_of_any_size_is_drawn_without_a_panic() {
        let shown = ScreenState {
            reading: Some(interval()),
            trouble: Some("x".repeat(500)),
            ..ScreenState::default()
        };
        for (width, height) in [(1, 1), (5, 3), (40, 10), (300, 4), (20, 100)] {
            drawn(&shown, width, height);
        }
    }
}
