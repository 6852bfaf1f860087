use super::*;
use crate::fixture::record;
use crate::top::clock::LONGEST_INTERVAL;
use crate::view::Column;
use cofferdam_types::quantity::SHORTEST_INTERVAL;

const SECOND: Clock = Clock::Live {
    interval: Duration::from_secs(1),
};

fn state() -> State {
    let mut state = State::new(SECOND, Selection::default());
    state.take(record(), None);
    state
}

fn press(state: &mut State, keys: &str) -> Effect {
    let mut effect = Effect::Redraw;
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        effect = state.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    effect
}

fn names(state: &State) -> Vec<&str> {
    state.visible().iter().map(|r| r.name.as_str()).collect()
}

#[test]
fn the_list_is_sorted_by_owed_time_at_first() {
    let mut state = state();
    assert_eq!(names(&state), ["web-3", "cache", "db-1"]);
    press(&mut state, "r");
    assert_eq!(names(&state), ["db-1", "cache", "web-3"]);
    while state.list.sort != Column::Name {
        press(&mut state, "s");
    }
    assert_eq!(names(&state), ["cache", "db-1", "web-3"]);
    press(&mut state, "S");
    assert_eq!(state.list.sort, Column::NsPerPacket);
}

/// Promise 13.
#[test]
fn every_column_has_a_digit_and_the_second_press_reverses() {
    let mut state = state();
    for (key, column) in "1234567890".chars().zip(Column::ALL) {
        press(&mut state, &key.to_string());
        assert_eq!(
            (state.list.sort, state.list.reverse),
            (column, false),
            "{key}"
        );
    }
    press(&mut state, "2");
    assert_eq!(names(&state), ["db-1", "web-3", "cache"]);
    press(&mut state, "2");
    assert_eq!(names(&state), ["cache", "web-3", "db-1"]);
    // The order also applies to later readings.
    state.take(record(), None);
    assert_eq!(names(&state), ["cache", "web-3", "db-1"]);
}

#[test]
fn the_filter_accepts_letters_that_are_otherwise_commands() {
    let mut state = state();
    press(&mut state, "/qWEB");
    assert_eq!(
        (state.mode, state.list.filter.as_str()),
        (Mode::Filter, "qWEB")
    );
    assert!(names(&state).is_empty());
    press(&mut state, "\u{1b}/WEB\n");
    assert_eq!(names(&state), ["web-3"]);
    assert_eq!(state.mode, Mode::Normal);
    press(&mut state, "\u{1b}");
    assert_eq!(names(&state).len(), 3);
}

/// Promise 13.
#[test]
fn the_filter_finds_pods_and_runtimes() {
    let mut state = state();
    let mut pods = record();
    pods.containers[0].pod = Some("shop/cart-7f".to_owned());
    pods.containers[0].runtime = "containerd".to_owned();
    state.take(pods, None);
    for text in ["SHOP", "cart-7f:web", "containerd"] {
        press(&mut state, &format!("/{text}\n"));
        assert_eq!(names(&state), ["shop/cart-7f:web-3"], "{text}");
        press(&mut state, "\u{1b}");
    }
}

/// Promise 13.
#[test]
fn a_paused_screen_does_not_change_and_shows_its_age() {
    let mut state = state();
    press(&mut state, " ");
    let mut later = record();
    later.containers.clear();
    state.take(later.clone(), None);
    state.take(later, None);
    assert_eq!(names(&state).len(), 3);
    assert_eq!(
        state.pause.as_ref().map(|p| p.age),
        Some(Duration::from_secs(2))
    );
    // The readings that arrived meanwhile are shown at once.
    press(&mut state, "p");
    assert!(names(&state).is_empty() && state.pause.is_none());
}

#[test]
fn the_interval_stays_in_bounds() {
    let mut state = state();
    assert_eq!(press(&mut state, "+"), Effect::IntervalChanged);
    assert_eq!(state.clock.interval(), Duration::from_secs(2));
    press(&mut state, "++++++++++");
    assert_eq!(state.clock.interval(), LONGEST_INTERVAL);
    press(&mut state, "--------------------");
    assert_eq!(state.clock.interval(), SHORTEST_INTERVAL);
}

#[test]
fn the_cursor_stays_on_a_row() {
    let mut state = state();
    press(&mut state, "jjjjjjj");
    assert_eq!(state.list.cursor, 2);
    press(&mut state, "/web\n");
    assert_eq!(state.list.cursor, 0);
}

/// Promise 13.
#[test]
fn details_request_what_they_show_and_nothing_else() {
    let mut state = state();
    assert_eq!(state.details_request(), DetailsRequest::default());
    press(&mut state, "\n");
    let web = Some(12);
    assert_eq!(
        state.details_request(),
        DetailsRequest {
            container: web,
            flows: false
        }
    );
    press(&mut state, "f");
    assert_eq!(
        state.details_request(),
        DetailsRequest {
            container: web,
            flows: true
        }
    );
    // Leaving ends the sampling; coming back does not restart it.
    press(&mut state, "\u{1b}");
    assert_eq!(
        (state.view, state.details_request()),
        (View::List, DetailsRequest::default())
    );
    press(&mut state, "\n");
    assert_eq!(
        state.details_request(),
        DetailsRequest {
            container: web,
            flows: false
        }
    );
    press(&mut state, "c");
    assert_eq!(
        (state.view, state.details_request()),
        (View::Cpus, DetailsRequest::default())
    );
    press(&mut state, "c");
    assert_eq!(state.view, View::List);
    press(&mut state, "/zzz\n\n");
    assert_eq!(state.view, View::List, "there is no row to open");
}

/// Promise 67.
#[test]
fn quit_and_ctrl_c_differ() {
    let mut state = state();
    assert_eq!(press(&mut state, "q"), Effect::Quit);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.key(ctrl_c), Effect::Interrupt);
    press(&mut state, "/");
    assert_eq!(state.key(ctrl_c), Effect::Interrupt);
}

#[test]
fn any_key_leaves_the_help() {
    let mut state = state();
    press(&mut state, "?");
    assert_eq!(state.mode, Mode::Help);
    assert_eq!(press(&mut state, "q"), Effect::Redraw);
    assert_eq!(state.mode, Mode::Normal);
}

/// Promise 11.
#[test]
fn a_replay_has_no_command_that_helps() {
    let mut live = State::new(SECOND, Selection::default());
    live.agent = Some(Agent::NotRunning(
        cofferdam_records::explain::Start::Service,
    ));
    live.take(record(), None);
    let remedy = live
        .reading
        .as_ref()
        .and_then(|r| r.remedy.clone())
        .unwrap();
    assert!(
        remedy.contains("rule set web-3 --network-cpu enforce"),
        "{remedy}"
    );
    let mut calm = record();
    calm.containers.clear();
    for _ in 0..RECENT {
        live.take(calm.clone(), None);
    }
    assert_eq!(live.reading.unwrap().remedy, None);
    // A replay has no agent.
    assert_eq!(state().reading.unwrap().remedy, None);
}
