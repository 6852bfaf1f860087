//! Checks of this process's rights, and of the build and boot options of the kernel.

use super::{Check, Status, bpf, sandbox};
use cofferdam_bpf::quota_stops_kernel_threads;
use cofferdam_host::{HostFs, irq_time_accounting};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// Bit number, name, and whether the accounting needs it.
const CAPABILITIES: [(u32, &str, bool); 7] = [
    (39, "CAP_BPF", true),
    (38, "CAP_PERFMON", true),
    (12, "CAP_NET_ADMIN", true),
    (21, "CAP_SYS_ADMIN", true),
    (19, "CAP_SYS_PTRACE", true),
    (24, "CAP_SYS_RESOURCE", false),
    (23, "CAP_SYS_NICE", false),
];

/// Check of the capabilities of this process.
pub(super) fn capabilities(fs: &HostFs) -> Check {
    let check = Check::new(
        "capabilities",
        "capabilities held",
        "loads programs, and reads containers' namespaces",
    )
    .required();
    // The kernel checks the capabilities of the thread.
    let text = fs.read_text("/proc/thread-self/status").unwrap_or_default();
    let Some(capabilities) = effective(&text) else {
        return check.is(
            Status::Partly,
            "/proc/thread-self/status does not show them",
        );
    };
    let has = |bit: u32| capabilities >> bit & 1 == 1;
    let names = |wanted: &dyn Fn(u32, bool) -> bool| {
        let all = CAPABILITIES
            .iter()
            .filter(|(bit, _, needed)| wanted(*bit, *needed));
        all.map(|(_, name, _)| *name).collect::<Vec<_>>()
    };
    let missing = names(&|bit, needed| needed && !has(bit));
    let unused = names(&|bit, needed| !needed && !has(bit));
    if !missing.is_empty() {
        let detail = format!("missing: {}", missing.join(" "));
        return match bpf::privileged() {
            // In a container, root lacks rights that the starter of the container must grant.
            true => check
                .is(Status::No, detail)
                .or("give them to this process: it is root without them"),
            false => check.not_permitted(Status::No, detail),
        };
    }
    if unused.is_empty() {
        check.is(
            Status::Yes,
            format!("all: {}", names(&|_, _| true).join(" ")),
        )
    } else {
        check
            .is(
                Status::Partly,
                format!("everything needed; without {}", unused.join(" ")),
            )
            .or("nothing to do for the accounting; hard limits cannot be raised")
    }
}

/// `CapEff` in the text of `/proc/PID/status`.
pub(super) fn effective(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// Checks of lockdown, IRQ time accounting, quotas of kernel threads, and sched_ext.
pub(super) fn kernel(fs: &HostFs) -> Vec<Check> {
    vec![lockdown(), irq_time(fs), quota(), sched_ext(fs)]
}

fn quota() -> Check {
    let check = Check::new(
        "quota-threads",
        "CPU quotas stop kernel threads",
        "a container under a quota is charged for its packets by the kernel itself",
    );
    match quota_stops_kernel_threads() {
        Some(true) => check.is(Status::Yes, "a quota that is used up stops the whole group"),
        Some(false) => check
            .is(
                Status::No,
                "this kernel stops tasks as they return to user mode, and so no kernel thread",
            )
            .or("nothing to do: such containers are limited to their quota by dropping instead"),
        None => check.is(Status::Partly, "unknown: no type information (BTF)"),
    }
}

fn lockdown() -> Check {
    let check = Check::new(
        "lockdown",
        "lockdown allows tracing",
        "reading kernel memory in BPF programs",
    );
    let remedy = "boot with lockdown=none or lockdown=integrity";
    match sandbox::lockdown() {
        Ok(text) => match chosen(&text) {
            Some("confidentiality") => check.is(Status::No, "confidentiality").or(remedy),
            Some(mode) => check.is(Status::Yes, mode),
            None => check.is(
                Status::Partly,
                format!("cannot understand '{}'", text.trim()),
            ),
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            check.is(Status::Yes, "this kernel has none")
        }
        Err(e) => check.not_permitted(Status::Partly, format!("could not be read: {e}")),
    }
}

/// Value in brackets: `none [integrity] confidentiality`.
pub(super) fn chosen(text: &str) -> Option<&str> {
    Some(text.split_once('[')?.1.split_once(']')?.0)
}

fn irq_time(fs: &HostFs) -> Check {
    let check = Check::new(
        "irq-time",
        "IRQ_TIME_ACCOUNTING",
        "the scheduler itself deducts interrupt time from the victim (but charges no container)",
    );
    match irq_time_accounting(fs) {
        Some(true) => check.is(Status::Yes, "built into this kernel"),
        Some(false) => check.is(
            Status::No,
            "not built into this kernel: the interrupted task is charged",
        ),
        None => check.is(Status::Partly, "unknown: no PSI and no /boot/config"),
    }
}

fn sched_ext(fs: &HostFs) -> Check {
    let check = Check::new("sched-ext", "sched_ext", "nothing needed yet");
    match fs.read_text("/sys/kernel/sched_ext/state") {
        Ok(state) => check.is(Status::Yes, state.trim().to_owned()),
        Err(_) => check.is(Status::No, "no /sys/kernel/sched_ext in this kernel"),
    }
}

/// Checks of locked memory and open files.
pub(super) fn resources() -> Vec<Check> {
    let memory = Check::new(
        "memlock",
        "locked memory limit",
        "BPF maps on kernels before 5.11",
    );
    let files = Check::new("nofile", "open files limit", "one open file a container");
    let memory = match getrlimit(Resource::RLIMIT_MEMLOCK) {
        Ok((soft, hard)) => {
            let text = format!("{} bytes, at most {}", limit(soft), limit(hard));
            match (hard == RLIM_INFINITY || hard >= 64 << 20, bpf::large_map()) {
                (true, _) => memory.is(Status::Yes, text),
                (false, Ok(())) => {
                    memory.is(Status::Yes, text + "; this kernel does not count maps")
                }
                (false, Err(e)) => memory.is(Status::Partly, format!("{text}; a 16 MiB map: {e}")),
            }
        }
        Err(e) => memory.is(Status::Partly, e.to_string()),
    };
    let files = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => {
            let status = if hard >= 4096 {
                Status::Yes
            } else {
                Status::Partly
            };
            files.is(status, format!("{}, at most {}", limit(soft), limit(hard)))
        }
        Err(e) => files.is(Status::Partly, e.to_string()),
    };
    vec![
        memory.or("ulimit -l unlimited, before starting"),
        files.or("ulimit -Hn 8192, before starting; with fewer, files are opened at each reading"),
    ]
}

fn limit(value: u64) -> String {
    if value == RLIM_INFINITY {
        "unlimited".to_owned()
    } else {
        value.to_string()
    }
}
