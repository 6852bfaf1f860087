//! Journal on a full file system: a revert needs no free space, and a change that cannot be
//! recorded is not made.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

use cofferdam_enforce::RevertReport;
use cofferdam_enforce::journal::{Form, Journal};
use cofferdam_host::HostFs;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Size of the file system.
const ROOM_BYTES: usize = 1 << 20;
/// Value of each setting before the test.
const BEFORE: &str = "1024";
/// Value that the test writes.
const OURS: &str = "512";

/// Small tmpfs that only this thread sees; it ends with the thread.
struct Small {
    folder: tempfile::TempDir,
}

impl Small {
    fn new() -> Small {
        let folder = tempfile::tempdir().unwrap();
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        let size = format!("size={ROOM_BYTES}");
        let run = folder.path().join("run");
        mount(
            Some("tmpfs"),
            &run,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(size.as_str()),
        )
        .unwrap();
        Small { folder }
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Fills the file system to the last byte.
    fn fill(&self) {
        let mut file = File::create(self.run().join("filler")).unwrap();
        for bytes in [4096, 1] {
            let block = vec![1u8; bytes];
            while file.write_all(&block).is_ok() {}
        }
        let full = fs::write(self.run().join("more"), b"x").unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        fs::remove_file(self.run().join("more")).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.run().join("filler")).unwrap();
    }

    fn open(&self) -> (Journal, RevertReport) {
        Journal::open_on(HostFs::below(self.folder.path()), &self.run()).unwrap()
    }

    /// Creates a setting outside of the file system.
    fn setting(&self, name: &str) -> PathBuf {
        let cgroup = self.folder.path().join("sys/fs/cgroup").join(name);
        fs::create_dir_all(&cgroup).unwrap();
        let path = cgroup.join("cpu.shares");
        fs::write(&path, BEFORE).unwrap();
        path
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Runs `body` in a thread of its own, and so with mounts of its own.
fn alone(body: fn(Small)) {
    std::thread::spawn(move || body(Small::new()))
        .join()
        .unwrap();
}

/// Promise 65.
#[test]
fn a_revert_needs_no_free_space() {
    alone(|small| {
        let settings: Vec<PathBuf> = (0..20).map(|i| small.setting(&i.to_string())).collect();
        let (mut journal, _) = small.open();
        for setting in &settings {
            journal.set_file(setting, Form::Text, OURS).unwrap();
        }
        drop(journal);
        small.fill();
        let (_, report) = small.open();
        assert_eq!(
            (report.reverted, report.is_clean()),
            (20, true),
            "{report:?}"
        );
        assert!(settings.iter().all(|setting| text(setting) == BEFORE));
        assert!(!small.run().join("journal").exists());
    });
}

/// Promise 65.
#[test]
fn nothing_is_changed_while_the_disk_is_full() {
    alone(|small| {
        let setting = small.setting("a");
        small.fill();
        let (mut journal, report) = small.open();
        assert_eq!(report, RevertReport::default());
        for _ in 0..3 {
            let error = journal.set_file(&setting, Form::Text, OURS).unwrap_err();
            assert_eq!(
                error.source.kind(),
                std::io::ErrorKind::StorageFull,
                "{error}"
            );
            assert!(error.to_string().contains("free some space"), "{error}");
            assert_eq!(text(&setting), BEFORE);
        }
        assert_eq!((journal.in_force(), journal.failed_changes()), (0, 3));
        small.make_room();
        journal.set_file(&setting, Form::Text, OURS).unwrap();
        assert_eq!(text(&setting), OURS);
        drop(journal);
        assert_eq!(small.open().1.reverted, 1);
        assert_eq!(text(&setting), BEFORE);
    });
}

/// With the spare file, a value that changes all the time needs no more space than at the start.
/// Promise 65.
#[test]
fn changes_in_force_survive_a_full_disk() {
    alone(|small| {
        let (mut journal, _) = small.open();
        let first = small.setting("first");
        journal.set_file(&first, Form::Text, OURS).unwrap();
        small.fill();
        for i in 0..5_000 {
            journal
                .set_file(&first, Form::Text, &i.to_string())
                .unwrap();
        }
        // Further changes fit as long as the file has space; none is made halfway.
        let mut changed = Vec::new();
        let refused = loop {
            let setting = small.setting(&format!("further-{}", changed.len()));
            match journal.set_file(&setting, Form::Text, OURS) {
                Ok(_) => changed.push(setting),
                Err(_) => break setting,
            }
        };
        assert!(changed.len() > 100, "{}", changed.len());
        assert_eq!(text(&refused), BEFORE);
        drop(journal);
        let (_, report) = small.open();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        assert_eq!(report.reverted, 1 + changed.len() as u64);
        assert!(changed.iter().chain([&first]).all(|s| text(s) == BEFORE));
    });
}

/// Promise 65.
#[test]
fn a_damaged_journal_is_saved_without_free_space() {
    alone(|small| {
        let (a, b) = (small.setting("a"), small.setting("b"));
        let (mut journal, _) = small.open();
        journal.set_file(&a, Form::Text, OURS).unwrap();
        journal.set_file(&b, Form::Text, OURS).unwrap();
        drop(journal);
        let path = small.run().join("journal");
        let mut bytes = fs::read(&path).unwrap();
        let lines: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i] == b'\n').collect();
        bytes[lines[0] + 30] ^= 1;
        fs::write(&path, &bytes).unwrap();
        small.fill();
        let (journal, report) = small.open();
        assert_eq!((report.reverted, report.damage.len()), (1, 1), "{report:?}");
        assert_eq!((text(&a).as_str(), text(&b).as_str()), (OURS, BEFORE));
        drop(journal);
        assert_eq!(
            fs::read(path.with_extension("unreadable-1")).unwrap(),
            bytes
        );
        assert!(small.open().1.is_clean(), "told once");
    });
}
