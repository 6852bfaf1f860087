use super::*;
use crate::fixture::record;
use crate::selection::Selection;
use crate::top::clock::Clock;
use crate::view::Column;
use crossterm::event::KeyModifiers;
use std::time::Duration;

const AREA: Rect = Rect::new(0, 0, 80, 24);

fn state() -> State {
    let clock = Clock::Live {
        interval: Duration::from_secs(1),
    };
    let mut state = State::new(clock, Selection::default());
    state.take(record(), None);
    state
}

fn event(kind: MouseEventKind, column: u16, row: u16) -> MouseEvent {
    MouseEvent {
        kind,
        column,
        row,
        modifiers: KeyModifiers::NONE,
    }
}

fn click(state: &mut State, column: u16, row: u16) {
    take(
        state,
        event(MouseEventKind::Down(MouseButton::Left), column, row),
        AREA,
    );
}

fn body(state: &State) -> Rect {
    Places::new(state, AREA).unwrap().body
}

/// Promise 13.
#[test]
fn a_heading_sorts_and_once_more_reverses() {
    let mut state = state();
    let top = body(&state).y;
    click(&mut state, 2, top);
    assert_eq!((state.list.sort, state.list.reverse), (Column::Name, false));
    click(&mut state, 2, top);
    assert_eq!((state.list.sort, state.list.reverse), (Column::Name, true));
    click(&mut state, 14 + 3, top);
    assert_eq!((state.list.sort, state.list.reverse), (Column::Cpu, false));
    assert_eq!(state.visible()[0].name, "db-1");
}

#[test]
fn the_second_click_on_a_row_opens_it() {
    let mut state = state();
    let top = body(&state).y;
    click(&mut state, 5, top + 2);
    assert_eq!((state.list.cursor, state.view), (1, View::List));
    click(&mut state, 5, top + 2);
    assert_eq!(state.view, View::Details(13), "cache is the second by owed");
    // A click below the last row has no effect.
    state.view = View::List;
    click(&mut state, 5, top + 9);
    assert_eq!((state.list.cursor, state.view), (1, View::List));
}

#[test]
fn the_wheel_moves_and_a_click_closes_the_help() {
    let mut state = state();
    take(&mut state, event(MouseEventKind::ScrollDown, 0, 0), AREA);
    assert_eq!(state.list.cursor, 2, "three rows, but there are no more");
    take(&mut state, event(MouseEventKind::ScrollUp, 0, 0), AREA);
    assert_eq!(state.list.cursor, 0);
    state.view = View::Cpus;
    take(&mut state, event(MouseEventKind::ScrollDown, 0, 0), AREA);
    assert_eq!(state.scroll, 3);
    state.mode = Mode::Help;
    click(&mut state, 0, 0);
    assert_eq!(state.mode, Mode::Normal);
}

/// Promise 13.
#[test]
fn no_place_and_no_size_panics() {
    for (width, height) in [(0, 0), (1, 1), (39, 9), (40, 10), (80, 24), (300, 80)] {
        let area = Rect::new(0, 0, width, height);
        for place in [(0, 0), (5, 5), (79, 23), (u16::MAX, u16::MAX)] {
            let mut state = state();
            let down = MouseEventKind::Down(MouseButton::Left);
            for kind in [
                down,
                down,
                MouseEventKind::ScrollDown,
                MouseEventKind::Moved,
            ] {
                take(&mut state, event(kind, place.0, place.1), area);
            }
        }
    }
}
