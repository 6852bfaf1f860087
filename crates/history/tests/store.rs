//! Tests that appended frames are stored at every resolution, exactly once, with clocks that jump
//! and within the bounds.
#![allow(clippy::unwrap_used)]

mod synthetic;

use cofferdam_history::{Access, Frame, Limits, Reader, SMALLEST_LIMIT_BYTES, Store, TIERS};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use synthetic::{all, append, begin, frame, host_traffic_ns, open};

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> std::time::SystemTime {
    begin() + Duration::from_secs(seconds)
}

/// Sum of the seeds of seconds `0..seconds`, each plus one.
fn expected_ns(seconds: u64) -> u64 {
    (1..=seconds).sum()
}

/// Promise 16.
#[test]
fn a_frame_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    assert_eq!(Reader::open(&path).unwrap().extent().unwrap(), None);
    append(&mut store, 0..3);
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.extent().unwrap(), Some((begin(), at(3))));
    for second in 0..3 {
        let mut written = frame(at(second + 1), 2, second);
        written.resolution = SECOND;
        assert_eq!(reader.frame_at(at(second)).unwrap(), Some(written));
    }
    // One process appends and another reads: the reader sees later frames too.
    append(&mut store, 3..4);
    assert_eq!(reader.extent().unwrap(), Some((begin(), at(4))));
}

/// Promise 16.
#[test]
fn a_time_finds_its_frame_or_the_previous_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    append(&mut store, 0..5);
    append(&mut store, 100..105);
    let mut reader = Reader::open(&path).unwrap();
    let mut end_at = |seconds: f64| {
        let time = begin() + Duration::from_secs_f64(seconds);
        let found = reader.frame_at(time).unwrap();
        found.map(|f| f.end.duration_since(begin()).unwrap().as_secs())
    };
    assert_eq!(end_at(2.5), Some(3));
    assert_eq!(end_at(2.0), Some(3), "the one that begins then");
    assert_eq!(end_at(50.0), Some(5), "nothing was recorded then");
    assert_eq!(end_at(102.5), Some(103));
    assert_eq!(end_at(9e8), Some(105));
    let before = begin() - SECOND;
    assert_eq!(reader.frame_at(before).unwrap(), None);
    let mut time = before;
    let mut ends = Vec::new();
    while let Some(frame) = reader.after(time).unwrap() {
        time = frame.end;
        ends.push(time.duration_since(begin()).unwrap().as_secs());
    }
    assert_eq!(ends, [1, 2, 3, 4, 5, 101, 102, 103, 104, 105]);
    while let Some(frame) = reader.before(time).unwrap() {
        assert_eq!(
            Some(frame.end.duration_since(begin()).unwrap().as_secs() + 1),
            ends.pop().map(|e| { if e == 101 { 6 } else { e } })
        );
        time = frame.end;
    }
    assert_eq!(ends, [1]);
}

/// Promise 16.
#[test]
fn every_resolution_adds_up_to_the_same_total() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    append(&mut store, 0..4000);
    append(&mut store, 8000..8100);
    let expected = expected_ns(4000) + (8001..=8100).sum::<u64>();
    let mut reader = Reader::open(&path).unwrap();
    for tier in TIERS {
        let mut frames: Vec<Frame> = Vec::new();
        let taken = reader.each(begin(), at(9000), tier.resolution, |frame| {
            frames.push(frame);
            ControlFlow::Continue(())
        });
        taken.unwrap();
        assert_eq!(host_traffic_ns(&frames), expected, "{tier:?}");
        let length: Duration = frames.iter().map(|f| f.length).sum();
        assert_eq!(length, Duration::from_secs(4100), "{tier:?}");
        let gaps: Vec<_> = frames
            .windows(2)
            .filter_map(|f| f[0].gap_to(&f[1]))
            .collect();
        assert_eq!(gaps, [Duration::from_secs(4000)], "{tier:?}");
    }
    for most in [1, 2, 7, 100, 500, 5000] {
        let frames = reader.frames(begin(), at(8100), most).unwrap();
        assert!(frames.len() <= most, "{} of {most}", frames.len());
        assert_eq!(host_traffic_ns(&frames), expected, "{most}");
    }
    // Part of a chart: tens of seconds for an hour in 400 frames.
    let frames = reader.frames(at(0), at(3600), 400).unwrap();
    assert_eq!(frames.len(), 360);
    assert!(frames.iter().all(|f| f.length == Duration::from_secs(10)));
}

/// Promise 16.
#[test]
fn the_finest_frames_are_kept_for_an_hour_of_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    append(&mut store, 0..7300);
    let mut reader = Reader::open(&path).unwrap();
    let early = reader.frame_at(at(100)).unwrap().unwrap();
    assert_eq!(early.resolution, Duration::from_secs(10));
    let frames = all(&path);
    let seconds = frames.iter().filter(|f| f.resolution == SECOND).count();
    assert!((3600..=3670).contains(&seconds), "{seconds}");
    assert_eq!(host_traffic_ns(&frames), expected_ns(7300));
}

/// Promise 65.
#[test]
fn a_reopened_store_continues_its_sums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    for second in 0..150 {
        append(&mut open(&path), second..second + 1);
    }
    let mut reader = Reader::open(&path).unwrap();
    for tier in TIERS {
        let frames = reader.frames(
            begin(),
            at(150),
            (150 / tier.resolution.as_secs()) as usize + 30,
        );
        assert_eq!(
            host_traffic_ns(&frames.unwrap()),
            expected_ns(150),
            "{tier:?}"
        );
    }
    let frames = reader.frames(begin(), at(120), 2).unwrap();
    let lengths: Vec<_> = frames.iter().map(|f| f.length.as_secs()).collect();
    assert_eq!(lengths, [60, 60]);
}

/// Promise 16.
#[test]
fn a_jumping_clock_loses_and_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    let year = 365 * 86_400;
    // An hour back, a year forwards, and back again.
    append(&mut store, 7200..7300);
    append(&mut store, 3600..3700);
    append(&mut store, year..year + 100);
    append(&mut store, 7300..7400);
    drop(store);
    let seeds = (7200..7300)
        .chain(3600..3700)
        .chain(year..year + 100)
        .chain(7300..7400);
    let expected: u64 = seeds.map(|seed| seed + 1).sum();
    let mut reader = Reader::open(&path).unwrap();
    for tier in TIERS {
        let (mut sum, mut length) = (0, Duration::ZERO);
        let taken = reader.each(begin(), at(2 * year), tier.resolution, |frame| {
            sum += host_traffic_ns(std::slice::from_ref(&frame));
            length += frame.length;
            ControlFlow::Continue(())
        });
        taken.unwrap();
        assert_eq!((sum, length.as_secs()), (expected, 400), "{tier:?}");
    }
    // A time finds the frame that was recorded then.
    let frame = reader.frame_at(at(3650)).unwrap().unwrap();
    assert_eq!(frame.record.unattributed_ns["host_traffic"], 3651);
    let mut store = open(&path);
    append(&mut store, 7400..7500);
    assert_eq!(
        host_traffic_ns(&all(&path)),
        expected + (7401..=7500).sum::<u64>()
    );
}

/// Promise 16.
#[test]
fn a_store_stays_within_its_bound_and_keeps_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let limits = Limits {
        bytes: SMALLEST_LIMIT_BYTES,
        ..Limits::default()
    };
    let mut store = Store::open(&path, limits).unwrap();
    let mut largest = 0;
    for second in 0..1500 {
        store.append(&frame(at(second + 1), 500, second)).unwrap();
        largest = largest.max(store.usage().unwrap().bytes);
    }
    assert!(largest <= SMALLEST_LIMIT_BYTES, "{largest} bytes");
    let usage = store.usage().unwrap();
    let reader = Reader::open(&path).unwrap();
    let (first, last) = reader.extent().unwrap().unwrap();
    assert_eq!((Some(first), last), (usage.since, at(1500)));
    // There are no holes from the first to the last.
    let frames = all(&path);
    assert!(frames.windows(2).all(|f| f[0].gap_to(&f[1]).is_none()));
    // Seconds were removed first: coarser sums have them.
    let seconds = frames.iter().filter(|f| f.resolution == SECOND).count();
    assert!(
        seconds < 1500,
        "nothing was removed: the test writes too little"
    );
    assert_eq!(frames.last().unwrap().resolution, SECOND);
}

/// Promise 16.
#[test]
fn a_lower_bound_makes_the_file_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    for second in 0..1500 {
        store.append(&frame(at(second + 1), 500, second)).unwrap();
    }
    assert!(store.usage().unwrap().bytes > SMALLEST_LIMIT_BYTES);
    drop(store);
    let limits = Limits {
        bytes: SMALLEST_LIMIT_BYTES,
        ..Limits::default()
    };
    let mut store = Store::open(&path, limits).unwrap();
    for second in 1500..1800 {
        store.append(&frame(at(second + 1), 500, second)).unwrap();
    }
    let bytes = store.usage().unwrap().bytes;
    assert!(bytes <= SMALLEST_LIMIT_BYTES, "{bytes} bytes");
}

/// Promise 16.
#[test]
fn only_owner_and_group_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let limits = |access| Limits {
        access,
        ..Limits::default()
    };
    let files = ["history", "history-wal", "history-shm"];
    let of = |name: &str| {
        let found = std::fs::metadata(folder.path().join(name)).unwrap();
        (found.mode() & 0o777, found.gid())
    };
    let store = Store::open(&path, limits(Access::Group(4321))).unwrap();
    for name in files {
        assert_eq!(of(name), (0o640, 4321), "{name}");
    }
    drop(store);
    let _store = Store::open(&path, limits(Access::Owner)).unwrap();
    for name in files {
        assert_eq!(of(name).0, 0o600, "{name}");
    }
}
