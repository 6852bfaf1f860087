//! Parts that the tests of this crate share.
#![allow(dead_code)]

use cofferdam_bench::data::{Limit, Path as NetPath};
use cofferdam_bench::spawn::{Place, Worker, use_worker};
use cofferdam_bench::topology::{MadeBy, Spec, Tenant};
use cofferdam_bench::worker::Reading;
use std::path::Path;
use std::time::Duration;

/// Time limit; no test of this crate needs longer.
pub const LIMIT: Duration = Duration::from_secs(120);

pub fn worker_executable() {
    use_worker(Path::new(env!("CARGO_BIN_EXE_cofferdam-bench-worker")));
}

pub fn spec(path: NetPath) -> Spec {
    let mut containers = Tenant::equals(&["competitor", "victim"]);
    containers[0].shaped = true;
    Spec {
        path,
        containers,
        victim_cpu: 0,
        peer_cpu: 1,
        segmentation_offload: false,
        htb_gbit_per_s: None,
        limit: Limit::Weights,
        made_by: MadeBy::Ourselves,
    }
}

/// Starts a worker and its work.
pub fn start_worker(place: &Place, args: &str) -> Worker {
    let mut worker = Worker::start(place, &format!("{args} --limit 60")).unwrap();
    worker.go().unwrap();
    worker
}

/// Reads until `enough`; fails with the last reading after 20 s.
pub fn read_until(worker: &mut Worker, enough: impl Fn(&Reading) -> bool) -> Reading {
    let mut last = worker.read().unwrap();
    cofferdam_lab::fixtures::wait_until("enough packets", Duration::from_secs(20), || {
        last = worker.read().unwrap();
        enough(&last)
    });
    last
}

/// Parts of the topology that are left on the host.
pub fn remains(parts: &(Vec<String>, Vec<std::path::PathBuf>)) -> Vec<String> {
    let (spaces, groups) = parts;
    let spaces = spaces.iter().map(|n| format!("/run/netns/{n}"));
    let groups = groups.iter().map(|g| g.display().to_string());
    spaces
        .chain(groups)
        .filter(|p| Path::new(p).exists())
        .collect()
}
