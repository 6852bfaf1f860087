//! Names of objects on a host. They contain the process id, so that leftovers of a killed process
//! can be distinguished from objects of a running one. The sweep and `make leftovers` use them.

use std::path::Path;

/// Prefix of the tests' namespaces, cgroups and containers: `cf-PID-N-LABEL`.
pub const TEST_PREFIX: &str = "cf-";
/// Prefix of the benchmarks' network namespaces: `cfbench-PID-SERIAL-ROLE`.
pub const NETNS_PREFIX: &str = "cfbench-";
/// Prefix of the benchmarks' cgroups, images, and directories in [`DATA_ROOT`] and [`SOCKET_ROOT`]:
/// `cofferdam-bench-PID-SERIAL`.
pub const CGROUP_PREFIX: &str = "cofferdam-bench-";

/// Directory of tenants' files: on a real file system, and the standard place for temporary files
/// that survive a reboot.
pub const DATA_ROOT: &str = "/var/tmp";
/// Directory of sockets between workers: it is empty after a reboot.
pub const SOCKET_ROOT: &str = "/run";

/// Whether the name is that of a benchmark's or a test's object.
pub fn is_ours(name: &str) -> bool {
    let prefixes = [TEST_PREFIX, NETNS_PREFIX, CGROUP_PREFIX];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether `name` is `PREFIX` + pid of a dead process + `-…`.
pub fn is_orphan(name: &str, prefix: &str) -> bool {
    let pid = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.split('-').next())
        .and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(is_dead)
}

/// Whether `name` is that of a dead process's link in a test: `cfPIDxN` with the id in base 36.
pub fn is_orphan_link(name: &str) -> bool {
    link_owner(name).is_some_and(is_dead)
}

/// Process that named a test's link.
pub(crate) fn link_owner(name: &str) -> Option<u32> {
    let name = name.split('-').next().unwrap_or(name);
    let (pid, number) = name.strip_prefix("cf")?.split_once('x')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_alphanumeric());
    u32::from_str_radix(pid, 36).ok().filter(|_| is_number)
}

fn is_dead(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_dead_processes_are_orphans() {
        let own = format!("{NETNS_PREFIX}{}-0-peer", std::process::id());
        assert!(is_orphan(
            &format!("{NETNS_PREFIX}4194305-0-peer"),
            NETNS_PREFIX
        ));
        for name in [&own, "web", "cfbench-x-1", "cf-4194305-1"] {
            assert!(!is_orphan(name, NETNS_PREFIX), "{name}");
        }
        assert!(is_ours(&own) && is_ours("cf-7-0-a") && !is_ours("web"));
        // 4194305 in base 36.
        assert!(is_orphan_link("cf2hwchx0"));
        // Process 1 always runs.
        for name in ["cf1x0", "cfx", "cf-4194305-1", "eth0", "cfgx"] {
            assert!(!is_orphan_link(name), "{name}");
        }
    }
}
