//! systemd-nspawn: `/run/systemd/machines/NAME`.

/// Content of `/run/systemd/machines/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Unit (scope or service) of the machine.
    pub unit: Option<String>,
    /// Process id of the machine's init.
    pub leader: Option<u32>,
}

/// Parses the text of `/run/systemd/machines/NAME`: `KEY=VALUE` lines.
pub fn machine(text: &str) -> Machine {
    let get = |key: &str| {
        text.lines()
            .find_map(|l| l.strip_prefix(key)?.strip_prefix('=').map(str::to_owned))
    };
    Machine {
        unit: get("SCOPE")
            .or_else(|| get("UNIT"))
            .filter(|unit| !unit.is_empty()),
        leader: get("LEADER").and_then(|n| n.parse().ok()),
    }
}

/// Finds the machine whose unit is the last component of `cgroup_path`; systemd-machined keeps a
/// link `unit:UNIT` → NAME for each.
pub(crate) fn name(fs: &crate::fs::HostFs, cgroup_path: &std::path::Path) -> Option<String> {
    let unit = cgroup_path.file_name()?.to_str()?;
    let link = fs.path(format!("/run/systemd/machines/unit:{unit}"));
    super::identity::plausible_name(std::fs::read_link(link).ok()?.file_name()?.to_str()?)
}
