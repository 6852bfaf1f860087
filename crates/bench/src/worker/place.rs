//! Moves the worker to the place that the driver wants.

use super::{Args, Failure};
use cofferdam_affinity::Affinity;
use cofferdam_lab::Netns;
use cofferdam_lab::place::Spot;
use cofferdam_types::CpuId;
use std::path::PathBuf;

/// Reads `--join CGROUP_DIR` (repeatable), `--netns NAME`, `--cpu N` (repeatable: any of these),
/// `--any-cpu 1` and `--realtime 1`, and applies them. Without a CPU option the worker stays on the
/// driver's CPUs.
pub(crate) fn enter(args: &mut Args) -> Result<(), Failure> {
    let netns = args.take::<String>("netns")?;
    let netns = netns.map(|name| Netns::named(&name).path());
    let cgroups: Vec<PathBuf> = args.all("join").into_iter().map(PathBuf::from).collect();
    let spot = Spot::open(netns.as_deref(), &cgroups);
    spot.and_then(|spot| spot.enter())
        .map_err(|e| e.to_string())?;
    let cpus = args.all("cpu");
    if !cpus.is_empty() {
        let number = |cpu: &String| match cpu.parse() {
            Ok(number) => Ok(CpuId(number)),
            Err(e) => Err(format!("--cpu {cpu}: {e}")),
        };
        let numbers: Vec<CpuId> = cpus.iter().map(number).collect::<Result<_, Failure>>()?;
        Affinity::to(numbers)
            .and_then(|affinity| affinity.bind_this_thread())
            .map_err(|e| format!("cannot run on CPU {}: {e}", cpus.join(", ")))?;
    }
    if args.take::<u32>("any-cpu")? == Some(1) {
        // The kernel reduces the largest set to the CPUs that the cgroup allows.
        Affinity::to((0..1024).map(CpuId))
            .and_then(|affinity| affinity.bind_this_thread())
            .map_err(|e| format!("cannot run on any CPU: {e}"))?;
    }
    if args.take::<u32>("realtime")? == Some(1) {
        realtime()?;
    }
    Ok(())
}

/// Takes the lowest real-time priority: a measuring client must not wait for the generator on the
/// same CPU.
fn realtime() -> Result<(), Failure> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` outlives the call, which only reads it; pid 0 is the calling thread.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) };
    if rc == 0 {
        return Ok(());
    }
    Err(format!(
        "cannot take a real-time priority: {}",
        std::io::Error::last_os_error()
    ))
}
