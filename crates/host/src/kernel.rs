//! The kernel: its version, its build options, and its mitigations of CPU faults.

use crate::HostError;
use crate::fs::HostFs;
use serde::Serialize;
use std::collections::BTreeMap;

/// Returns the kernel release, such as `6.18.44-amd64`.
pub fn kernel_release(fs: &HostFs) -> Result<String, HostError> {
    let path = "/proc/sys/kernel/osrelease";
    let text = fs.read_text(path).map_err(HostError::reading(path))?;
    Ok(text.trim().to_owned())
}

/// Whether the scheduler deducts interrupt time from the interrupted task. `None` if this kernel
/// does not report it.
pub fn irq_time_accounting(fs: &HostFs) -> Option<bool> {
    // The kernel makes this file exactly if it was built with the option (since 6.1).
    if fs.exists("/proc/pressure/irq") {
        return Some(true);
    }
    let release = kernel_release(fs).unwrap_or_default();
    let config = fs
        .read_text(format!("/boot/config-{release}"))
        .unwrap_or_default();
    if config.lines().any(|l| l == "CONFIG_IRQ_TIME_ACCOUNTING=y") {
        return Some(true);
    }
    (fs.exists("/proc/pressure/cpu") || !config.is_empty()).then_some(false)
}

/// State of each CPU fault. Mitigations change the cost of system calls and context switches, so
/// measurements name them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mitigations {
    /// Text of the kernel by fault, such as `spectre_v2` → `Mitigation: Retpolines; …`.
    pub faults: BTreeMap<String, String>,
}

impl Mitigations {
    /// Lists mitigated and vulnerable faults in one line; unaffected ones are left out.
    pub fn summary(&self) -> String {
        let having = |prefix: &str| {
            let names = self
                .faults
                .iter()
                .filter(|(_, text)| text.starts_with(prefix));
            names
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let parts = [
            ("mitigated", having("Mitigation")),
            ("vulnerable", having("Vulnerable")),
        ];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let text: Vec<String> = parts
            .map(|(kind, names)| format!("{kind}: {names}"))
            .collect();
        if text.is_empty() {
            "not affected".to_owned()
        } else {
            text.join("; ")
        }
    }
}

/// Reads `/sys/devices/system/cpu/vulnerabilities`; empty if the kernel does not have it.
pub fn mitigations(fs: &HostFs) -> Mitigations {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let names = fs.names(directory).unwrap_or_default();
    let read = |name: std::path::PathBuf| {
        let text = fs
            .read_text(std::path::Path::new(directory).join(&name))
            .ok()?;
        Some((name.to_str()?.to_owned(), text.trim().to_owned()))
    };
    Mitigations {
        faults: names.into_iter().filter_map(read).collect(),
    }
}
