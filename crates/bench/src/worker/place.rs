//! Puts the worker where the driver wants it: namespace, then cgroups, then CPU. In this order
//! whoever watches processes enter cgroups sees at once that this one is a container.

use super::{Args, Failure};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, setns};
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Takes `--join CGROUP_DIR` (repeatable), `--netns NAME`, `--cpu N` (repeatable: any of these) or
/// `--any-cpu 1` (else it stays on the driver's CPUs) and `--realtime 1`.
pub(crate) fn enter(args: &mut Args) -> Result<(), Failure> {
    if let Some(name) = args.take::<String>("netns")? {
        let path = format!("/run/netns/{name}");
        let file = File::open(&path).map_err(|e| format!("cannot open {path}: {e}"))?;
        setns(file, CloneFlags::CLONE_NEWNET).map_err(|e| format!("cannot enter {path}: {e}"))?;
    }
    for dir in args.all("join") {
        let procs = format!("{dir}/cgroup.procs");
        OpenOptions::new()
            .write(true)
            .open(&procs)
            // "0" means the writer itself, on v1 and v2 alike.
            .and_then(|mut f| f.write_all(b"0"))
            .map_err(|e| format!("cannot join {procs}: {e}"))?;
    }
    let cpus = args.all("cpu");
    if !cpus.is_empty() {
        pin_to(&cpus)?;
    }
    if args.take::<u32>("any-cpu")? == Some(1) {
        any_cpu()?;
    }
    if args.take::<u32>("realtime")? == Some(1) {
        realtime()?;
    }
    Ok(())
}

/// Binds the calling thread, and what it starts, to these CPUs.
fn pin_to(cpus: &[String]) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        let number = cpu.parse().map_err(|e| format!("--cpu {cpu}: {e}"))?;
        set.set(number)
            .map_err(|e| format!("cannot name CPU {cpu}: {e}"))?;
    }
    let all = cpus.join(", ");
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|e| format!("cannot run on CPU {all}: {e}"))
}

/// Every CPU that the cgroup allows.
fn any_cpu() -> Result<(), Failure> {
    let mut set = CpuSet::new();
    for cpu in 0..CpuSet::count() {
        set.set(cpu)
            .map_err(|e| format!("cannot name CPU {cpu}: {e}"))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|e| format!("cannot run on any CPU: {e}"))
}

/// The lowest real-time priority: a client that measures must not wait for the generator that
/// shares its CPU.
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
