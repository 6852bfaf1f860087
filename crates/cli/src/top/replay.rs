//! `top --replay`: the screen of an agent's recorded history.

mod unrecorded;

pub use unrecorded::UnrecordedMoment;

use super::clock::Clock;
use super::draw;
use super::draw::style::Palette;
use super::mouse;
use super::screen::{Input, Screen};
use super::state::{Effect, Mode, State};
use crate::args::{Switch, TopArgs};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json_line};
use crate::selection::Selection;
use crate::{diagnosis, export, headline, history_file, table, units};
use cofferdam_history::{Frame, ReadError, Reader};
use cofferdam_records::explain::Agent;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::time::{Duration, Instant, SystemTime};

/// Time for which a frame is on the screen while the replay plays, whatever time it covers.
const SHOWN: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Shows the recording around `time`: one frame, or a screen to step through.
pub fn run(args: &TopArgs, time: SystemTime, interrupt: &Interrupt) -> Outcome {
    let mut reader = history_file::open_at(args.history.clone(), &args.agent)?;
    let selection =
        Selection::for_history(&args.containers.containers)?.with_host_cgroups(args.all);
    let frame = reader.frame_at(time).map_err(failed)?;
    let unrecorded = UnrecordedMoment::at(&mut reader, time).map_err(failed)?;
    history_file::report_damage(&reader);
    let Some(frame) = frame else {
        return Err(Failure::failed(export::nothing(&reader)));
    };
    if args.once || args.json {
        if let Some(unrecorded) = unrecorded.filter(|_| args.json) {
            eprintln!("cofferdam: {}", unrecorded.sentence());
        }
        return print(
            args,
            (unrecorded, &frame),
            &selection,
            &mut Output::stdout(),
        );
    }
    let mut player = Player::new(reader, frame);
    player.unrecorded = unrecorded;
    let mut state = State::new(player.clock(), selection);
    state.mouse = args.mouse == Switch::On;
    player.show(&mut state);
    live(&mut player, &mut state, interrupt)
}

fn failed(error: ReadError) -> Failure {
    Failure::failed(error.to_string())
}

fn print(
    args: &TopArgs,
    (unrecorded, frame): (Option<UnrecordedMoment>, &Frame),
    selection: &Selection,
    output: &mut Output,
) -> Outcome {
    let shown = export::shown(frame.record.clone(), selection);
    if args.json {
        return output.write(&json_line(&shown)?);
    }
    let mut text = format!(
        "{}  replay of {}\n",
        shown.time,
        units::duration(frame.resolution)
    );
    if let Some(unrecorded) = unrecorded {
        text += &format!("{}\n", unrecorded.sentence());
    }
    let headline = headline::of(std::slice::from_ref(&frame.record), &Agent::NotPermitted);
    text += &table::ledger(&headline, &frame.record, &shown, table::terminal_width());
    if let Some(worst) = shown.diagnosis.as_ref().and_then(diagnosis::worst_of) {
        text += &format!("\n{worst}\n");
    }
    output.write(&text)
}

/// Position in the past, and whether it advances.
struct Player {
    reader: Reader,
    frame: Frame,
    /// Time without recording before the frame.
    gap: Option<Duration>,
    /// Requested moment, if the frame is only the nearest one.
    unrecorded: Option<UnrecordedMoment>,
    /// Time since which the frame is on the screen, while the replay plays.
    playing: Option<Instant>,
}

/// Step that a key requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Back,
    On,
    /// A jump by this time, forward if true.
    By(Duration, bool),
    Play,
}

impl Player {
    fn new(reader: Reader, frame: Frame) -> Player {
        let mut player = Player {
            reader,
            frame,
            gap: None,
            unrecorded: None,
            playing: None,
        };
        player.gap = player.gap_before();
        player
    }

    fn clock(&self) -> Clock {
        Clock::Replay {
            resolution: self.frame.resolution,
            gap: self.gap,
            unrecorded: self.unrecorded,
            playing: self.playing.is_some(),
        }
    }

    fn gap_before(&mut self) -> Option<Duration> {
        let before = self.reader.before(self.frame.start + self.frame.length / 2);
        let before = before.ok().flatten()?;
        before.gap_to(&self.frame)
    }

    fn show(&self, state: &mut State) {
        state.clock = self.clock();
        let off = self.frame.record.diagnosis.is_none();
        let why = off.then_some("it was off then, or another reading has it");
        state.take(self.frame.record.clone(), why);
    }

    /// Performs a step; returns false at an end of the history.
    fn go(&mut self, step: Move) -> Result<bool, ReadError> {
        let end = self.frame.end;
        let target = match step {
            Move::By(far, true) => self.frame.start.checked_add(far),
            Move::By(far, false) => self.frame.start.checked_sub(far),
            Move::Play | Move::On | Move::Back => None,
        };
        let found = match step {
            Move::Play => None,
            Move::On => self.reader.after(end)?,
            Move::Back => self.reader.before(end)?,
            Move::By(far, true) => match self.reader.frame_at(self.frame.start + far)? {
                // Nothing was recorded there: the next frame after it.
                Some(found) if found.end <= end => self.reader.after(end)?,
                other => other,
            },
            Move::By(far, false) => {
                let then = self.frame.start.checked_sub(far);
                let then = then.unwrap_or(SystemTime::UNIX_EPOCH);
                match self.reader.frame_at(then)? {
                    None => self.first()?,
                    other => other,
                }
            }
        };
        let Some(found) = found else { return Ok(false) };
        self.frame = found;
        self.gap = self.gap_before();
        self.unrecorded = match target {
            Some(target) => UnrecordedMoment::at(&mut self.reader, target)?,
            None => None,
        };
        Ok(true)
    }

    fn first(&mut self) -> Result<Option<Frame>, ReadError> {
        match self.reader.extent()? {
            Some((begin, _)) => self.reader.after(begin),
            None => Ok(None),
        }
    }
}

/// Step that `key` requests, while keys are commands.
fn requested_step(key: KeyEvent) -> Option<Move> {
    let shift = key.modifiers.contains(KeyModifiers::SHIFT);
    match key.code {
        KeyCode::Left if shift => Some(Move::By(MINUTE, false)),
        KeyCode::Right if shift => Some(Move::By(MINUTE, true)),
        KeyCode::Left | KeyCode::Char('[') => Some(Move::Back),
        KeyCode::Right | KeyCode::Char(']') => Some(Move::On),
        KeyCode::Char('{') => Some(Move::By(MINUTE, false)),
        KeyCode::Char('}') => Some(Move::By(MINUTE, true)),
        KeyCode::PageUp => Some(Move::By(HOUR, false)),
        KeyCode::PageDown => Some(Move::By(HOUR, true)),
        KeyCode::Char(' ' | 'p') => Some(Move::Play),
        _ => None,
    }
}

fn live(player: &mut Player, state: &mut State, interrupt: &Interrupt) -> Outcome {
    let palette = Palette::of_environment();
    let mut screen = Screen::open(interrupt)?;
    loop {
        screen.set_mouse(state.mouse);
        screen.draw(|frame| draw::all(frame, state, palette))?;
        let left = player
            .playing
            .map(|since| SHOWN.saturating_sub(since.elapsed()));
        let timeout = left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        // The interrupt notices a signal.
        let _ = poll(
            &mut [PollFd::new(screen.wake(), PollFlags::POLLIN)],
            timeout,
        );
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        for input in screen.inputs()? {
            let key = match input {
                Input::Key(key) => key,
                Input::Mouse(event) => {
                    mouse::take(state, event, screen.area());
                    continue;
                }
            };
            let step = match state.mode {
                Mode::Normal => requested_step(key),
                _ => None,
            };
            match step {
                Some(Move::Play) => {
                    player.playing = player.playing.is_none().then(Instant::now);
                    state.clock = player.clock();
                }
                Some(step) => {
                    player.go(step).map_err(failed)?;
                    player.show(state);
                }
                None => match state.key(key) {
                    Effect::Quit => return Ok(()),
                    Effect::Interrupt => return Err(Failure::Interrupted(None)),
                    Effect::Redraw | Effect::IntervalChanged => {}
                },
            }
        }
        if player.playing.is_some_and(|since| since.elapsed() >= SHOWN) {
            let more = player.go(Move::On).map_err(failed)?;
            // At its end the replay stops; a running agent may append more.
            player.playing = more.then(Instant::now);
            player.show(state);
        }
    }
}

#[cfg(test)]
mod tests;
