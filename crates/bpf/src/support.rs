//! Features of the running kernel.

use crate::load::LoadError;
use libbpf_rs::btf::types::{Struct, Typedef};
use libbpf_rs::btf::{Btf, TypeId};
use std::sync::OnceLock;

/// Whether the kernel has the tracepoint `name`, according to its BTF (not its version). `None` if
/// the kernel has no readable BTF.
pub fn kernel_has_tracepoint(name: &str) -> Option<bool> {
    static BTF: OnceLock<Option<Names>> = OnceLock::new();
    BTF.get_or_init(Names::read)
        .as_ref()
        .map(|names| names.has(&format!("btf_trace_{name}")))
}

/// Whether a CPU quota that is used up stops kernel threads too. Linux 6.18 began to stop tasks one
/// by one when they return to user mode, which a kernel thread never does (kernel commit
/// "sched/fair: Switch to task based throttle model"). Until then it stopped the whole group. A
/// field of this kernel's task struct shows which. `None` without type information. Takes some
/// milliseconds.
pub fn quota_stops_kernel_threads() -> Option<bool> {
    let btf = Btf::from_vmlinux().ok()?;
    let task = btf.type_by_name::<Struct<'_>>("task_struct")?;
    let per_task = task.iter().any(|member| {
        member
            .name
            .is_some_and(|name| name == "sched_throttle_work")
    });
    Some(!per_task)
}

/// Requires that programs can be attached where packets enter and leave devices (tcx, Linux 6.6).
///
/// # Errors
/// [`LoadError::NoBtf`], or [`LoadError::NoDeviceHooks`].
pub(crate) fn require_device_hooks() -> Result<(), LoadError> {
    let btf = Btf::from_vmlinux().map_err(|_| LoadError::NoBtf)?;
    match btf.type_by_name::<Struct<'_>>("tcx_link") {
        Some(_) => Ok(()),
        None => Err(LoadError::NoDeviceHooks),
    }
}

/// Requires that the kernel has all of these.
///
/// # Errors
/// [`LoadError::NoBtf`], or the first missing one.
pub(crate) fn require_tracepoints(names: &[&'static str]) -> Result<(), LoadError> {
    for name in names {
        match kernel_has_tracepoint(name) {
            None => return Err(LoadError::NoBtf),
            Some(false) => return Err(LoadError::NoTracepoint(name)),
            Some(true) => {}
        }
    }
    Ok(())
}

/// Makes an error of a failed operation of libbpf.
pub(crate) fn failed(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> LoadError {
    let what = what.into();
    |source| LoadError::Libbpf { what, source }
}

/// Names of the tracepoint typedefs. The BTF itself is dropped: it has megabytes.
struct Names(std::collections::BTreeSet<String>);

impl Names {
    fn read() -> Option<Names> {
        let btf = Btf::from_vmlinux().ok()?;
        let names = (1..btf.len() as u32)
            .filter_map(|id| btf.type_by_id::<Typedef<'_>>(TypeId::from(id)))
            .filter_map(|t| t.name().map(|n| n.to_string_lossy().into_owned()))
            .filter(|name| name.starts_with("btf_trace_"))
            .collect();
        Some(Names(names))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Returns the number of CPUs that can ever be online; per-CPU memory is taken for all of them.
pub fn possible_cpus() -> u32 {
    libbpf_rs::num_possible_cpus().map_or(1, |n| n as u32)
}
