//! Checks of the cgroup hierarchies, and of the controllers that enforcement and reservation use.

use super::{Check, Status};
use cofferdam_host::{CgroupLayout, Controller, HostFs};
use std::path::Path;

/// Check for a v2 hierarchy, which identifies containers.
pub(super) fn layout(fs: &HostFs) -> Check {
    let check = Check::new(
        "cgroup-layout",
        "cgroup v2 hierarchy",
        "identifies containers by their v2 cgroup",
    )
    .required();
    match CgroupLayout::read(fs) {
        Ok(layout) => check.is(Status::Yes, layout.to_string()),
        Err(e) => check
            .is(Status::No, e.to_string())
            .or("mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified"),
    }
}

/// Checks of CFS quota, cpuset and PSI.
pub(super) fn controllers(fs: &HostFs) -> Vec<Check> {
    let layout = CgroupLayout::read(fs).ok();
    vec![
        quota(fs, layout.as_ref()),
        cpuset(fs, layout.as_ref()),
        psi(fs),
    ]
}

fn quota(fs: &HostFs, layout: Option<&CgroupLayout>) -> Check {
    let check = Check::new(
        "cfs-quota",
        "CPU quota (CFS bandwidth)",
        "charging by quota",
    );
    match layout.and_then(|l| l.controller("cpu")) {
        None => check
            .is(Status::No, "no cpu controller")
            .or("boot without cgroup_disable=cpu"),
        Some(Controller::V1(mount)) => {
            let file = mount.join("cpu.cfs_quota_us");
            match fs.exists(&file) {
                true => check.is(Status::Yes, format!("v1, {}", file.display())),
                false => check
                    .is(Status::No, "the v1 cpu controller has no cpu.cfs_quota_us")
                    .or("use a kernel built with CONFIG_CFS_BANDWIDTH=y"),
            }
        }
        // The root has no limits itself: its children are checked.
        Some(Controller::V2(mount)) => match child_with(fs, mount, "cpu.max") {
            Child::Has => check.is(Status::Yes, "v2, cpu.max"),
            Child::Lacks => check
                .is(
                    Status::No,
                    "the cpu controller is on, but cgroups have no cpu.max",
                )
                .or("use a kernel built with CONFIG_CFS_BANDWIDTH=y"),
            Child::Off => check
                .is(
                    Status::Partly,
                    "v2; the cpu controller is not enabled for cgroups yet",
                )
                .or(format!(
                    "echo +cpu > {}/cgroup.subtree_control",
                    mount.display()
                )),
        },
    }
}

fn cpuset(fs: &HostFs, layout: Option<&CgroupLayout>) -> Check {
    let check = Check::new("cpuset", "CPU placement (cpuset)", "reserved CPUs");
    match layout.and_then(|l| l.controller("cpuset")) {
        None => check
            .is(Status::No, "no cpuset controller")
            .or("boot without cgroup_disable=cpuset"),
        Some(Controller::V1(mount)) => check.is(Status::Yes, format!("v1 at {}", mount.display())),
        Some(Controller::V2(mount)) => match child_with(fs, mount, "cpuset.cpus") {
            Child::Has => check.is(Status::Yes, "v2, cpuset.cpus"),
            Child::Lacks | Child::Off => check
                .is(
                    Status::Partly,
                    "v2; the cpuset controller is not enabled for cgroups yet",
                )
                .or(format!(
                    "echo +cpuset > {}/cgroup.subtree_control",
                    mount.display()
                )),
        },
    }
}

enum Child {
    Has,
    Lacks,
    /// The controller is not in `cgroup.subtree_control` of the root.
    Off,
}

fn child_with(fs: &HostFs, mount: &Path, file: &str) -> Child {
    let controller = file.split('.').next().unwrap_or(file);
    let on = fs
        .read_text(mount.join("cgroup.subtree_control"))
        .unwrap_or_default();
    if !on.split_whitespace().any(|c| c == controller) {
        return Child::Off;
    }
    let children = fs.directories(mount).unwrap_or_default();
    // Without any cgroup nothing can be checked beyond the enabled controller.
    if children.is_empty() || children.iter().any(|c| fs.exists(mount.join(c).join(file))) {
        Child::Has
    } else {
        Child::Lacks
    }
}

fn psi(fs: &HostFs) -> Check {
    let check = Check::new(
        "psi",
        "pressure (PSI)",
        "shows which containers wait for CPU",
    );
    // With psi=0 the file exists but cannot be read.
    match fs.read_text("/proc/pressure/cpu") {
        Ok(text) if text.starts_with("some") => check.is(Status::Yes, "/proc/pressure/cpu"),
        Ok(_) => check.is(Status::No, "/proc/pressure/cpu has no 'some' line"),
        Err(e) => check.is(Status::No, format!("/proc/pressure/cpu: {e}")),
    }
    .or("boot with psi=1, on a kernel built with CONFIG_PSI=y")
}
