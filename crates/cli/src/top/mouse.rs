//! Handling of the mouse, as a pure function of its position on the screen.

use super::draw::{ListPlaces, Places};
use super::state::{Mode, State, View};
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

/// Handles an event of the mouse on a screen of the size `area`.
pub fn take(state: &mut State, event: MouseEvent, area: Rect) {
    let down = match event.kind {
        MouseEventKind::Down(MouseButton::Left) => return click(state, event, area),
        MouseEventKind::ScrollDown => true,
        MouseEventKind::ScrollUp => false,
        _ => return,
    };
    match (state.mode, state.view) {
        (Mode::Help, _) => {}
        (_, View::List) => state.list.wheel(down),
        (_, _) if down => state.scroll += 3,
        (_, _) => state.scroll = state.scroll.saturating_sub(3),
    }
    state.apply_list();
}

fn click(state: &mut State, event: MouseEvent, area: Rect) {
    if state.mode == Mode::Help {
        state.mode = Mode::Normal;
        return;
    }
    let at = Position::new(event.column, event.row);
    let Some(body) = Places::new(state, area).map(|places| places.body) else {
        return;
    };
    if state.view != View::List || !body.contains(at) {
        return;
    }
    let places = ListPlaces::new(state, body);
    if at.y == body.y {
        if let Some(column) = places.column_at(at.x) {
            state.list.sort_by(column);
        }
    } else {
        let row = usize::from(at.y - body.y - 1) + places.first;
        // A second click opens the row that the first one selected.
        if row < state.visible().len() {
            match state.list.pointed && state.list.cursor == row {
                true => state.open(row),
                false => state.list.go(row),
            }
        }
    }
    state.apply_list();
}

#[cfg(test)]
mod tests;
