//! `cofferdam latency watch`: live histograms, on the terminal.

mod picture;

use super::args::WatchArgs;
use super::session::Session;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::top::screen::Screen;
use cofferdam_latency::Summary;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use picture::{Mode, Picture, ScreenState};
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

/// Time between two readings of the rings, and between two checks of the keyboard.
const READ_EVERY: Duration = Duration::from_millis(20);
/// Longest time until a new size of the terminal takes effect.
const REDRAW_EVERY: Duration = Duration::from_millis(250);
const SHORTEST: Duration = Duration::from_millis(250);
/// Longest filter text.
const FILTER_LENGTH: usize = 64;
const LONGEST: Duration = Duration::from_secs(60);

/// Shows histograms until `q`, Ctrl-C or a signal.
pub fn run(args: &WatchArgs, interrupt: &Interrupt) -> Outcome {
    if !stdout().is_terminal() {
        return Err(Failure::Usage(
            "watch needs a terminal on standard output: use 'latency record' here".to_owned(),
        ));
    }
    let mut progress = Progress::new(true);
    progress.show("loading the measurement programs");
    let mut session = Session::begin(&args.measure)?;
    progress.clear();
    let mut screen = Screen::open(interrupt)?;
    let mut summary = Summary::default();
    let mut shown = ScreenState::new(args.interval, args.measure.one_in);
    let mut picture = Picture::default();
    let mut begin = Instant::now();
    let mut drawn: Option<Instant> = None;
    loop {
        session.take(|_, sample| summary.add(&sample))?;
        let length = begin.elapsed();
        if length >= shown.interval {
            begin = Instant::now();
            let ended = session.take_ended();
            picture.take(&session, &summary, (length, &ended))?;
            summary.clear();
            if !shown.paused {
                shown.take(picture.blocks().to_vec());
                shown.head = picture.head().to_vec();
                drawn = None;
            }
        }
        for key in screen.keys()? {
            drawn = None;
            match act(&mut shown, key) {
                Next::Go => {}
                Next::Quit => return Ok(()),
                Next::Interrupt => return Err(Failure::Interrupted(None)),
            }
        }
        if drawn.is_none_or(|t| t.elapsed() >= REDRAW_EVERY) {
            screen.draw(|frame| shown.draw(frame))?;
            drawn = Some(Instant::now());
        }
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        std::thread::sleep(READ_EVERY);
    }
}

enum Next {
    Go,
    Quit,
    Interrupt,
}

fn act(shown: &mut ScreenState, key: KeyEvent) -> Next {
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return Next::Interrupt;
    }
    match shown.mode {
        Mode::Normal => return command(shown, key.code),
        Mode::Help => shown.mode = Mode::Normal,
        Mode::Filter => {
            match key.code {
                KeyCode::Enter => shown.mode = Mode::Normal,
                KeyCode::Esc => {
                    shown.filter.clear();
                    shown.mode = Mode::Normal;
                }
                KeyCode::Backspace => {
                    shown.filter.pop();
                }
                KeyCode::Char(c) if shown.filter.len() < FILTER_LENGTH => shown.filter.push(c),
                _ => {}
            }
            shown.arrange();
        }
    }
    Next::Go
}

fn command(shown: &mut ScreenState, code: KeyCode) -> Next {
    match code {
        // Esc first clears the filter, and quits only without one.
        KeyCode::Esc if !shown.filter.is_empty() => shown.filter.clear(),
        KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => shown.mode = Mode::Help,
        KeyCode::Char('/') => shown.mode = Mode::Filter,
        KeyCode::Char('s') | KeyCode::Right => shown.sort = shown.sort.step(true),
        KeyCode::Char('S') | KeyCode::Left => shown.sort = shown.sort.step(false),
        KeyCode::Char('r') => shown.reverse = !shown.reverse,
        KeyCode::Char('p' | ' ') => shown.paused = !shown.paused,
        KeyCode::Char('+' | '=') => shown.interval = (shown.interval * 2).min(LONGEST),
        KeyCode::Char('-') => shown.interval = (shown.interval / 2).max(SHORTEST),
        KeyCode::Up | KeyCode::Char('k') => shown.scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => shown.scroll(1),
        KeyCode::PageUp => shown.scroll(-shown.page()),
        KeyCode::PageDown => shown.scroll(shown.page()),
        KeyCode::Home => shown.top = 0,
        KeyCode::End => shown.scroll(isize::MAX / 2),
        _ => {}
    }
    shown.arrange();
    Next::Go
}
