//! Cores, caches and memory that CPUs of this host share.

use crate::cpus::online_cpus;
use crate::fs::HostFs;
use crate::{HostError, procfs};
use cofferdam_types::{CpuId, LogicalCpu, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const CPUS: &str = "/sys/devices/system/cpu";

/// Reads the topology from sysfs: about ten small files a CPU.
///
/// If a kernel or hypervisor does not report cores, each CPU is one; if it does not report caches
/// or nodes, all CPUs share one. Source: Documentation/ABI/stable/sysfs-devices-system-cpu and
/// sysfs-devices-node.
///
/// Fails if the list of online CPUs cannot be read.
pub fn topology(fs: &HostFs) -> Result<Topology, HostError> {
    let online = online_cpus(fs)?;
    // Absent on kernels before 4.2; empty on most hosts.
    let isolated: BTreeSet<CpuId> = list(fs, format!("{CPUS}/isolated")).into_iter().collect();
    let nodes = nodes(fs);
    let cpus = online
        .into_iter()
        .map(|cpu| LogicalCpu {
            cpu,
            core: siblings(fs, cpu),
            llc: last_level_cache(fs, cpu),
            node: nodes.get(&cpu).copied().unwrap_or(0),
            isolated: isolated.contains(&cpu),
        })
        .collect();
    Ok(Topology { cpus })
}

fn list(fs: &HostFs, path: impl Into<PathBuf>) -> Vec<CpuId> {
    let text = fs.read_text(path.into()).unwrap_or_default();
    procfs::cpu_list(&text).unwrap_or_default()
}

/// Returns the lowest CPU that shares the core; unlike `core_id` it is unique in the host.
fn siblings(fs: &HostFs, cpu: CpuId) -> u32 {
    let folder = format!("{CPUS}/cpu{cpu}/topology");
    ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|file| lowest(fs, format!("{folder}/{file}"), cpu))
        .unwrap_or(cpu.0)
}

/// Returns the lowest CPU that shares the cache of the highest level.
fn last_level_cache(fs: &HostFs, cpu: CpuId) -> u32 {
    let folder = PathBuf::from(format!("{CPUS}/cpu{cpu}/cache"));
    let indices = fs.names(&folder).unwrap_or_default();
    let caches = indices.iter().filter_map(|index| {
        let cache = folder.join(index);
        let level: u32 = fs
            .read_text(cache.join("level"))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        Some((level, lowest(fs, cache.join("shared_cpu_list"), cpu)?))
    });
    caches
        .max_by_key(|(level, _)| *level)
        .map_or(0, |(_, cpu)| cpu)
}

/// Returns the first of a list that must include `cpu`.
fn lowest(fs: &HostFs, path: impl Into<PathBuf>, cpu: CpuId) -> Option<u32> {
    let cpus = list(fs, path);
    cpus.contains(&cpu).then(|| cpus.first().map(|c| c.0))?
}

/// Returns the NUMA node of each CPU; empty on kernels without NUMA.
fn nodes(fs: &HostFs) -> BTreeMap<CpuId, u32> {
    let folder = PathBuf::from("/sys/devices/system/node");
    let mut nodes = BTreeMap::new();
    for name in fs.names(&folder).unwrap_or_default() {
        let number = name.to_str().and_then(|n| n.strip_prefix("node"));
        let Some(node) = number.and_then(|n| n.parse().ok()) else {
            continue;
        };
        for cpu in list(fs, folder.join(&name).join("cpulist")) {
            nodes.insert(cpu, node);
        }
    }
    nodes
}

#[cfg(test)]
mod tests;
