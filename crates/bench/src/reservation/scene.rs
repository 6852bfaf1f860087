//! Two containers of our own, target and neighbours, with requests as Kubernetes writes them.

use crate::data::{NeighbourLimit, ReservationCell, ReservationPolicy};
use crate::error::BenchError;
use crate::spawn::Place;
use crate::topology::Layout;
use crate::topology::cgroup::{enable, make, write};
use crate::topology::sweep;
use cofferdam_lab::UndoStack;
use cofferdam_types::{CgroupId, Container, Runtime};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How much a request grows when it is scaled.
pub(super) const SCALE: f64 = 1.5;
/// Kubernetes' period.
const PERIOD_US: u64 = 100_000;

/// One container's cgroups.
pub(super) struct Member {
    name: &'static str,
    path: PathBuf,
    dirs: Vec<PathBuf>,
}

/// The two containers; their cgroups are removed when it is dropped.
pub(super) struct Scene {
    pub target: Member,
    pub neighbours: Member,
    _undo: UndoStack,
}

impl Scene {
    pub fn build() -> Result<Scene, BenchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        sweep::leftovers();
        let layout = Layout::detect()?;
        let tag = format!(
            "{}{}-r{}",
            sweep::CGROUP_PREFIX,
            std::process::id(),
            SERIAL.fetch_add(1, Ordering::Relaxed)
        );
        let mut undo = UndoStack::default();
        let mut parents = Vec::new();
        for root in layout.roots_with_cpuset() {
            let v2 = Some(&root) == layout.v2.as_ref();
            let missing: Vec<&str> = [("cpu", &layout.v1_cpu), ("cpuset", &layout.v1_cpuset)]
                .into_iter()
                .filter(|(_, v1)| v2 && v1.is_none())
                .map(|(name, _)| name)
                .collect();
            for name in &missing {
                enable(name, &root, Some(&mut undo))?;
            }
            let parent = root.join(&tag);
            make(&parent, &mut undo)?;
            inherit(&parent)?;
            for name in missing {
                enable(name, &parent, None)?;
            }
            parents.push(parent);
        }
        let mut member = |name: &'static str| {
            let mut dirs = Vec::new();
            for parent in &parents {
                let dir = parent.join(name);
                make(&dir, &mut undo)?;
                inherit(&dir)?;
                dirs.push(dir);
            }
            Ok::<_, BenchError>(Member {
                name,
                path: Path::new("/").join(&tag).join(name),
                dirs,
            })
        };
        Ok(Scene {
            target: member("target")?,
            neighbours: member("neighbours")?,
            _undo: undo,
        })
    }

    /// Requests and limits under `policy`. The target is capped at its request, as in
    /// *Mind the Gap* (SoCC '21).
    pub fn request(
        &self,
        cell: &ReservationCell,
        policy: ReservationPolicy,
    ) -> Result<(), BenchError> {
        let scaled = matches!(
            policy,
            ReservationPolicy::Scaled | ReservationPolicy::ScaledThreads
        );
        let cpus = cell.reserved_cpus * if scaled { SCALE } else { 1.0 };
        self.target.request(cpus, true)?;
        let capped = cell.limit == NeighbourLimit::Capped;
        self.neighbours.request(cell.neighbour_cpus, capped)
    }
}

/// A v1 cpuset takes no process until it has CPUs and memory nodes.
fn inherit(dir: &Path) -> Result<(), BenchError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let above = dir.parent().map(|p| p.join(file)).unwrap_or_default();
        if dir.join("cpuset.memory_migrate").exists() {
            let value = fs::read_to_string(&above).map_err(|source| BenchError::Host {
                action: "read",
                path: above,
                source,
            })?;
            write(&dir.join(file), value.trim())?;
        }
    }
    Ok(())
}

impl Member {
    /// Where its processes go; any CPU that its cpuset allows.
    pub fn place(&self) -> Place {
        Place {
            netns: None,
            cgroups: self.dirs.clone(),
            cpu: None,
        }
    }

    /// As the reservations know it.
    pub fn container(&self) -> Result<Arc<Container>, BenchError> {
        let inode = fs::metadata(&self.dirs[0]).map_err(|source| BenchError::Host {
            action: "read",
            path: self.dirs[0].clone(),
            source,
        })?;
        Ok(Arc::new(Container {
            cgroup: CgroupId(inode.ino()),
            cgroup_path: self.path.clone(),
            descendants: Vec::new(),
            name: self.name.to_owned(),
            id: None,
            runtime: Runtime::Plain,
            pod: None,
            netns: None,
            host_network: false,
            pid: None,
            interfaces: Vec::new(),
        }))
    }

    /// CPU time used so far, seconds.
    pub fn cpu_s(&self) -> f64 {
        let text = fs::read_to_string(self.dirs[0].join("cpu.stat")).unwrap_or_default();
        cofferdam_host::parse::cpu_stat_usage_us(&text).unwrap_or(0) as f64 / 1e6
    }

    /// `cpu.shares` = 1024 a CPU and a quota of as many CPUs; in v2 weight 100 a CPU.
    fn request(&self, cpus: f64, capped: bool) -> Result<(), BenchError> {
        let quota_us = (cpus * PERIOD_US as f64) as u64;
        let quota = |none: &str| match capped {
            true => quota_us.to_string(),
            false => none.to_owned(),
        };
        let values = [
            ("cpu.shares", format!("{}", (cpus * 1024.0) as u64)),
            ("cpu.cfs_quota_us", quota("-1")),
            ("cpu.weight", format!("{}", (cpus * 100.0) as u64)),
            ("cpu.max", format!("{} {PERIOD_US}", quota("max"))),
        ];
        for dir in &self.dirs {
            for (file, value) in &values {
                let path = dir.join(file);
                if path.exists() {
                    write(&path, value)?;
                }
            }
        }
        Ok(())
    }
}
