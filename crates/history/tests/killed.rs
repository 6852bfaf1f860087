//! Test of a writer that is killed while it appends. Its committed frames are stored exactly once,
//! and the next writer continues, whatever other programs did with the files. The writer is this
//! program again, so it has no test harness.
#![allow(clippy::unwrap_used)]

mod moments;
mod synthetic;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use synthetic::{all, append, begin, host_traffic_ns, open};

const WRITER: &str = "COFFERDAM_TEST_WRITER";
const KILLS: u64 = 40;

fn main() {
    if moments::is_role() {
        return;
    }
    match std::env::var_os(WRITER) {
        Some(path) => write(Path::new(&path)),
        None => {
            killed_in_a_loop();
            moments::clients_at_every_moment();
            moments::clients_while_it_is_made();
        }
    }
}

/// Appends frames for ever, and prints each one that is stored.
fn write(path: &Path) {
    let done = all(path).len() as u64;
    let mut store = open(path);
    let mut out = std::io::stdout();
    for second in done.. {
        append(&mut store, second..second + 1);
        if writeln!(out, "{}", second + 1).is_err() {
            return;
        }
    }
}

fn killed_in_a_loop() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    drop(open(&path));
    let mut committed = 0;
    for kill in 0..KILLS {
        let mut writer = Command::new(std::env::current_exe().expect("this program"))
            .env(WRITER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the writer starts");
        let mut lines = BufReader::new(writer.stdout.take().expect("it is piped")).lines();
        // Kill it within and between frames, after a few or many.
        for _ in 0..kill * kill % 67 + 1 {
            let line = lines.next().expect("it appends").expect("it says so");
            committed = line.parse().expect("a number");
        }
        std::thread::sleep(Duration::from_micros(kill * 137 % 1500));
        writer.kill().expect("it is killed");
        writer.wait().expect("it ends");
        // The writer may have stored more frames than it printed.
        let printed = lines.map_while(Result::ok).filter_map(|l| l.parse().ok());
        committed = printed.last().unwrap_or(committed);
        let frames = all(&path);
        let seconds = frames.len() as u64;
        assert!(
            seconds == committed || seconds == committed + 1,
            "{committed} frames were committed, {seconds} are there"
        );
        for (second, frame) in frames.iter().enumerate() {
            let mut written = synthetic::frame(
                begin() + Duration::from_secs(second as u64 + 1),
                2,
                second as u64,
            );
            written.resolution = frame.resolution;
            assert!(*frame == written, "second {second} is another");
        }
        assert_eq!(host_traffic_ns(&frames), (1..=seconds).sum::<u64>());
    }
    // Incomplete sums are right as well.
    let frames = all(&path);
    let mut reader = cofferdam_history::Reader::open(&path).expect("it opens");
    let end = begin() + Duration::from_secs(frames.len() as u64);
    let sums = reader.frames(begin(), end, frames.len() / 5).expect("read");
    assert_eq!(host_traffic_ns(&sums), host_traffic_ns(&frames));
    assert!(frames.len() < 3600, "seconds are kept for an hour");
    println!("{KILLS} kills, {} frames: 1 passed, 0 failed", frames.len());
}
