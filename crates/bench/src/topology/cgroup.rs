//! Cgroups of our own with equal CPU shares, on pure v2 and on hybrid hosts.

use super::Tenant;
use crate::data::{EVEN_SHARE_PCT, Limit};
use crate::error::BenchError;
use cofferdam_lab::UndoStack;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where this host has its cgroup hierarchies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The unified hierarchy.
    pub v2: Option<PathBuf>,
    /// The v1 `cpu` controller, where v1 has it.
    pub v1_cpu: Option<PathBuf>,
    /// The v1 `cpuacct` controller, where v1 has it and it is not the same mount.
    pub v1_cpuacct: Option<PathBuf>,
    /// The v1 `cpuset` controller, where v1 has it.
    pub v1_cpuset: Option<PathBuf>,
    /// The v1 `memory` controller, where v1 has it.
    pub v1_memory: Option<PathBuf>,
    /// The v1 `blkio` controller, where v1 has it.
    pub v1_blkio: Option<PathBuf>,
    /// v1 hierarchies without a controller, such as systemd's.
    pub v1_named: Vec<PathBuf>,
}

impl Layout {
    /// Reads `/proc/self/mounts`.
    pub fn detect() -> Result<Layout, BenchError> {
        let path = PathBuf::from("/proc/self/mounts");
        let mounts = fs::read_to_string(&path).map_err(|source| BenchError::Host {
            action: "read",
            path,
            source,
        })?;
        let layout = Layout::parse(&mounts);
        if layout.v2.is_none() {
            return Err(BenchError::Unsupported(
                "this host has no cgroup v2 hierarchy: mount one with 'mkdir -p /sys/fs/cgroup/unified; mount -t cgroup2 none /sys/fs/cgroup/unified'".to_owned(),
            ));
        }
        Ok(layout)
    }

    fn parse(mounts: &str) -> Layout {
        let mut layout = Layout::default();
        for line in mounts.lines() {
            let mut fields = line.split(' ');
            let (Some(_), Some(at), Some(kind), Some(options)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let controls = |name| kind == "cgroup" && options.split(',').any(|o| o == name);
            // The first mount of each kind: later ones are somebody's bind mounts.
            if kind == "cgroup2" {
                layout.v2.get_or_insert_with(|| at.into());
            } else if controls("cpu") {
                layout.v1_cpu.get_or_insert_with(|| at.into());
            } else if controls("cpuacct") {
                layout.v1_cpuacct.get_or_insert_with(|| at.into());
            } else if controls("cpuset") {
                layout.v1_cpuset.get_or_insert_with(|| at.into());
            } else if controls("memory") {
                layout.v1_memory.get_or_insert_with(|| at.into());
            } else if controls("blkio") {
                layout.v1_blkio.get_or_insert_with(|| at.into());
            } else if kind == "cgroup" && options.split(',').any(|o| o.starts_with("name=")) {
                layout.v1_named.push(at.into());
            }
        }
        layout
    }

    /// `v2` or `hybrid`.
    pub fn label(&self) -> &'static str {
        if self.v1_cpu.is_some() {
            "hybrid"
        } else {
            "v2"
        }
    }

    /// As [`Layout::roots`], with the v1 `cpuset` controller.
    pub fn roots_with_cpuset(&self) -> Vec<PathBuf> {
        let mut roots = self.roots();
        roots.extend(self.v1_cpuset.clone());
        roots
    }

    /// As [`Layout::roots`], with the v1 `memory` and `blkio` controllers.
    pub fn roots_with_limits(&self) -> Vec<PathBuf> {
        let mut roots = self.roots();
        roots.extend(self.v1_memory.clone());
        roots.extend(self.v1_blkio.clone());
        roots
    }

    /// Every mount that a benchmark may have made a cgroup in.
    pub fn all_roots(&self) -> Vec<PathBuf> {
        let mut roots = self.roots_with_limits();
        roots.extend(self.v1_cpuset.clone());
        roots.extend(self.v1_named.clone());
        roots
    }

    /// The mounts that matter, v2 first.
    pub fn roots(&self) -> Vec<PathBuf> {
        [&self.v2, &self.v1_cpu, &self.v1_cpuacct]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

/// A parent cgroup of our own in every hierarchy.
pub(crate) struct Groups {
    parents: Vec<PathBuf>,
}

impl Groups {
    /// Makes the parents, named by `tag`.
    pub fn make(layout: &Layout, tag: &str, undo: &mut UndoStack) -> Result<Groups, BenchError> {
        let mut parents = Vec::new();
        for root in layout.roots() {
            let v2_cpu = layout.v1_cpu.is_none() && Some(&root) == layout.v2.as_ref();
            if v2_cpu {
                enable_cpu(&root, Some(undo))?;
            }
            let parent = root.join(format!("{}{tag}", super::sweep::CGROUP_PREFIX));
            make(&parent, undo)?;
            if v2_cpu {
                enable_cpu(&parent, None)?;
            }
            parents.push(parent);
        }
        Ok(Groups { parents })
    }

    /// A container's cgroup in every hierarchy, with its share of the CPU.
    pub fn container(
        &self,
        tenant: &Tenant,
        limit: Limit,
        undo: &mut UndoStack,
    ) -> Result<Vec<PathBuf>, BenchError> {
        let files = share(tenant.share_pct, limit);
        let mut dirs = Vec::new();
        for parent in &self.parents {
            let dir = parent.join(&tenant.name);
            make(&dir, undo)?;
            for (file, value) in &files {
                let path = dir.join(file);
                if path.exists() {
                    write(&path, value)?;
                }
            }
            dirs.push(dir);
        }
        Ok(dirs)
    }
}

/// What gives a container `share_pct` of one CPU, on v1 and v2.
fn share(share_pct: f64, limit: Limit) -> Vec<(&'static str, String)> {
    const PERIOD_US: f64 = 100_000.0;
    let relative = match limit {
        Limit::Weights => share_pct / f64::from(EVEN_SHARE_PCT),
        Limit::Quota => 1.0,
    };
    let mut files = vec![
        ("cpu.shares", format!("{:.0}", 1024.0 * relative)),
        ("cpu.weight", format!("{:.0}", (100.0 * relative).max(1.0))),
    ];
    if limit == Limit::Quota {
        let quota = format!("{:.0}", PERIOD_US * share_pct / 100.0);
        files.push(("cpu.max", format!("{quota} {PERIOD_US:.0}")));
        files.push(("cpu.cfs_quota_us", quota));
    }
    files
}

/// The same as options of `podman run`.
pub(super) fn podman_share(share_pct: f64, limit: Limit) -> String {
    let mut options = String::new();
    for (file, value) in share(share_pct, limit) {
        match file {
            "cpu.shares" => options += &format!(" --cpu-shares {value}"),
            "cpu.cfs_quota_us" => options += &format!(" --cpu-period 100000 --cpu-quota {value}"),
            _ => {}
        }
    }
    options
}

/// Lets children of `dir` have the CPU controller; restored through `undo` where it was off.
fn enable_cpu(dir: &Path, undo: Option<&mut UndoStack>) -> Result<(), BenchError> {
    enable("cpu", dir, undo)
}

/// Lets children of `dir` have a controller; restored through `undo` where it was off.
pub(crate) fn enable(
    name: &str,
    dir: &Path,
    undo: Option<&mut UndoStack>,
) -> Result<(), BenchError> {
    let path = dir.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&path).map_err(|source| BenchError::Host {
        action: "read",
        path: path.clone(),
        source,
    })?;
    if enabled.split_whitespace().any(|c| c == name) {
        return Ok(());
    }
    write(&path, &format!("+{name}"))?;
    if let Some(undo) = undo {
        let off = format!("-{name}");
        undo.push(
            format!("{name} controller in {}", path.display()),
            move || fs::write(&path, off).map_err(|e| e.to_string()),
        );
    }
    Ok(())
}

pub(crate) fn write(path: &Path, value: &str) -> Result<(), BenchError> {
    fs::write(path, value).map_err(|source| BenchError::Host {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn make(dir: &Path, undo: &mut UndoStack) -> Result<(), BenchError> {
    fs::create_dir(dir).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => BenchError::Unsupported(format!(
            "cannot create the cgroup {}: run as root (sudo)",
            dir.display()
        )),
        _ => BenchError::Host {
            action: "make",
            path: dir.to_owned(),
            source,
        },
    })?;
    let owned = dir.to_owned();
    undo.push(format!("cgroup {}", dir.display()), move || {
        remove(&owned).map_err(|e| e.to_string())
    });
    Ok(())
}

/// Removes a cgroup. A process that has just ended stays in it for a moment.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        match fs::remove_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hybrid_and_pure_v2() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
            cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
            cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let layout = Layout::parse(hybrid);
        assert_eq!(layout.label(), "hybrid");
        assert_eq!(layout.v1_cpu, Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(layout.v1_cpuacct, None);
        assert_eq!(layout.roots().len(), 2);
        assert_eq!(layout.v1_named, [PathBuf::from("/sys/fs/cgroup/systemd")]);
        assert!(layout.all_roots().contains(&layout.v1_named[0]));

        let v2 = Layout::parse("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n");
        assert_eq!(
            (v2.label(), v2.roots()),
            ("v2", vec![PathBuf::from("/sys/fs/cgroup")])
        );
    }
}
