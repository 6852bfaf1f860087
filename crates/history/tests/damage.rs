//! Tests with files that are damaged, truncated, foreign, of another version, or read-only.
#![allow(clippy::unwrap_used)]

mod synthetic;

use cofferdam_history::{AppendError, Limits, OpenError, Reader, Store, TIERS, set_aside};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;
use synthetic::{all, append, begin, frame, open};

fn at(seconds: u64) -> std::time::SystemTime {
    begin() + Duration::from_secs(seconds)
}

/// Bytes of a closed store of `seconds` seconds, which is one file.
fn make_store(path: &Path, seconds: u64, containers: u64) -> Vec<u8> {
    let mut store = open(path);
    for second in 0..seconds {
        let frame = frame(at(second + 1), containers, second);
        store.append(&frame).unwrap();
    }
    drop(store);
    std::fs::read(path).unwrap()
}

/// Counts the readable and the damaged frames at the finest resolution.
fn readable(path: &Path, seconds: u64, containers: u64) -> (usize, usize) {
    let Ok(mut reader) = Reader::open(path) else {
        return (0, 0);
    };
    let mut whole = 0;
    let read = reader.each(begin(), at(seconds), TIERS[0].resolution, |frame| {
        let second = frame.end.duration_since(begin()).unwrap().as_secs();
        let mut written = synthetic::frame(at(second), containers, second - 1);
        written.resolution = frame.resolution;
        // The identity of a container is stored apart from its counts.
        let mut frame = frame;
        let lost = frame
            .record
            .containers
            .iter_mut()
            .zip(&written.record.containers);
        for (read, written) in lost.filter(|(read, _)| read.name == "(name lost)") {
            let written = written.clone();
            read.name = written.name;
            (read.cgroup_id, read.cgroup_path) = (written.cgroup_id, written.cgroup_path);
            (read.id, read.runtime, read.netns) = (written.id, written.runtime, written.netns);
        }
        let words = frame
            .conditions
            .iter()
            .any(|c| c.name == "(name lost)" || c.container == "(name lost)")
            || frame.record.unattributed_ns.contains_key("(name lost)");
        if frame.length == Duration::from_secs(1) && !words {
            assert_eq!(frame, written, "read, but not what was written");
        }
        whole += 1;
        ControlFlow::Continue(())
    });
    let _ = read;
    (whole, reader.damage().len())
}

/// Promise 65.
#[test]
fn a_flipped_bit_costs_one_frame_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    make_store(&path, 30, 2);
    // Flip a bit in a frame's bytes, wherever the database has put them.
    let db = rusqlite::Connection::open(&path).unwrap();
    let which = "frame_1s WHERE recorded_ns = 7000000000";
    let select = format!("SELECT body FROM {which}");
    let mut body: Vec<u8> = db.query_row(&select, [], |row| row.get(0)).unwrap();
    let middle = body.len() / 2;
    body[middle] ^= 4;
    let update = format!("UPDATE {}", which.replace("WHERE", "SET body = ?1 WHERE"));
    assert_eq!(db.execute(&update, [body]).unwrap(), 1);
    drop(db);
    let mut reader = Reader::open(&path).unwrap();
    let mut ends = Vec::new();
    let read = reader.each(begin(), at(30), TIERS[0].resolution, |frame| {
        ends.push(frame.end.duration_since(begin()).unwrap().as_secs());
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert_eq!(ends, (1..=30).filter(|s| *s != 7).collect::<Vec<_>>());
    let [damage] = reader.damage()[..] else {
        panic!("{:?}", reader.damage());
    };
    assert_eq!(
        (damage.end, damage.resolution),
        (at(7), Duration::from_secs(1))
    );
    let words = damage.to_string();
    assert!(words.contains("2025-06-16T00:00:07"), "{words}");
    // A coarser frame covers the time as well.
    let instead = reader.frame_at(at(6)).unwrap().unwrap();
    assert_eq!(instead.resolution, Duration::from_secs(10));
}

/// Promise 65.
#[test]
fn a_bit_flipped_anywhere_never_passes_for_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let whole = make_store(&path, 60, 2);
    let copy = folder.path().join("copy");
    let (mut unaffected, mut reported) = (0, 0);
    for step in 0..200 {
        let mut bytes = whole.clone();
        let place = step * 7919 % bytes.len();
        bytes[place] ^= 1 << (step % 8);
        std::fs::write(&copy, &bytes).unwrap();
        let (frames, damaged) = readable(&copy, 60, 2);
        unaffected += usize::from(frames == 60);
        reported += usize::from(damaged > 0);
    }
    assert!(unaffected > 20 && reported > 20, "{unaffected}, {reported}");
}

/// Promise 65.
#[test]
fn the_rest_of_a_truncated_file_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let whole = make_store(&path, 300, 50);
    let half = whole.len() / 2 / 4096 * 4096;
    for length in [half, half + 1000, whole.len() - 5000] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let (frames, _) = readable(&path, 300, 50);
        assert!(frames > 100, "{frames} frames of 300 in {length} bytes");
        // The agent does not write into it: the file is set aside, and a new one begins.
        let refused = Store::open(&path, Limits::default()).unwrap_err();
        assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
        let aside = set_aside(&path).unwrap();
        assert_eq!(std::fs::metadata(aside).unwrap().len(), length as u64);
        append(&mut open(&path), 0..3);
        assert_eq!(all(&path).len(), 3);
    }
}

/// Promise 77.
#[test]
fn files_of_other_formats_stay_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    type RefusalCheck = fn(&OpenError) -> bool;
    let check = |bytes: &[u8], as_expected: RefusalCheck, words: &str| {
        std::fs::write(&path, bytes).unwrap();
        let writing = Store::open(&path, Limits::default()).unwrap_err();
        let reading = Reader::open(&path).unwrap_err();
        for refused in [writing, reading] {
            assert!(as_expected(&refused), "{refused}");
            assert!(refused.to_string().contains(words), "{refused}");
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "it was changed");
        std::fs::remove_file(&path).unwrap();
    };
    let foreign: RefusalCheck = |e| matches!(e, OpenError::NotAStore(_));
    check(
        b"# a shell script\necho\n".repeat(400).as_slice(),
        foreign,
        "is not a history",
    );
    check(b"short", foreign, "is not a history");
    let other = folder.path().join("other");
    let db = rusqlite::Connection::open(&other).unwrap();
    db.execute_batch("CREATE TABLE bookmark (url TEXT)")
        .unwrap();
    drop(db);
    check(&std::fs::read(&other).unwrap(), foreign, "is not a history");
    std::fs::remove_file(&other).unwrap();
    make_store(&other, 5, 2);
    let db = rusqlite::Connection::open(&other).unwrap();
    db.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA user_version = 7")
        .unwrap();
    drop(db);
    let newer: RefusalCheck = |e| matches!(e, OpenError::Newer { found: 7, .. });
    check(
        &std::fs::read(&other).unwrap(),
        newer,
        "use the newer cofferdam",
    );
}

/// Promise 77.
#[test]
fn paths_without_a_store_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no/history");
    for refused in [
        Store::open(&nowhere, Limits::default()).unwrap_err(),
        Reader::open(&nowhere).unwrap_err(),
        Reader::open(&folder.path().join("none")).unwrap_err(),
    ] {
        assert!(matches!(refused, OpenError::Io { .. }));
        assert!(refused.to_string().contains("No such file"), "{refused}");
    }
    for refused in [
        Store::open(folder.path(), Limits::default()).unwrap_err(),
        Reader::open(folder.path()).unwrap_err(),
    ] {
        assert!(matches!(refused, OpenError::NotAStore(_)), "{refused}");
    }
    let path = folder.path().join("history");
    let _first = open(&path);
    let second = Store::open(&path, Limits::default()).unwrap_err();
    assert!(matches!(second, OpenError::InUse(_)), "{second}");
}

/// Promise 65.
#[test]
fn a_removed_store_is_not_written_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    append(&mut store, 0..3);
    std::fs::remove_file(&path).unwrap();
    let refused = store.append(&frame(at(4), 2, 3)).unwrap_err();
    assert!(matches!(refused, AppendError::Gone(_)), "{refused}");
}

/// Change that a program makes to a file without opening it as a database.
type Interference = fn(&Path, &Path);

const REMOVE: Interference = |path, _| std::fs::remove_file(path).unwrap();
const MOVE: Interference = |path, elsewhere| std::fs::rename(path, elsewhere).unwrap();
const REPLACE: Interference = |path, elsewhere| {
    std::fs::copy(path, elsewhere).unwrap();
    std::fs::rename(elsewhere, path).unwrap();
};
const CUT_OFF: Interference = |path, _| std::fs::write(path, "").unwrap();
const OVERWRITE: Interference = |path, _| {
    let bytes = std::fs::metadata(path).unwrap().len() as usize;
    std::fs::write(path, vec![0x5a; bytes]).unwrap();
};

/// Promise 65.
#[test]
fn removed_or_replaced_files_are_reported_and_lose_nothing() {
    for (deed, name) in [(REMOVE, "removed"), (MOVE, "moved"), (REPLACE, "replaced")] {
        for suffix in ["", "-wal", "-shm", "-lock"] {
            let what = format!("history{suffix} {name}");
            let folder = tempfile::tempdir().unwrap();
            let (path, elsewhere) = (folder.path().join("history"), folder.path().join("else"));
            let mut store = open(&path);
            append(&mut store, 0..14);
            deed(&folder.path().join(format!("history{suffix}")), &elsewhere);
            let refused = store.append(&frame(at(15), 2, 14)).unwrap_err();
            assert!(matches!(refused, AppendError::Gone(_)), "{what}: {refused}");
            let text = refused.to_string();
            assert!(
                text.contains(&format!("history{suffix} ")),
                "{what}: {text}"
            );
            drop(store);
            let mut store = open(&path);
            append(&mut store, 14..16);
            drop(store);
            // There is a new store only if the store itself has gone; the old one is complete.
            let frames = all(&path).len();
            match (suffix, name) {
                ("", "removed") => assert_eq!(frames, 2, "{what}"),
                ("", "moved") => assert_eq!((frames, all(&elsewhere).len()), (2, 14), "{what}"),
                // The copy lacks the content of the log.
                ("", _) => assert!(frames >= 2, "{what}"),
                _ => assert_eq!(frames, 16, "{what}"),
            }
        }
    }
}

/// Promise 65.
#[test]
fn files_that_another_program_wrote_are_reported() {
    for (deed, name) in [(CUT_OFF, "cut off"), (OVERWRITE, "overwritten")] {
        for suffix in ["", "-wal"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("history");
            drop({
                let mut store = open(&path);
                append(&mut store, 0..14);
                store
            });
            let mut store = open(&path);
            append(&mut store, 14..20);
            deed(&folder.path().join(format!("history{suffix}")), &path);
            let refused = store.append(&frame(at(21), 2, 20)).unwrap_err();
            let text = refused.to_string();
            assert!(
                matches!(refused, AppendError::Damaged { .. }),
                "{suffix} {name}: {text}"
            );
            assert!(text.contains("another program wrote to it"), "{text}");
            drop(store);
            set_aside(&path).unwrap();
            append(&mut open(&path), 20..22);
            assert_eq!(all(&path).len(), 2, "{suffix} {name}");
        }
    }
}

/// Promise 65.
#[test]
fn an_older_copy_over_the_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("history"), folder.path().join("copy"));
    std::fs::write(&copy, make_store(&path, 14, 2)).unwrap();
    drop({
        let mut store = open(&path);
        append(&mut store, 14..20);
        store
    });
    let mut store = open(&path);
    std::fs::copy(&copy, &path).unwrap();
    let refused = store.append(&frame(at(21), 2, 20)).unwrap_err();
    assert!(matches!(refused, AppendError::Damaged { .. }), "{refused}");
}

/// Promise 65.
#[test]
fn a_checkpoint_by_another_client_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    let mut store = open(&path);
    append(&mut store, 0..14);
    // The client opens and closes it in this process, too.
    let client = rusqlite::Connection::open(&path).unwrap();
    client
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    append(&mut store, 14..20);
    drop(client);
    append(&mut store, 20..25);
    assert_eq!(all(&path).len(), 25);
}

/// Runs in a mount namespace of this thread: no other program sees the small disk, and it ends with
/// the thread.
fn on_a_small_disk(size: &str, test: impl FnOnce(&Path) + Send) {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none: Option<&str> = None;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(none, "/", none, private, none).unwrap();
            let options = Some(format!("size={size}"));
            let options = options.as_deref();
            mount(
                Some("tmpfs"),
                folder.path(),
                Some("tmpfs"),
                MsFlags::empty(),
                options,
            )
            .unwrap();
            test(folder.path());
        });
    });
}

/// Promise 65.
#[test]
fn a_full_disk_costs_the_frames_that_do_not_fit() {
    on_a_small_disk("1m", |folder| {
        let path = folder.join("history");
        let filler = folder.join("filler");
        let mut store = open(&path);
        append(&mut store, 0..10);
        std::fs::write(&filler, vec![1; 4 << 20]).unwrap_err();
        let mut stored: HashSet<u64> = (0..10).collect();
        let mut full = 0;
        for second in 10..60 {
            match store.append(&frame(at(second + 1), 50, second)) {
                Ok(()) => assert!(stored.insert(second)),
                Err(AppendError::Full(_)) => full += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(full > 0, "the disk did not get full");
        std::fs::remove_file(&filler).unwrap();
        append(&mut store, 60..70);
        stored.extend(60..70);
        drop(store);
        let frames = all(&path);
        let seconds = frames
            .iter()
            .map(|f| f.end.duration_since(begin()).unwrap().as_secs() - 1);
        assert_eq!(seconds.collect::<HashSet<_>>(), stored);
        assert!(frames.iter().any(|f| f.length == Duration::from_secs(1)));
    });
}

/// Promise 65.
#[test]
fn a_full_disk_cannot_hold_a_new_store() {
    on_a_small_disk("64k", |folder| {
        std::fs::write(folder.join("filler"), vec![1; 1 << 20]).unwrap_err();
        let refused = Store::open(&folder.join("history"), Limits::default()).unwrap_err();
        let words = refused.to_string();
        assert!(words.contains("full") || words.contains("space"), "{words}");
    });
}
