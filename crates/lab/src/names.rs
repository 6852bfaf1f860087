//! The names of what is made on a host: they carry the process id, so that what a killed process
//! left can be distinguished from what belongs to a running one. The sweep and `make leftovers` go
//! by them.

use std::path::Path;

/// Tests' namespaces, cgroups and containers are named `cf-PID-N-LABEL`.
pub const TEST_PREFIX: &str = "cf-";
/// Benchmarks' network namespaces are named `cfbench-PID-SERIAL-ROLE`.
pub const NETNS_PREFIX: &str = "cfbench-";
/// Benchmarks' cgroups, images, and directories in [`DATA_ROOT`] and [`SOCKET_ROOT`], are named
/// `cofferdam-bench-PID-SERIAL`.
pub const CGROUP_PREFIX: &str = "cofferdam-bench-";

/// Where tenants' files are: on a real file system, as the standard for files that outlive a boot
/// has it.
pub const DATA_ROOT: &str = "/var/tmp";
/// Where sockets between workers are: gone with the next boot at the latest.
pub const SOCKET_ROOT: &str = "/run";

/// Whether a benchmark or a test gave this name.
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

/// Whether `name` is a test's link, `cfPIDxN` with the id in base 36, of a dead process.
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
        // Process 1 lives.
        for name in ["cf1x0", "cfx", "cf-4194305-1", "eth0", "cfgx"] {
            assert!(!is_orphan_link(name), "{name}");
        }
    }
}
