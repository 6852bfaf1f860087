//! Facts of the host that can change a result.

use crate::host_facts::meminfo;
use crate::isolation::data::{IsolationEnvironment, RuntimeKind};
use std::collections::BTreeMap;
use std::fs;

/// Collects the host's facts. Runtimes and images are added later.
pub(super) fn capture() -> IsolationEnvironment {
    let read = |path: &str| {
        let text = fs::read_to_string(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let facts = [
        ("kernel command line", read("/proc/cmdline")),
        ("operating system", os()),
        ("memory", meminfo("MemTotal:")),
        ("swap", meminfo("SwapTotal:")),
        (
            "frequency governor",
            read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ),
        (
            "simultaneous multithreading",
            read("/sys/devices/system/cpu/smt/control"),
        ),
        (
            "transparent huge pages",
            read("/sys/kernel/mm/transparent_hugepage/enabled"),
        ),
        (
            "congestion control",
            read("/proc/sys/net/ipv4/tcp_congestion_control"),
        ),
        ("overcommit", read("/proc/sys/vm/overcommit_memory")),
        (
            "hypervisor",
            read("/sys/hypervisor/type").or_else(|| read("/sys/class/dmi/id/sys_vendor")),
        ),
    ];
    let host = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    IsolationEnvironment {
        host,
        runtimes: BTreeMap::new(),
        images: BTreeMap::new(),
    }
}

fn os() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// Changes of the host since `before`. Cells measured before and after a change are not comparable.
pub(super) fn changes(before: &IsolationEnvironment, now: &IsolationEnvironment) -> Vec<String> {
    let changed = before.host.iter().filter_map(|(fact, was)| {
        let is = now.host.get(fact).map_or("unknown", String::as_str);
        (is != was).then(|| {
            format!(
                "{fact} has changed from '{was}' to '{is}' since this run began: start a new run"
            )
        })
    });
    changed.collect()
}

/// Version of a runtime, or the reason why it cannot be used.
pub(super) fn runtime(kind: RuntimeKind) -> Result<String, crate::BenchError> {
    super::runtime::of(kind).version()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 43.
    #[test]
    fn only_a_changed_host_is_reported() {
        let before = capture();
        assert!(before.host.contains_key("memory"));
        assert_eq!(changes(&before, &before), [] as [String; 0]);
        let mut now = before.clone();
        now.host.insert("memory".into(), "1 kB".into());
        let changed = changes(&before, &now);
        assert!(
            changed.len() == 1 && changed[0].contains("1 kB"),
            "{changed:?}"
        );
    }
}
