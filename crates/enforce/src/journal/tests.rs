use super::*;
use std::path::PathBuf;

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Creates a file of the host's cgroupfs.
    fn file(&self, name: &str, value: &str) -> PathBuf {
        let path = self.cgroupfs().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, value).unwrap();
        path
    }

    fn cgroupfs(&self) -> PathBuf {
        self.folder.path().join("sys/fs/cgroup")
    }

    fn host(&self) -> HostFs {
        HostFs::below(self.folder.path())
    }

    fn open(&self) -> (Journal, RevertReport) {
        Journal::open_on(self.host(), &self.run()).unwrap()
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[test]
fn revert_restores_the_first_values_in_reverse_order() {
    let scene = Scene::new();
    let (a, b) = (
        scene.file("a/cpu.shares", "1024\n"),
        scene.file("b/cpu.weight", "1\n"),
    );
    let (mut journal, _) = scene.open();
    for value in ["512", "300", "2"] {
        assert_eq!(
            journal.set_file(&a, Form::Text, value).unwrap(),
            WriteOutcome::Changed
        );
    }
    assert_eq!(
        journal.set_file(&a, Form::Text, "2").unwrap(),
        WriteOutcome::Same
    );
    journal.set_file(&b, Form::Text, "9").unwrap();
    assert_eq!(journal.in_force(), 2);
    let report = journal.revert_all();
    assert_eq!((report.reverted, report.is_clean()), (2, true));
    assert_eq!((text(&a), text(&b)), ("1024".into(), "1".into()));
    assert_eq!(journal.revert_all(), RevertReport::default());
}

#[test]
fn the_next_process_reverts_a_killed_ones_changes() {
    let scene = Scene::new();
    let a = scene.file("a/cpu.shares", "1024\n");
    let (mut journal, _) = scene.open();
    journal.set_file(&a, Form::Text, "512").unwrap();
    drop(journal); // as kill -9: nothing is reverted
    assert_eq!(text(&a), "512");
    let (_, report) = scene.open();
    assert_eq!((report.reverted, text(&a)), (1, "1024".into()));
    let (_, report) = scene.open();
    assert_eq!(report, RevertReport::default());
}

/// Promise 64.
#[test]
fn later_values_of_another_program_stay() {
    let scene = Scene::new();
    let a = scene.file("a/cpuset.cpus", "0-1\n");
    let (mut journal, _) = scene.open();
    journal.set_file(&a, Form::CpuList, "1").unwrap();
    fs::write(&a, "0\n").unwrap();
    let report = journal.revert_all();
    assert_eq!(report.foreign.len(), 1, "{report:?}");
    assert_eq!(text(&a), "0");
}

/// Promise 64.
#[test]
fn a_rewritten_value_is_the_one_to_revert_to() {
    let scene = Scene::new();
    let a = scene.file("a/cpuset.cpus", "0-3\n");
    let (mut journal, _) = scene.open();
    journal.set_file(&a, Form::CpuList, "1").unwrap();
    fs::write(&a, "0,2\n").unwrap();
    assert_eq!(
        journal.set_file(&a, Form::CpuList, "1").unwrap(),
        WriteOutcome::AfterRewrite("0,2".into())
    );
    assert_eq!(text(&a), "1");
    drop(journal);
    scene.open();
    assert_eq!(text(&a), "0,2");
}

/// The runtime writes the list that it knows, which is the former one.
#[test]
fn a_rewrite_to_the_value_before_is_noticed_too() {
    let scene = Scene::new();
    let a = scene.file("a/cpuset.cpus", "0-3\n");
    let (mut journal, _) = scene.open();
    journal.set_file(&a, Form::CpuList, "1").unwrap();
    fs::write(&a, "0-3\n").unwrap();
    assert_eq!(
        journal.set_file(&a, Form::CpuList, "1").unwrap(),
        WriteOutcome::AfterRewrite("0-3".into())
    );
    assert_eq!(text(&a), "1");
}

/// The weight had this value of ours for a while. A program that writes it after another value of
/// its own means it.
/// Promise 64.
#[test]
fn a_rewrite_to_our_former_value_stays() {
    for crashed in [false, true] {
        let scene = Scene::new();
        let a = scene.file("a/cpu.weight", "100\n");
        let (mut journal, _) = scene.open();
        for ours in ["97", "100"] {
            journal.set_file(&a, Form::Text, ours).unwrap();
        }
        fs::write(&a, "1\n").unwrap();
        let found = journal.set_file(&a, Form::Text, "1").unwrap();
        assert_eq!(found, WriteOutcome::AfterRewrite("1".into()));
        fs::write(&a, "100\n").unwrap();
        if crashed {
            drop(journal);
            scene.open();
        } else {
            journal.revert_all();
        }
        assert_eq!(text(&a), "100", "crashed: {crashed}");
    }
}

#[test]
fn a_recreated_object_is_another_one() {
    let scene = Scene::new();
    let a = scene.file("a/cpu.shares", "1024\n");
    let (mut journal, _) = scene.open();
    journal.set_file(&a, Form::Text, "512").unwrap();
    fs::rename(a.parent().unwrap(), scene.cgroupfs().join("old")).unwrap();
    let a = scene.file("a/cpu.shares", "512\n");
    let report = journal.revert_all();
    assert_eq!((report.vanished, report.reverted), (1, 0));
    assert_eq!(text(&a), "512");
}

#[test]
fn a_refused_write_leaves_nothing_in_the_journal() {
    let scene = Scene::new();
    scene.file("a/x", "");
    let (mut journal, _) = scene.open();
    let missing = scene.cgroupfs().join("a/cpu.weight");
    let error = journal.set_file(&missing, Form::Text, "1").unwrap_err();
    assert!(error.vanished(), "{error}");
    assert_eq!((journal.in_force(), journal.failed_changes()), (0, 0));
}

#[test]
fn only_our_own_directories_are_removed() {
    let scene = Scene::new();
    let [ours, foreign] = ["a", "b"].map(|name| scene.cgroupfs().join(name).join(NAPI_CGROUP));
    fs::create_dir_all(ours.parent().unwrap()).unwrap();
    let (mut journal, _) = scene.open();
    journal.make_directory(&ours).unwrap();
    assert!(ours.is_dir());
    fs::create_dir_all(&foreign).unwrap();
    let error = journal.make_directory(&foreign).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::AlreadyExists);
    drop(journal);
    let (_, report) = scene.open();
    assert_eq!(report.reverted, 1);
    assert!(!ours.exists() && foreign.exists());
}

/// Promise 66.
#[test]
fn only_one_process_at_a_time() {
    let scene = Scene::new();
    let first = scene.open();
    let error = Journal::open_on(scene.host(), &scene.run()).unwrap_err();
    assert!(matches!(error, JournalError::Locked(_)), "{error}");
    drop(first);
    scene.open();
}

/// Three changes in force, as a killed process leaves them. Returns their files.
fn left_in_force(scene: &Scene) -> Vec<PathBuf> {
    let (mut journal, _) = scene.open();
    let files: Vec<PathBuf> = (0..3)
        .map(|i| scene.file(&format!("{i}/cpu.shares"), "1024\n"))
        .collect();
    for file in &files {
        journal.set_file(file, Form::Text, "512").unwrap();
    }
    files
}

/// Promise 65.
#[test]
fn a_cut_journal_is_reverted_and_the_loss_reported() {
    let scene = Scene::new();
    let files = left_in_force(&scene);
    let path = scene.run().join("journal");
    let whole = fs::read(&path).unwrap();
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for end in 0..=written + 1 {
        for file in &files {
            fs::write(file, "512\n").unwrap();
        }
        fs::create_dir_all(scene.run()).unwrap();
        fs::write(&path, &whole[..end]).unwrap();
        let (journal, report) = scene.open();
        assert!(
            !report.is_clean() && report.failed.is_empty(),
            "{end}: {report:?}"
        );
        let back = files.iter().filter(|file| text(file) == "1024").count() as u64;
        assert_eq!(report.reverted, back);
        assert_eq!(back == 3, end >= written, "{end}");
        drop(journal);
        let saved = scene.run().join("journal.unreadable-1");
        assert_eq!(fs::read(&saved).unwrap(), &whole[..end]);
        fs::remove_file(saved).unwrap();
        assert_eq!(scene.open().1, RevertReport::default(), "reported once");
    }
}

/// Promise 65.
#[test]
fn a_flipped_bit_costs_at_most_one_change() {
    let scene = Scene::new();
    let files = left_in_force(&scene);
    let path = scene.run().join("journal");
    let whole = fs::read(&path).unwrap();
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for at in 0..written {
        for file in &files {
            fs::write(file, "512\n").unwrap();
        }
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::create_dir_all(scene.run()).unwrap();
        fs::write(&path, &flipped).unwrap();
        let (_, report) = scene.open();
        let back = files.iter().filter(|file| text(file) == "1024").count();
        assert!(
            back == 3 || (back == 2 && !report.is_clean()),
            "{at}: {report:?}"
        );
        let _ = fs::remove_file(scene.run().join("journal.unreadable-1"));
    }
}
