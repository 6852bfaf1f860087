//! Containers of the benchmark, target and neighbours, with requests as Kubernetes writes them.

use crate::error::BenchError;
use crate::reservation::data::{NeighbourLimit, ReservationCell, ReservationPolicy};
use crate::spawn::Place;
use cofferdam_host::parse;
use cofferdam_lab::cgroup::{Cgroup, enable, layout, mounts};
use cofferdam_lab::names::CGROUP_PREFIX;
use cofferdam_lab::sweep;
use cofferdam_lab::{Netns, UndoStack};
use cofferdam_types::{CgroupId, Container, CpuId};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Factor by which a request is scaled.
pub(super) const SCALE: f64 = 1.5;
/// Quota period of Kubernetes, microseconds.
const PERIOD_US: u64 = 100_000;

/// Cgroups of one container.
pub(super) struct Member {
    name: String,
    group: Cgroup,
}

/// Target and neighbours. Dropping them removes their cgroups.
pub(super) struct Containers {
    pub target: Member,
    /// Neighbours of the cell with most; [`Containers::neighbours`] returns those of one cell.
    all: Vec<Member>,
    _undo: UndoStack,
}

impl Containers {
    /// Target and neighbour that exist already; `undo` runs on drop.
    pub fn new(target: Member, neighbour: Member, undo: UndoStack) -> Containers {
        Containers {
            target,
            all: vec![neighbour],
            _undo: undo,
        }
    }

    /// Neighbours of a cell.
    pub fn neighbours(&self, cell: &ReservationCell) -> &[Member] {
        let count = (cell.neighbour_count as usize).min(self.all.len());
        &self.all[..count]
    }

    /// Makes a target and `neighbours` neighbours.
    pub fn build(neighbours: u32) -> Result<Containers, BenchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        sweep::leftovers();
        let tag = format!(
            "{}{}-r{}",
            CGROUP_PREFIX,
            std::process::id(),
            SERIAL.fetch_add(1, Ordering::Relaxed)
        );
        let mut undo = UndoStack::default();
        let layout = layout()?;
        let controllers = ["cpu", "cpuset"];
        enable(&layout, &controllers, &layout.v2_mount, Some(&mut undo))?;
        let mounts = mounts(&layout, &["cpu", "cpuacct", "cpuset"]);
        let parent = Cgroup::make(&mounts, &Path::new("/").join(&tag), &mut undo)?;
        enable(&layout, &controllers, parent.dir(), None)?;
        let mut member = |name: String| {
            let group = parent.child(&name, &mut undo)?;
            Ok::<_, BenchError>(Member { name, group })
        };
        Ok(Containers {
            target: member("target".to_owned())?,
            all: (1..=neighbours)
                .map(|n| member(format!("neighbour-{n}")))
                .collect::<Result<_, _>>()?,
            _undo: undo,
        })
    }

    /// Sets requests and limits under `policy`. The target is capped at its request, as in *Mind
    /// the Gap* (SoCC '21).
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
        let each = cell.neighbour_cpus / f64::from(cell.neighbour_count);
        let mut neighbours = self.neighbours(cell).iter();
        neighbours.try_for_each(|neighbour| neighbour.request(each, capped))
    }
}

impl Member {
    /// Container in `group`.
    pub fn of(name: &str, group: Cgroup) -> Member {
        Member {
            name: name.to_owned(),
            group,
        }
    }

    /// Path below the v2 mount.
    pub fn path(&self) -> &Path {
        self.group.path()
    }

    /// Place of its processes: any CPU that its cpuset allows.
    pub fn place(&self) -> Place {
        Place {
            netns: Netns::HOST,
            cgroups: self.group.dirs().to_vec(),
            cpu: None,
        }
    }

    /// The container in the form that reservations need.
    pub fn container(&self) -> Result<Arc<Container>, BenchError> {
        Ok(Arc::new(Container::plain(
            CgroupId(self.group.id()?),
            self.group.path(),
            &self.name,
        )))
    }

    /// CPUs that its cpuset allows.
    pub fn cpus(&self) -> Result<Vec<CpuId>, BenchError> {
        let files = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
        let dirs = self.group.dirs().iter();
        let mut paths = dirs.flat_map(|dir| files.map(|file| dir.join(file)));
        let path = paths.find(|path| path.exists());
        let path = path.ok_or_else(|| {
            BenchError::Unsupported(format!("{} has no cpuset", self.group.path().display()))
        })?;
        let text = fs::read_to_string(&path).map_err(BenchError::host("read", &path))?;
        Ok(parse::cpu_list(text.trim()).unwrap_or_default())
    }

    /// CPU time used so far, seconds.
    pub fn cpu_s(&self) -> f64 {
        self.group.cpu_usage().unwrap_or_default().as_secs_f64()
    }

    /// Sets `cpu.shares` to 1024 a CPU, or the v2 weight to 100 a CPU, and the quota of a capped
    /// container to `cpus`.
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
        Ok(self.group.set(&values)?)
    }
}
