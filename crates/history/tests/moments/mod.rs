//! Test with other SQLite clients at every moment of a store's life, and then a kill: nothing is
//! lost.

use crate::synthetic::{all, append, begin, open};
use cofferdam_history::{Limits, Reader, SMALLEST_LIMIT_BYTES, Store, set_aside};
use rusqlite::{Connection, OpenFlags};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Path of the store whose steps are read from standard input.
const STEPS: &str = "COFFERDAM_TEST_STEPS";
/// Path of the store that a client opens and closes.
const CLIENT: &str = "COFFERDAM_TEST_CLIENT";
/// Manner in which the client does it.
const MANNER: &str = "COFFERDAM_TEST_MANNER";

/// Manners of other programs: a shell, a dashboard, a backup, a tool that tidies up.
const MANNERS: [&str; 5] = ["open", "read-only", "backup", "checkpoint", "copy"];
/// Life of a store: created, filled, pruned to a lower bound, opened again, read in the same
/// process, set aside and created again.
const LIFE: [&str; 9] = [
    "open",
    "append 3",
    "reader",
    "append 9",
    "prune",
    "append 700",
    "reopen",
    "append 5",
    "aside",
];

/// Plays the role that the environment gives to this program. Returns false if there is none.
pub fn is_role() -> bool {
    if let Some(path) = std::env::var_os(STEPS) {
        take_steps(Path::new(&path));
        return true;
    }
    if let Some(path) = std::env::var_os(CLIENT) {
        let manner = std::env::var(MANNER).unwrap();
        be_client(Path::new(&path), &manner);
        return true;
    }
    false
}

/// Performs the steps that it reads, and answers each with the number of frames appended so far.
fn take_steps(path: &Path) {
    let (mut store, mut frames): (Option<Store>, u64) = (None, 0);
    let mut out = std::io::stdout();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("open", _) => store = Some(open(path)),
            ("append", count) => {
                let until = frames + count.parse::<u64>().unwrap();
                append(store.as_mut().unwrap(), frames..until);
                frames = until;
            }
            ("reader", _) => drop(Reader::open(path).unwrap()),
            ("prune", _) => {
                drop(store.take());
                let limits = Limits {
                    bytes: SMALLEST_LIMIT_BYTES,
                    ..Limits::default()
                };
                store = Some(Store::open(path, limits).unwrap());
            }
            ("reopen", _) => {
                drop(store.take());
                store = Some(open(path));
            }
            ("aside", _) => {
                drop(store.take());
                set_aside(path).unwrap();
                store = Some(open(path));
                append(store.as_mut().unwrap(), 0..4);
                frames = 4;
            }
            other => panic!("no such step: {other:?}"),
        }
        writeln!(out, "{frames}").unwrap();
    }
    std::mem::forget(store);
}

fn be_client(path: &Path, manner: &str) {
    let flags = match manner {
        "read-only" => OpenFlags::SQLITE_OPEN_READ_ONLY,
        _ => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    if manner == "copy" {
        std::fs::read(path).unwrap();
        return;
    }
    // While the store is created, it may be unreadable for a moment: the client then ends.
    let Ok(db) = Connection::open_with_flags(path, flags) else {
        return;
    };
    let _ = db.busy_timeout(Duration::from_secs(5));
    let _ = db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    match manner {
        "backup" => {
            let mut to = Connection::open_in_memory().unwrap();
            let backup = rusqlite::backup::Backup::new(&db, &mut to).unwrap();
            let _ = backup.run_to_completion(64, Duration::ZERO, None);
        }
        "checkpoint" => {
            let _ = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        _ => {}
    }
}

fn client(path: &Path, manner: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .env(CLIENT, path)
        .env(MANNER, manner)
        .spawn()
        .expect("the client starts")
}

/// Process that writes, with the pipes for steps and answers.
struct Writer {
    process: Child,
    steps: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    fn start(path: &Path) -> Writer {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(STEPS, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the writer starts");
        let steps = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        Writer {
            process,
            steps,
            answers,
        }
    }

    /// Number of frames in the store after this step.
    fn step(&mut self, step: &str) -> u64 {
        writeln!(self.steps, "{step}").unwrap();
        let answer = self.answers.next().expect("the writer answers").unwrap();
        answer.parse().unwrap()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Last second of a store, which is that of its last frame.
fn last_second(path: &Path) -> u64 {
    let frames = all(path);
    let last = frames.last().map_or(begin(), |frame| frame.end);
    last.duration_since(begin()).unwrap().as_secs()
}

pub fn clients_at_every_moment() {
    for manner in MANNERS {
        let folder = tempfile::tempdir().unwrap();
        for moments in 1..=LIFE.len() {
            let path = folder.path().join(format!("history-{moments}"));
            let mut writer = Writer::start(&path);
            let mut frames = 0;
            for step in &LIFE[..moments] {
                frames = writer.step(step);
                assert!(client(&path, manner).wait().unwrap().success());
            }
            writer.kill();
            let life = &LIFE[..moments];
            assert_eq!(
                last_second(&path),
                frames,
                "{manner} after each of {life:?}"
            );
        }
    }
    println!(
        "{} clients at {} moments: passed",
        MANNERS.len(),
        LIFE.len()
    );
}

/// Clients come and go all the time, also between the calls that create a store.
pub fn clients_while_it_is_made() {
    const ROUNDS: u64 = 10;
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let mut writer = Writer::start(&path);
        let mut clients: Vec<Child> = Vec::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                writer.step("open");
                writer.step("append 14")
            });
            while !writer.is_finished() {
                if path.exists() {
                    clients.push(client(&path, MANNERS[clients.len() % 2]));
                }
            }
            assert_eq!(writer.join().unwrap(), 14);
        });
        for mut client in clients {
            client.wait().unwrap();
        }
        assert!(client(&path, "open").wait().unwrap().success());
        writer.kill();
        assert_eq!(last_second(&path), 14, "round {round}");
    }
    println!("{ROUNDS} stores made among clients: passed");
}
