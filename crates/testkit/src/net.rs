//! Network namespaces, and what can be set in them.

use crate::command::spawn;
use crate::names::unique;
use crate::place::open;
use crate::run;
use cofferdam_lab::command::{output, run_argv, split};
use cofferdam_lab::{Process, UndoStack};
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// A network namespace in which commands can be run and devices set up.
pub trait Net {
    /// Name below `/run/netns`; `None` for the host's namespace.
    fn netns(&self) -> Option<&str>;

    /// Runs a command in the namespace and returns its output. `line` is split at blanks; use
    /// [`Net::sh`] where quotes or redirections are needed.
    #[track_caller]
    fn run(&self, line: &str) -> String {
        let mut command = split(line);
        enter_netns(&mut command, self.netns());
        match output(command, line, "") {
            Ok(out) => out,
            Err(e) => panic!("in namespace {}: {e}", self.netns().unwrap_or("host")),
        }
    }

    /// Runs a shell script with `/sys` showing the namespace's devices.
    #[track_caller]
    fn sh(&self, script: &str) -> String {
        match self.netns() {
            Some(name) => run(&["ip", "netns", "exec", name, "sh", "-ec", script]),
            None => run(&["sh", "-ec", script]),
        }
    }

    /// Starts a command in the namespace; it is ended when the returned guard is dropped.
    #[track_caller]
    fn spawn(&self, line: &str) -> Process {
        let mut command = split(line);
        enter_netns(&mut command, self.netns());
        spawn(command, line)
    }

    /// Brings a device up.
    #[track_caller]
    fn up(&self, device: &str) {
        self.run(&format!("ip link set {device} up"));
    }

    /// Adds an address such as `10.0.0.1/24` or `fd00::1/64`, usable at once (no duplicate
    /// address detection).
    #[track_caller]
    fn address(&self, device: &str, address: &str) {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        self.run(&format!("ip address add {address} dev {device}{nodad}"));
    }

    /// Adds a route, such as `default via 10.0.0.1`.
    #[track_caller]
    fn route(&self, route: &str) {
        let family = if route.contains(':') { "-6" } else { "-4" };
        self.run(&format!("ip {family} route add {route}"));
    }

    /// Lets the namespace forward IPv4 and IPv6.
    #[track_caller]
    fn forward(&self) {
        assert!(
            self.netns().is_some(),
            "the host's own forwarding is left alone"
        );
        self.sysctl("net/ipv4/ip_forward", "1");
        self.sysctl("net/ipv6/conf/all/forwarding", "1");
    }

    /// Sets a network sysctl of the namespace, such as `net/ipv4/ip_forward`.
    #[track_caller]
    fn sysctl(&self, key: &str, value: &str) {
        assert!(
            self.netns().is_some(),
            "the host's own settings are left alone"
        );
        self.sh(&format!("echo {value} > /proc/sys/{key}"));
    }

    /// Index of a device.
    #[track_caller]
    fn ifindex(&self, device: &str) -> u32 {
        let out = self.run(&format!("ip -o link show dev {device}"));
        match out.split(':').next().and_then(|n| n.trim().parse().ok()) {
            Some(index) => index,
            None => panic!("no index in `{}`", out.trim()),
        }
    }

    /// Turns offloads on or off, such as `("eth0", "gro", true)`; see `ethtool -K`.
    #[track_caller]
    fn offload(&self, device: &str, feature: &str, on: bool) {
        let on = if on { "on" } else { "off" };
        self.run(&format!("ethtool -K {device} {feature} {on}"));
    }

    /// Steers the receive work of a device to the CPUs in `mask` (RPS), as a NIC that
    /// interrupts those CPUs would; 0 turns it off.
    #[track_caller]
    fn steer(&self, device: &str, mask: u64) {
        self.sh(&format!(
            "for q in /sys/class/net/{device}/queues/rx-*; do echo {mask:x} > $q/rps_cpus; done"
        ));
    }

    /// Threaded NAPI on or off. A veth device has NAPI only with GRO on.
    #[track_caller]
    fn threaded(&self, device: &str, on: bool) {
        self.sh(&format!(
            "echo {} > /sys/class/net/{device}/threaded",
            u8::from(on)
        ));
    }

    /// Pings `address` until it answers, at most five times, a second each; panics then.
    /// (busybox's ping: the tests need busybox anyway.)
    #[track_caller]
    fn ping(&self, address: &str) {
        self.sh(&format!(
            "for i in 1 2 3 4 5; do busybox ping -q -c 1 -W 1 {address} && exit 0; done >&2; exit 1"
        ));
    }
}

/// The namespace of this process: the host's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

impl Net for Host {
    fn netns(&self) -> Option<&str> {
        None
    }
}

/// A named network namespace with loopback up; removed when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
    _undo: UndoStack,
}

impl Namespace {
    /// Makes `cf-PID-N-LABEL`.
    #[track_caller]
    pub fn new(label: &str) -> Namespace {
        let name = unique(label);
        run(&["ip", "netns", "add", &name]);
        let gone = name.clone();
        let mut undo = UndoStack::default();
        undo.push(format!("network namespace {name}"), move || {
            run_argv(&["ip", "netns", "delete", &gone])
        });
        let path = netns_path(&name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) => panic!("cannot open {}: {e}", path.display()),
        };
        let namespace = Namespace {
            name,
            file,
            _undo: undo,
        };
        namespace.up("lo");
        namespace
    }

    /// Its name, as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Inode number, as in `/proc/PID/ns/net`.
    #[track_caller]
    pub fn inode(&self) -> u64 {
        self.file
            .metadata()
            .expect("an open namespace has metadata")
            .ino()
    }

    pub(crate) fn path(&self) -> PathBuf {
        netns_path(&self.name)
    }

    /// Runs `body` on a new thread inside the namespace. Sockets it opens belong to the
    /// cgroup of this process; use [`crate::Spot::fork`] to be inside a container's.
    #[track_caller]
    pub fn thread<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let file = self
            .file
            .try_clone()
            .expect("an open namespace can be opened again");
        std::thread::spawn(move || {
            setns(&file, CloneFlags::CLONE_NEWNET).expect("root may enter its own namespace");
            body()
        })
    }
}

impl Net for Namespace {
    fn netns(&self) -> Option<&str> {
        Some(&self.name)
    }
}

pub(crate) fn netns_path(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

/// Makes `command` start inside the named namespace. `ip netns exec` would do, but it stays
/// between us and the program and changes its mounts.
#[track_caller]
fn enter_netns(command: &mut Command, netns: Option<&str>) {
    let Some(name) = netns else { return };
    open(Some(&netns_path(name)), &[]).pre_exec(command);
}
