//! The live screen: readings, keys and frames in one loop.

use super::clock::Clock;
use super::draw::{self, style::Palette};
use super::inspector::Inspector;
use super::mouse;
use super::screen::{Input, Screen};
use super::state::{Effect, State};
use super::{Source, StartedMeasurement};
use crate::args::{Switch, TopArgs};
use crate::diagnosis;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::selection::Selection;
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::explain::Agent;
use std::time::Instant;

/// Runs until a key or a signal ends the screen.
pub fn run<S: Source>(
    args: &TopArgs,
    begun: StartedMeasurement<S>,
    interrupt: &Interrupt,
) -> Outcome {
    let StartedMeasurement {
        mut meter,
        selection,
        mut watch,
    } = begun;
    let clock = Clock::Live {
        interval: args.interval,
    };
    let mut state = State::new(clock, selection);
    state.mouse = args.mouse == Switch::On;
    state.agent = Some(watch.agent_state());
    let palette = Palette::of_environment();
    let mut inspector = Inspector::default();
    let mut screen = Screen::open(interrupt)?;
    let everything = Selection::default().with_host_cgroups(true);
    let mut last = Instant::now();
    loop {
        screen.set_mouse(state.mouse);
        screen.draw(|frame| draw::all(frame, &state, palette))?;
        meter.follow(last + state.clock.interval(), screen.wake())?;
        if interrupt.raised() {
            return Err(Failure::Interrupted(None));
        }
        let before = state.details_request();
        for input in screen.inputs()? {
            match input {
                Input::Mouse(event) => mouse::take(&mut state, event, screen.area()),
                Input::Key(key) => match state.key(key) {
                    Effect::Quit => return Ok(()),
                    Effect::Interrupt => return Err(Failure::Interrupted(None)),
                    Effect::Redraw | Effect::IntervalChanged => {}
                },
            }
        }
        let due = last.elapsed() >= state.clock.interval();
        if due {
            last = Instant::now();
            let interval = meter.cut()?;
            let losses = watch.cut(&meter.containers());
            let mut record = AccountingRecord::new(&interval);
            record.diagnosis = losses.map(|losses| diagnosis::record(&losses, &everything));
            state.agent = Some(watch.agent_state());
            state.take(record, watch.why_off());
        }
        if due || state.details_request() != before {
            let record = state.reading.as_ref().map(|reading| &reading.record);
            let agent = state.agent.as_ref().unwrap_or(&Agent::NotPermitted);
            let found = inspector.look(state.details_request(), &meter.containers(), record, agent);
            if state.pause.is_none() || state.inspection.is_none() {
                state.inspection = found;
            }
        }
    }
}
