use super::*;
use crate::fixture::record;
use clap::Parser;
use cofferdam_history::{Limits, Store};
use std::path::Path;

fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn at(seconds: u64) -> SystemTime {
    begin() + Duration::from_secs(seconds)
}

/// Records seconds 1 to 200, and 4001 to 4100.
fn store(path: &Path) {
    let mut store = Store::open(path, Limits::default()).unwrap();
    for second in (1..=200).chain(4001..=4100) {
        let mut record = record();
        record.time = cofferdam_records::time(at(second));
        record.interval_s = 1.0;
        let frame = Frame::new(record, Vec::new()).unwrap();
        store.append(&frame).unwrap();
    }
}

fn player(path: &Path, seconds: u64) -> Player {
    let mut reader = Reader::open(path).unwrap();
    let frame = reader.frame_at(at(seconds)).unwrap().unwrap();
    Player::new(reader, frame)
}

fn place(player: &Player) -> u64 {
    player.frame.end.duration_since(begin()).unwrap().as_secs()
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

/// Promise 16.
#[test]
fn keys_step_through_the_history_and_stop_at_its_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    store(&path);
    let mut player = player(&path, 100);
    let mut press = |code, modifiers, expected| {
        player
            .go(requested_step(key(code, modifiers)).unwrap())
            .unwrap();
        assert_eq!(place(&player), expected, "{code:?} {modifiers:?}");
        player.gap
    };
    let none = KeyModifiers::NONE;
    press(KeyCode::Right, none, 102);
    press(KeyCode::Char('['), none, 101);
    press(KeyCode::Left, none, 100);
    press(KeyCode::Right, KeyModifiers::SHIFT, 160);
    press(KeyCode::Char('{'), none, 100);
    press(KeyCode::Char('{'), none, 40);
    press(KeyCode::Char('{'), none, 1);
    press(KeyCode::Left, none, 1);
    // An hour later nothing was recorded: the next frame after that.
    let gap = press(KeyCode::PageDown, none, 200);
    assert_eq!(gap, None);
    let gap = press(KeyCode::Right, none, 4001);
    assert_eq!(gap, Some(Duration::from_secs(3800)));
    press(KeyCode::PageDown, none, 4100);
    press(KeyCode::Right, none, 4100);
    press(KeyCode::PageUp, none, 200);
    // An hour before the last frame nothing was recorded: the screen says that until the next step.
    let note = player.clock().note().unwrap();
    assert!(
        note.contains("nothing was recorded at") && note.contains("(shown)"),
        "{note}"
    );
    player.go(Move::Back).unwrap();
    assert_eq!(player.clock().note(), None);
}

/// Promise 16.
#[test]
fn the_heading_has_time_resolution_and_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    store(&path);
    let mut player = player(&path, 4000);
    let mut state = State::new(player.clock(), Selection::default());
    player.show(&mut state);
    let reading = state.reading.as_ref().unwrap();
    assert_eq!(
        state.clock.moment(&reading.record.time),
        "2027-01-15 09:06:41 UTC"
    );
    assert_eq!(
        state.clock.words(),
        "replay of 1s after 1h 3m 20s without recording"
    );
    assert_eq!(reading.rows.len(), 3);
    player.playing = Some(Instant::now());
    assert!(player.go(Move::On).unwrap());
    player.show(&mut state);
    assert_eq!(state.clock.words(), "playing 1s");
}

/// Promise 16.
#[test]
fn once_prints_the_frame_and_its_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    store(&path);
    let printed = |words: &str, seconds: u64| {
        let line = format!(
            "cofferdam top --replay now --history {} {words}",
            path.display()
        );
        let cli = crate::args::Cli::try_parse_from(line.split_whitespace()).unwrap();
        let Some(crate::args::Command::Top(args)) = cli.command else {
            panic!("not top");
        };
        let out = folder.path().join(format!("out-{seconds}{words}"));
        let time = at(seconds);
        let mut reader = Reader::open(&path).unwrap();
        let frame = reader.frame_at(time).unwrap().unwrap();
        let unrecorded = UnrecordedMoment::at(&mut reader, time).unwrap();
        let mut output = Output::open(Some(&out), false).unwrap();
        let shown = (unrecorded, &frame);
        print(&args, shown, &Selection::default(), &mut output).unwrap();
        std::fs::read_to_string(&out).unwrap()
    };
    let text = printed("--once", 100);
    assert!(
        text.starts_with("2027-01-15T08:01:41.000Z  replay of 1s\n"),
        "{text}"
    );
    assert!(
        text.contains("\nweb-3 ") && !text.contains("nothing was recorded"),
        "{text}"
    );
    let text = printed("--once", 260);
    let sentence = "nothing was recorded at 2027-01-15T08:04:20.000Z; the nearest moments are \
                    2027-01-15T08:03:20.000Z (shown) and 2027-01-15T09:06:40.000Z";
    assert!(text.contains(&format!("\n{sentence}\n")), "{text}");
    // A second after the last frame the next one is only not written yet.
    assert!(!printed("--once", 4101).contains("nothing was recorded"));
    assert!(
        printed("--once", 9000).contains("the nearest moment is 2027-01-15T09:08:20.000Z (shown)")
    );
    let json: cofferdam_records::accounting::AccountingRecord =
        serde_json::from_str(&printed("--json", 100)).unwrap();
    assert_eq!(json.time, "2027-01-15T08:01:41.000Z");
}
