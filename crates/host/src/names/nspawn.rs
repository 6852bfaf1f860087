//! systemd-nspawn: unit names, and `/run/systemd/machines/NAME`.

/// What `/run/systemd/machines/NAME` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The unit (scope or service) that the machine runs in.
    pub unit: Option<String>,
    /// Process id of its init.
    pub leader: Option<u32>,
}

/// Reads the text of `/run/systemd/machines/NAME`: `KEY=VALUE` lines.
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

/// Undoes the escapes of systemd unit names: `\x2d` is `-`, `-` is `/`.
/// Source: systemd-escape(1). A name with a bad escape is kept as it is written; `-` is kept
/// too, because machine names have no `/`.
pub fn unescape(name: &str) -> String {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail
            .get(1..3)
            .filter(|_| byte == b'\\' && tail.first() == Some(&b'x'));
        let code = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 16).ok());
        match code {
            Some(decoded) => {
                out.push(decoded);
                rest = tail.get(3..).unwrap_or(&[]);
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| name.to_owned())
}

/// The machine whose unit is the last component of `cgroup_path`; systemd-machined keeps a link
/// `unit:UNIT` → NAME for each.
pub(crate) fn name(fs: &crate::fs::HostFs, cgroup_path: &std::path::Path) -> Option<String> {
    let unit = cgroup_path.file_name()?.to_str()?;
    let link = fs.path(format!("/run/systemd/machines/unit:{unit}"));
    super::plausible(std::fs::read_link(link).ok()?.file_name()?.to_str()?)
}
