//! Two processes that wake each other over a pair of pipes, and their containers.

use super::{containers, two_cpus};
use crate::agent::data::SwitchCase;
use crate::data::Limit;
use crate::error::BenchError;
use crate::spawn::{Place, Worker};
use crate::topology::{Groups, Tenant};
use cofferdam_lab::cgroup::{Cgroup, layout};
use cofferdam_lab::{Netns, UndoStack};
use cofferdam_types::{CgroupId, Container};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Two running workers.
pub(super) struct PingPong {
    /// Both containers, whether a worker is in them or not.
    pub(super) containers: Vec<Arc<Container>>,
    /// Worker whose counts are read.
    player: Worker,
    _partner: Worker,
    // Last: fields are dropped in order, and this reverts everything.
    _undo: UndoStack,
}

impl PingPong {
    pub(super) fn start(case: SwitchCase) -> Result<PingPong, BenchError> {
        let mut undo = UndoStack::default();
        let tag = std::process::id().to_string();
        let groups = Groups::make(&layout()?, &tag, &mut undo)?;
        let mut members = Vec::new();
        for tenant in Tenant::equals(&["ping", "pong"]) {
            members.push(groups.container(&tenant, Limit::Weights, &mut undo)?);
        }
        let endpoints = members.iter().map(container);
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        let pipes = [
            pipe(&tag, "there", &mut undo)?,
            pipe(&tag, "back", &mut undo)?,
        ];
        let worker = |i: usize| {
            let group = containers(case)[i].and_then(|c| members.get(c));
            let place = Place {
                netns: Netns::HOST,
                cgroups: group.map(|group| group.dirs().to_vec()).unwrap_or_default(),
                cpu: Some(if two_cpus(case) { i as u32 } else { 0 }),
            };
            let (from, to) = (&pipes[i], &pipes[1 - i]);
            let first = u32::from(i == 0);
            let line = format!("ping-pong --first {first} --limit 600");
            let extra = [
                "--in".as_ref(),
                from.as_os_str(),
                "--out".as_ref(),
                to.as_os_str(),
            ];
            Worker::start_with(&place, &line, &extra)
        };
        let (mut player, mut partner) = (worker(0)?, worker(1)?);
        partner.go()?;
        player.go()?;
        Ok(PingPong {
            containers: endpoints,
            player,
            _partner: partner,
            _undo: undo,
        })
    }

    /// Measures the round trips a second over `period`.
    pub(super) fn round_trips_per_s(&mut self, period: Duration) -> Result<f64, BenchError> {
        self.round_trips_while(|| {
            std::thread::sleep(period);
            Ok(())
        })
    }

    /// Measures the round trips a second while `body` runs.
    pub(super) fn round_trips_while(
        &mut self,
        body: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<f64, BenchError> {
        let before = self.player.read()?;
        body()?;
        let after = self.player.read()?;
        Ok(after.since(&before).packets_per_s)
    }
}

fn container(group: &Cgroup) -> Result<Arc<Container>, BenchError> {
    let name = group.path().file_name().unwrap_or_default();
    Ok(Arc::new(Container {
        host_network: true,
        ..Container::plain(CgroupId(group.id()?), group.path(), name.to_string_lossy())
    }))
}

fn pipe(tag: &str, name: &str, undo: &mut UndoStack) -> Result<PathBuf, BenchError> {
    let path = std::env::temp_dir().join(format!("cofferdam-ping-{tag}-{name}"));
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)
        .map_err(|errno| BenchError::host("make", &path)(errno.into()))?;
    let ours = path.clone();
    undo.push(format!("pipe {}", path.display()), move || {
        std::fs::remove_file(&ours).map_err(|e| e.to_string())
    });
    Ok(path)
}
