//! Tenants of a case as cgroups of the benchmark, below a parent with the default weight.
//!
//! Rejected: a larger weight of the parent, which would reduce the time of other work. On Linux
//! 6.18, kernel threads on the same CPU then did not run for minutes, among them the workers of
//! virtio-vsock.

use super::model::PERIOD_US;
use crate::error::BenchError;
use crate::host_facts;
use crate::simulation::data::{CaseTenant, SimulationCase, Work};
use crate::spawn::{Place, Worker};
use cofferdam_lab::cgroup::{Cgroup, enable, layout, mounts};
use cofferdam_lab::names::CGROUP_PREFIX;
use cofferdam_lab::{Netns, UndoStack, sweep};
use cofferdam_types::{CgroupId, Container};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest life of a worker, seconds.
const LIMIT_S: u32 = 300;

/// Cgroup of one tenant.
pub(super) struct Member {
    group: Cgroup,
    name: String,
}

/// All tenants. Dropping them removes their cgroups.
pub(super) struct Containers {
    pub members: Vec<Member>,
    _undo: UndoStack,
}

impl Containers {
    pub fn build(case: &SimulationCase) -> Result<Containers, BenchError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        sweep::leftovers();
        let tag = format!(
            "{}{}-s{}",
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
        let mut members = Vec::new();
        for tenant in &case.tenants {
            let group = parent.child(&tenant.name, &mut undo)?;
            set(&group, tenant)?;
            members.push(Member {
                group,
                name: tenant.name.clone(),
            });
        }
        Ok(Containers {
            members,
            _undo: undo,
        })
    }
}

fn set(group: &Cgroup, tenant: &CaseTenant) -> Result<(), BenchError> {
    let quota_us = tenant
        .quota_cpus
        .map(|cpus| (cpus * PERIOD_US as f64) as u64);
    let quota = |none: &str| quota_us.map_or(none.to_owned(), |us| us.to_string());
    let mut files = vec![
        (
            "cpu.shares",
            (u64::from(tenant.weight) * 1024 / 100).to_string(),
        ),
        ("cpu.weight", tenant.weight.to_string()),
        ("cpu.cfs_quota_us", quota("-1")),
        ("cpu.max", format!("{} {PERIOD_US}", quota("max"))),
    ];
    let online = host_facts::online_cpus();
    if let Some(cpu) = tenant.pinned.and_then(|place| online.get(place)) {
        files.push(("cpuset.cpus", cpu.to_string()));
    }
    Ok(group.set(&files)?)
}

impl Member {
    /// Starts the tenant's threads, which wait for the start command.
    pub fn start(&self, tenant: &CaseTenant) -> Result<Worker, BenchError> {
        let place = Place {
            netns: Netns::HOST,
            cgroups: self.group.dirs().to_vec(),
            cpu: None,
        };
        let threads = tenant.threads;
        let args = match tenant.work {
            Work::Spin => format!("neighbour --threads {threads} --memory 0"),
            Work::Periodic { run_us, sleep_us } => {
                format!("periodic --threads {threads} --run-us {run_us} --sleep-us {sleep_us}")
            }
        };
        Worker::start(&place, &format!("{args} --any-cpu 1 --limit {LIMIT_S}"))
    }

    /// The container in the form that reservations need.
    pub fn container(&self) -> Result<Arc<Container>, BenchError> {
        Ok(Arc::new(Container::plain(
            CgroupId(self.group.id()?),
            self.group.path(),
            &self.name,
        )))
    }

    /// CPU time used so far, seconds.
    pub fn cpu_s(&self) -> f64 {
        self.group.cpu_usage().unwrap_or_default().as_secs_f64()
    }
}
