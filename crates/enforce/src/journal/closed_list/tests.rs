use super::super::records::{Record, encode};
use super::super::{DeviceId, Journal, RevertReport, ThreadId};
use super::*;
use cofferdam_types::{IfIndex, NetnsId};
use proptest::prelude::*;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

const BEFORE: &str = "forged";

/// Host with one cgroup whose weight was lowered by a killed agent, and a file outside of the
/// kernel's file systems.
struct Host {
    root: tempfile::TempDir,
}

impl Host {
    fn new() -> Host {
        let host = Host {
            root: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(host.at("sys/fs/cgroup/web")).unwrap();
        fs::create_dir(host.at("etc")).unwrap();
        fs::write(host.at("etc/victim"), "original").unwrap();
        fs::write(host.at("sys/fs/cgroup/web/cpu.shares"), "512").unwrap();
        host
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn open(&self) -> (Journal, RevertReport) {
        Journal::open_on(HostFs::below(self.root.path()), &self.at("run")).unwrap()
    }

    /// Writes a journal with the killed agent's change and the `forged` changes.
    fn forge(&self, forged: &[Change]) {
        let honest = file(
            &self.at("sys/fs/cgroup/web/cpu.shares"),
            Form::Text,
            "1024",
            "512",
        );
        let boot = super::super::boot();
        let mut bytes = encode(&Record::Begin {
            boot,
            file_bytes: 0,
        })
        .unwrap();
        for (id, change) in (1..).zip(forged.iter().chain([&honest])) {
            bytes.extend(encode(&Record::Change(id, change.clone())).unwrap());
        }
        fs::create_dir_all(self.at("run")).unwrap();
        fs::write(self.at("run/journal"), bytes).unwrap();
    }
}

fn change(target: Target, form: Form, before: &str, ours: &str) -> Change {
    Change {
        target,
        form,
        before: before.to_owned(),
        ours: vec![ours.to_owned()],
    }
}

fn file(path: &Path, form: Form, before: &str, ours: &str) -> Change {
    let directory_inode = path.parent().map_or(0, |parent| {
        fs::metadata(parent).map_or(0, |metadata| metadata.ino())
    });
    let target = Target::File {
        path: path.to_owned(),
        directory_inode,
    };
    change(target, form, before, ours)
}

fn device() -> DeviceId {
    DeviceId {
        netns: NetnsId(1),
        netns_cookie: None,
        ifindex: IfIndex(1),
    }
}

/// Changes on `host` that no agent makes.
fn hostile(host: &Host) -> Vec<Change> {
    let cgroup = "sys/fs/cgroup/web";
    symlink(host.at("etc"), host.at("sys/fs/cgroup/link")).unwrap();
    fs::write(host.at("etc/cpu.shares"), "512").unwrap();
    fs::create_dir(host.at("etc/cofferdam.napi")).unwrap();
    fs::create_dir(host.at("sys/fs/cgroup/web/theirs")).unwrap();
    fs::write(host.at("sys/fs/cgroup/web/cgroup.procs"), "512").unwrap();
    fs::write(host.at("sys/fs/cgroup/web/cpu.weight"), "512").unwrap();
    let text = |path: &str| file(&host.at(path), Form::Text, BEFORE, "512");
    let number = |path: &str| file(&host.at(path), Form::Text, "7", "512");
    let directory = |path: &str| {
        let path = host.at(path);
        let parent_inode = fs::metadata(path.parent().unwrap()).unwrap().ino();
        let target = Target::Directory { path, parent_inode };
        change(target, Form::Text, ABSENT, PRESENT)
    };
    let in_device = |file: &str| {
        let target = Target::DeviceFile {
            device: device(),
            file: file.into(),
        };
        change(target, Form::Text, "0", "1")
    };
    let own = ThreadId::of(std::process::id()).unwrap();
    let in_cgroup = |before: &str| {
        let mount = host.at("sys/fs/cgroup");
        let target = Target::ThreadCgroup { thread: own, mount };
        change(target, Form::Text, before, "/")
    };
    let feature = Target::Feature {
        device: device(),
        name: "rx-checksum".to_owned(),
    };
    vec![
        file(&host.at("etc/victim"), Form::Text, BEFORE, "original"),
        number("etc/cpu.shares"),
        number("sys/fs/cgroup/link/cpu.shares"),
        number("sys/fs/cgroup/web/../../../../etc/cpu.shares"),
        number("sys/fs/cgroup/web/./cpu.weight"),
        number("sys/fs/cgroup/web/cgroup.procs"),
        number("proc/irq/../sysrq-trigger"),
        text("sys/fs/cgroup/web/cpu.weight"),
        file(
            &host.at(cgroup).join("cpu.weight"),
            Form::CpuList,
            "7",
            "512",
        ),
        file(
            &host.at(cgroup).join("cpu.weight"),
            Form::Text,
            "7\n8",
            "512",
        ),
        file(
            &host.at(cgroup).join("cpuset.cpus"),
            Form::CpuList,
            &"0,".repeat(MOST_VALUE_BYTES),
            "1",
        ),
        file(Path::new("relative/cpu.shares"), Form::Text, "7", "512"),
        directory("etc/cofferdam.napi"),
        directory("sys/fs/cgroup/web/theirs"),
        in_device("../../../../etc/passwd"),
        in_device("ifalias"),
        change(feature, Form::Text, "on", "off"),
        change(Target::ThreadCpus(own), Form::CpuList, "0", "0-1"),
        in_cgroup("/"),
        in_cgroup("/../../etc"),
    ]
}

/// Promise 64.
#[test]
fn a_forged_change_is_refused_by_name() {
    let host = Host::new();
    let forged = hostile(&host);
    for one in &forged {
        host.forge(std::slice::from_ref(one));
        let (journal, report) = host.open();
        assert_eq!((report.reverted, report.damage.len()), (1, 1), "{one:?}");
        assert!(report.damage[0].contains("never makes"), "{report:?}");
        assert_eq!(host.read("sys/fs/cgroup/web/cpu.shares"), "1024");
        drop(journal);
        fs::remove_file(host.at("run/journal.unreadable-1")).unwrap();
        fs::write(host.at("sys/fs/cgroup/web/cpu.shares"), "512").unwrap();
    }
    host.forge(&forged);
    let (journal, report) = host.open();
    let named = report.damage.iter().filter(|line| line.contains("never"));
    let targets: HashSet<&Target> = forged.iter().map(|change| &change.target).collect();
    assert_eq!(named.count(), targets.len(), "{report:?}");
    assert_eq!(report.reverted, 1);
    assert_eq!(host.read("etc/victim"), "original");
    assert_eq!(host.read("etc/cpu.shares"), "512");
    assert_eq!(host.read("sys/fs/cgroup/web/cpu.weight"), "512");
    assert!(host.at("etc/cofferdam.napi").is_dir());
    drop(journal);
    assert_eq!(host.open().1, RevertReport::default(), "reported once");
}

/// Promise 64.
#[test]
fn a_refused_change_cannot_steer_a_terminal() {
    let host = Host::new();
    let name = format!("/etc/\u{1b}[2J\u{202e}{}", "x".repeat(5_000));
    host.forge(&[file(Path::new(&name), Form::Text, "1", "2")]);
    let (_, report) = host.open();
    let line = &report.damage[0];
    assert!(!line.contains(['\u{1b}', '\u{202e}', '\n']), "{line}");
    assert!(line.len() < 1_000, "{}", line.len());
}

/// Promise 64.
#[test]
fn many_forged_changes_are_named_up_to_a_limit() {
    let host = Host::new();
    let forged: Vec<Change> = (0..500)
        .map(|i| file(&host.at(&format!("etc/{i}")), Form::Text, "1", "2"))
        .collect();
    host.forge(&forged);
    let (_, report) = host.open();
    assert_eq!(report.damage.len(), super::super::MOST_REFUSED + 1);
    let last = report.damage.last().unwrap();
    assert!(last.starts_with("480 more"), "{last}");
}

/// Promise 64.
#[test]
fn a_change_that_is_not_listed_is_not_made() {
    let host = Host::new();
    let (mut journal, _) = host.open();
    let path = host.at("etc/victim");
    let error = journal.set_file(&path, Form::Text, "1").unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput, "{error}");
    assert_eq!(
        (host.read("etc/victim"), journal.in_force()),
        ("original".into(), 0)
    );
}

/// Expected reason of a refusal, and the tampering with the file that causes it.
type Tampering = (&'static str, fn(&Path));

/// Promise 64.
#[test]
fn a_journal_of_another_user_is_not_read() {
    let host = Host::new();
    let path = host.at("run/journal");
    let whys: [Tampering; 4] = [
        ("symbolic link", |path| {
            let moved = path.with_extension("moved");
            fs::rename(path, &moved).unwrap();
            symlink(&moved, path).unwrap();
        }),
        ("belongs to user 1234", |path| {
            chown(path, Some(1234), None).unwrap()
        }),
        ("written by other users", |path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o662)).unwrap();
        }),
        ("no ordinary file", |path| {
            fs::remove_file(path).unwrap();
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        }),
    ];
    for (why, tamper) in whys {
        host.forge(&[]);
        tamper(&path);
        let opened = Journal::open_on(HostFs::below(host.root.path()), &host.at("run"));
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(host.read("sys/fs/cgroup/web/cpu.shares"), "512");
        fs::remove_file(&path).unwrap();
    }
}

proptest! {
    /// Any accepted path is one of our files, below the kernel's directories.
    /// Promise 64.
    #[test]
    fn no_path_outside_the_kernels_directories_passes(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("sys"), Just("fs"), Just("cgroup"), Just("proc"), Just("irq"), Just(".."),
                Just("."), Just(""), Just("web"), Just("link"), Just("etc"), Just("7"),
                Just("cpu.shares"), Just("smp_affinity_list"), Just("rps_cpus"),
            ],
            0..9,
        )
    ) {
        let host = Host::new();
        symlink(host.at("etc"), host.at("sys/fs/cgroup/link")).unwrap();
        let path = host.at(&parts.join("/"));
        let fs = HostFs::below(host.root.path());
        for (form, value) in [(Form::Text, "7"), (Form::CpuList, "0")] {
            if check_listed(&fs, &file(&path, form, value, value)).is_ok() {
                prop_assert!(!parts.contains(&"..") && !parts.contains(&"."), "{path:?}");
                // Nothing is written in a directory that does not exist.
                if let Ok(real) = path.parent().unwrap().canonicalize() {
                    let kernels = ["sys/fs/cgroup", "proc"].map(|directory| host.at(directory));
                    let is_kernels = kernels.iter().any(|directory| real.starts_with(directory));
                    prop_assert!(is_kernels, "{path:?}");
                }
            }
        }
    }
}
