//! Real containers, by podman and runc.

use crate::names::unique;
use crate::net::Net;
use crate::place::{Place, open};
use crate::{must, run, try_run};
use cofferdam_lab::UndoStack;
use cofferdam_lab::cgroup::{Membership, layout};
use cofferdam_lab::place::Spot;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Which network a podman container gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A namespace with loopback only.
    None,
    /// podman's own bridge on the host. The firewall chains that podman leaves behind are
    /// removed, unless they were there before. Send no traffic through it: prefer `None` and
    /// a [`crate::Router`].
    Bridge,
    /// The host's.
    Host,
}

/// A running container; removed when dropped, with its image when this fixture made it.
pub struct PodmanContainer {
    name: String,
    id: String,
    pid: u32,
    netns: Option<String>,
    // Dropped in this order.
    _netns: Option<UndoStack>,
    _container: UndoStack,
    _image: UndoStack,
    _firewall: Option<UndoStack>,
}

impl PodmanContainer {
    /// Runs `sleep` in a container named `cf-PID-N-LABEL`.
    #[track_caller]
    pub fn new(label: &str, network: Network) -> PodmanContainer {
        let (name, image) = (unique(label), unique("image"));
        let firewall = (network == Network::Bridge).then(forget_firewall).flatten();
        let shared = network == Network::Host;
        let network = match network {
            Network::None => "none",
            Network::Bridge => "bridge",
            Network::Host => "host",
        };
        let image_undo = import_busybox(&image);
        let gone = name.clone();
        let mut undo = UndoStack::default();
        undo.push(format!("container {name}"), move || {
            try_run(&["podman", "rm", "--force", "--ignore", "--time", "0", &gone])
        });
        run(&[
            "podman",
            "--runtime",
            "runc",
            "run",
            "--detach",
            "--name",
            &name,
            // podman's own defaults ask for more than a root without CAP_SYS_RESOURCE has.
            "--ulimit",
            "nofile=20000:20000",
            "--ulimit",
            "nproc=10000:10000",
            "--network",
            network,
            &image,
            "/bin/busybox",
            "sleep",
            "1000000",
        ]);
        let shown = run(&[
            "podman",
            "inspect",
            "--format",
            "{{.Id}} {{.State.Pid}}",
            &name,
        ]);
        let (id, pid) = shown
            .trim()
            .split_once(' ')
            .expect("podman shows id and pid");
        let pid: u32 = pid.parse().expect("podman shows a process id");
        // A name for the namespace that podman made, so that devices can be moved into it.
        let netns = (!shared).then(|| {
            run(&["ip", "netns", "attach", &name, &pid.to_string()]);
            name.clone()
        });
        let netns_undo = netns.clone().map(|gone| {
            let mut undo = UndoStack::default();
            undo.push(format!("network namespace {gone}"), move || {
                try_run(&["ip", "netns", "delete", &gone])
            });
            undo
        });
        PodmanContainer {
            name,
            id: id.to_owned(),
            pid,
            netns,
            _netns: netns_undo,
            _container: undo,
            _image: image_undo,
            _firewall: firewall,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runtime's full id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its first process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Inode number of its network namespace.
    #[track_caller]
    pub fn netns_inode(&self) -> u64 {
        let path = format!("/proc/{}/ns/net", self.pid);
        fs::metadata(path)
            .expect("the container's first process lives")
            .ino()
    }

    /// Its cgroup below the v2 mount.
    #[track_caller]
    pub fn cgroup_path(&self) -> PathBuf {
        must(Membership::of(&must(layout()), self.pid)).path()
    }

    /// Runs a busybox command inside it.
    #[track_caller]
    pub fn exec(&self, line: &str) -> String {
        let mut argv = vec![
            "podman",
            "--runtime",
            "runc",
            "exec",
            &self.name,
            "/bin/busybox",
        ];
        argv.extend(line.split_whitespace());
        run(&argv)
    }
}

/// With [`Network::Host`] this is the host's namespace.
impl Net for PodmanContainer {
    fn netns(&self) -> Option<&str> {
        self.netns.as_deref()
    }
}

/// In the container's network namespace and in its cgroup in every tree, not in its other
/// namespaces: the program may be any of the host's.
impl Place for PodmanContainer {
    fn spot(&self) -> Spot {
        let netns = format!("/proc/{}/ns/net", self.pid);
        let layout = must(layout());
        let v1: Vec<&str> = layout.v1_mounts.keys().map(String::as_str).collect();
        let cgroups = must(Membership::of(&layout, self.pid)).dirs(&v1);
        open(Some(Path::new(&netns)), &cgroups)
    }
}

/// Removes podman's firewall chains later, if there are none now: it leaves them, empty, when
/// its last container goes.
fn forget_firewall() -> Option<UndoStack> {
    let rules = |table| try_run(&["iptables", "-t", table, "-S"]).unwrap_or_default();
    if rules("filter").contains("NETAVARK") || rules("nat").contains("NETAVARK") {
        return None;
    }
    let mut undo = UndoStack::default();
    undo.push("podman's firewall chains", move || {
        for table in ["filter", "nat"] {
            let listed = rules(table);
            let ours = listed.lines().filter(|l| l.contains("NETAVARK"));
            let (chains, jumps): (Vec<&str>, Vec<&str>) = ours.partition(|l| l.starts_with("-N "));
            // Rules first, then the chains that they jump to. The words of a comment are in
            // quotes, so a shell splits them.
            let delete = jumps.iter().map(|l| l.replacen("-A ", "-D ", 1));
            let remove = chains.iter().map(|l| l.replacen("-N ", "-X ", 1));
            for line in delete.chain(remove) {
                let _ = try_run(&["sh", "-c", &format!("iptables -t {table} {line}")]);
            }
        }
        Ok::<_, String>(())
    });
    Some(undo)
}

/// Imports a root file system with nothing but busybox. One image a container, so that each
/// fixture removes only what it made; 2 MB, a fraction of a second.
#[track_caller]
fn import_busybox(image: &str) -> UndoStack {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .find(|p| Path::new(p).exists());
    let busybox = busybox.expect("busybox is missing: install the package busybox-static");
    let script = "d=$(mktemp -d) && mkdir -p $d/bin $d/proc $d/sys $d/dev $d/etc $d/tmp \
                  && cp \"$0\" $d/bin/busybox && tar -C $d -c . ; s=$?; rm -r \"$d\"; exit $s";
    let tar = Command::new("sh").args(["-c", script, busybox]).output();
    let tar = tar.expect("sh runs");
    assert!(
        tar.status.success(),
        "tar failed: {}",
        String::from_utf8_lossy(&tar.stderr)
    );
    let gone = image.to_owned();
    let mut undo = UndoStack::default();
    undo.push(format!("image {image}"), move || {
        try_run(&["podman", "rmi", "--force", &gone])
    });
    let mut import = Command::new("podman")
        .args(["import", "--quiet", "-", image])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("podman is missing: install the packages podman and runc");
    let written = import
        .stdin
        .take()
        .expect("its standard input is a pipe")
        .write_all(&tar.stdout);
    let status = import.wait().expect("podman was started by us");
    assert!(
        status.success() && written.is_ok(),
        "podman import failed: {status}"
    );
    undo
}
