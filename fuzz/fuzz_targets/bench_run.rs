//! Run directory from elsewhere: it is loaded and rendered, or refused, without a panic.
//!
//! The input is the four files, each ended by a NUL byte.
#![no_main]

use cofferdam_bench::report;
use cofferdam_bench::run::RunData;
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

const FILES: [&str; 4] = [
    "manifest.json",
    "samples.jsonl",
    "ledger.jsonl",
    "result.json",
];

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = tempfile::Builder::new()
        .prefix("cf-fuzz-")
        .tempdir_in("/dev/shm");
    folder.expect("/dev/shm takes a folder").keep()
});

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(FILES.len(), |b| *b == 0);
    for name in FILES {
        let path = FOLDER.join(name);
        match parts.next() {
            Some(part) => fs::write(path, part).expect("the folder is ours"),
            None => drop(fs::remove_file(path)),
        }
    }
    if let Ok(run) = RunData::load(&FOLDER) {
        let _ = report::html(&run);
    }
});
