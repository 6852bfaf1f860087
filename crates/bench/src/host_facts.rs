//! Facts about this host for the manifest. A fact that cannot be read is left out or is "unknown";
//! no experiment fails for it.

use cofferdam_lab::cgroup::layout;
use std::collections::BTreeMap;
use std::fs;

/// `uname -r` and `-v`.
pub(crate) fn kernel() -> String {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    format!("{} {}", read("osrelease"), read("version"))
}

/// `model name` of the first CPU.
pub(crate) fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find(|l| l.starts_with("model name"))
        .and_then(|l| l.split_once(':'))
        .map_or("unknown".to_owned(), |(_, model)| model.trim().to_owned())
}

/// Size of the cache that the first CPU shares with other cores, bytes; `None` if the kernel does
/// not export it.
pub(crate) fn last_level_cache_bytes() -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let levels = caches.flatten().filter_map(|entry| {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        let kib: u64 = read("size")?.trim().strip_suffix('K')?.parse().ok()?;
        Some((level, kib << 10))
    });
    // Caches of level 1 and 2 belong to one core.
    levels.filter(|(level, _)| *level >= 3).max().map(|l| l.1)
}

/// Vulnerability → mitigation.
pub(crate) fn mitigations() -> BTreeMap<String, String> {
    let dir = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    dir.into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((
                name,
                fs::read_to_string(entry.path()).ok()?.trim().to_owned(),
            ))
        })
        .collect()
}

/// `hybrid` or `v2`.
pub(crate) fn cgroup_layout() -> String {
    match layout() {
        Ok(layout) if layout.v1_mounts.contains_key("cpu") => "hybrid",
        Ok(_) => "v2",
        Err(_) => "none",
    }
    .to_owned()
}

/// Numbers of the online CPUs.
pub(crate) fn online_cpus() -> Vec<u32> {
    parse_list(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default())
}

/// First and last online CPU.
pub(crate) fn outer_cpus() -> [u32; 2] {
    let cpus = online_cpus();
    [cpus.first(), cpus.last()].map(|cpu| cpu.copied().unwrap_or(0))
}

/// The kernel's list format: `0-3,8`.
fn parse_list(text: &str) -> Vec<u32> {
    text.trim()
        .split(',')
        .filter_map(|part| match part.split_once('-') {
            Some((first, last)) => Some(first.parse().ok()?..=last.parse().ok()?),
            None => part.parse().ok().map(|one| one..=one),
        })
        .flatten()
        .collect()
}

/// Memory of this host, bytes; 0 if the kernel does not export it.
pub(crate) fn memory_bytes() -> u64 {
    let kib = meminfo("MemTotal:").and_then(|t| t.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// The value behind `key` (with its colon) in `/proc/meminfo`, such as `1024 kB`.
pub(crate) fn meminfo(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let value = text.lines().find_map(|l| l.strip_prefix(key))?;
    Some(value.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Hyper-threads of the core of `cpu`, including `cpu`.
pub(crate) fn siblings(cpu: u32) -> Vec<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cpu_lists() {
        assert_eq!(parse_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list("\n"), [] as [u32; 0]);
    }

    #[test]
    fn this_host_has_facts() {
        assert!(!online_cpus().is_empty());
        assert!(kernel().contains('.'));
        assert!(!cpu_model().is_empty());
        assert!(memory_bytes() > 64 << 20);
    }
}
