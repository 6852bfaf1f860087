//! Real cgroups, namespaces and processes that clean up after themselves, also on panic.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

use cofferdam_host::{CgroupLayout, HostFs};
use cofferdam_types::{CgroupId, KernelEvent, NetnsId};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A name that no other test and no other run has; short enough for a network device.
pub fn unique(stem: &str) -> String {
    format!(
        "cf{}{stem}{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// Runs a test body that must end within `limit`.
pub fn within(limit: Duration, body: impl FnOnce() + Send + 'static) {
    let (done, end) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match end.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test took longer than {limit:?}"),
        _ => thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Asks again until `probe` answers; for what another process does in its own time.
pub fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = probe() {
            return answer;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect(program);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn netns_of(pid: u32) -> NetnsId {
    HostFs::host().netns_of(pid).expect("a live process")
}

/// A v2 cgroup of our own.
pub struct Cgroup {
    pub path: PathBuf,
    pub directory: PathBuf,
}

impl Cgroup {
    pub fn new(path: impl Into<PathBuf>) -> Cgroup {
        let path = path.into();
        let layout = CgroupLayout::read(&HostFs::host()).unwrap();
        let directory = layout.v2_directory(&path);
        std::fs::create_dir(&directory).unwrap();
        Cgroup { path, directory }
    }

    pub fn id(&self) -> CgroupId {
        CgroupId(std::fs::metadata(&self.directory).unwrap().ino())
    }

    pub fn created(&self) -> KernelEvent {
        KernelEvent::CgroupCreated {
            cgroup: self.id(),
            path: self.path.clone(),
        }
    }

    pub fn seen(&self, pid: u32) -> KernelEvent {
        KernelEvent::ProcessSeen {
            cgroup: self.id(),
            netns: netns_of(pid),
            pid,
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The processes in it have just been killed, or are about to leave.
        for _ in 0..200 {
            if std::fs::remove_dir(&self.directory).is_ok() || !self.directory.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("left behind: {}", self.directory.display());
    }
}

/// A network namespace with a name.
pub struct Netns {
    pub name: String,
}

impl Netns {
    pub fn new(stem: &str) -> Netns {
        let name = unique(stem);
        run("ip", &["netns", "add", &name]);
        Netns { name }
    }

    pub fn file(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    pub fn id(&self) -> NetnsId {
        let inode = std::fs::metadata(self.file()).unwrap().ino();
        NetnsId(inode.try_into().unwrap())
    }

    pub fn ip(&self, arguments: &[&str]) -> String {
        run("ip", &[&["-n", &self.name], arguments].concat())
    }

    /// A veth pair: the returned name in the host's namespace, `inner` in this one.
    pub fn veth(&self, inner: &str) -> String {
        let host = unique("v");
        run(
            "ip",
            &[
                "link", "add", &host, "type", "veth", "peer", "name", inner, "netns", &self.name,
            ],
        );
        host
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // Takes the veth pairs with it.
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

/// A process that waits to be killed.
pub struct Sleeper(Child);

impl Sleeper {
    /// In a cgroup and, by `ip netns exec`, in a namespace; the host's when there is none.
    pub fn start(cgroup: &Cgroup, netns: Option<&Netns>) -> Sleeper {
        let procs = cgroup.directory.join("cgroup.procs");
        let enter = netns
            .map(|n| format!("ip netns exec {} ", n.name))
            .unwrap_or_default();
        let script = format!("echo $$ > {} && exec {enter}sleep 300", procs.display());
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let sleeper = Sleeper(child);
        let comm = format!("/proc/{}/comm", sleeper.pid());
        wait_for("sleep to start", || {
            (std::fs::read_to_string(&comm).ok()?.trim() == "sleep").then_some(())
        });
        sleeper
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn ifindex(device: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/sys/class/net/{device}/ifindex")).unwrap();
    text.trim().parse().unwrap()
}
