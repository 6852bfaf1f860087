//! Parsers of the kernel's text files in `/proc` and `/sys`.

use cofferdam_types::{CpuId, NetnsId};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// One line of `/proc/PID/mountinfo`, with the fields that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Directory of the file system that is mounted, as the reader's namespace shows it.
    pub root: PathBuf,
    /// Mount point.
    pub point: PathBuf,
    /// Type, such as `cgroup2`.
    pub fs_type: String,
    /// Options of the superblock, such as `rw,cpu,cpuacct`.
    pub super_options: String,
}

/// Parses the mounts in the text of `/proc/PID/mountinfo`; leaves out malformed lines. Source:
/// proc_pid_mountinfo(5).
pub fn mountinfo(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // The number of optional fields varies; a lone "-" ends them.
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let mut right = right.split(' ');
    Some(Mount {
        root: unescape_octal(left.next()?),
        point: unescape_octal(left.next()?),
        fs_type: right.next()?.to_owned(),
        super_options: right.nth(1)?.to_owned(),
    })
}

/// Decodes space, tab, newline and backslash, which the kernel writes as `\ooo`.
fn unescape_octal(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        let code = bytes
            .get(i + 1..i + 4)
            .filter(|_| byte == b'\\')
            .and_then(|digits| {
                digits.iter().try_fold(0u32, |n, d| {
                    (b'0'..=b'7')
                        .contains(d)
                        .then(|| n * 8 + u32::from(d - b'0'))
                })
            });
        match code.and_then(|n| u8::try_from(n).ok()) {
            Some(decoded) => {
                out.push(decoded);
                i += 4;
            }
            None => {
                out.push(byte);
                i += 1;
            }
        }
    }
    PathBuf::from(OsStr::from_bytes(&out))
}

/// Finds the path in the unified hierarchy in `/proc/PID/cgroup` (its `0::` line). The kernel
/// appends ` (deleted)` to the path of a removed cgroup. A name may also end in that way, so it
/// stays.
pub fn proc_cgroup_v2(text: impl AsRef<[u8]>) -> Option<PathBuf> {
    let mut lines = text.as_ref().split(|byte| *byte == b'\n');
    let path = lines.find_map(|line| line.strip_prefix(b"0::"))?;
    let path = path.starts_with(b"/").then(|| OsStr::from_bytes(path));
    path.map(PathBuf::from)
}

/// Finds the path in the v1 hierarchy of `controller`, in the text of `/proc/PID/cgroup`.
pub fn proc_cgroup_v1(text: &str, controller: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let names = fields.next()?;
        let path = fields.next()?;
        names
            .split(',')
            .any(|n| n == controller)
            .then(|| PathBuf::from(path))
    })
}

/// Reads the start of a process in `/proc/PID/stat`, in ticks since the boot. Source:
/// proc_pid_stat(5), field 22; the name before it may contain blanks and parentheses.
pub fn stat_start(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Reads the namespace in the target of a `/proc/PID/ns/net` link: `net:[4026531840]`.
pub fn netns_link(target: &str) -> Option<NetnsId> {
    target
        .strip_prefix("net:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
        .map(NetnsId)
}

/// Parses the process ids in the text of `cgroup.procs`; leaves out 0 (a process outside the
/// reader's PID namespace).
pub fn procs(text: &str) -> impl Iterator<Item = u32> {
    text.lines()
        .filter_map(|l| l.trim().parse().ok())
        .filter(|pid| *pid != 0)
}

/// Parses a kernel list of CPUs such as `0-3,8`. `None` if it is malformed or has a number above
/// 65535 (the kernel's own limit is 8192).
pub fn cpu_list(text: &str) -> Option<Vec<CpuId>> {
    let text = text.trim();
    let mut cpus = BTreeSet::new();
    if text.is_empty() {
        return Some(Vec::new());
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().map(|n| CpuId(n.into())).collect())
}

/// Ticks per second in `/proc/stat` and `/proc/PID/stat` (USER_HZ): 100 for user space on every
/// architecture.
pub const TICKS_PER_S: f64 = 100.0;

/// Parses the time of each CPU in `/proc/stat`, in ticks: user, nice, system, idle, iowait, irq,
/// softirq, steal and so on, up to the first field that is no number.
pub fn cpu_ticks(stat: &str) -> impl Iterator<Item = (CpuId, Vec<u64>)> {
    // The rest may be long: every interrupt of the host.
    let lines = stat.lines().take_while(|line| line.starts_with("cpu"));
    lines.filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        // The line of all CPUs together has no number.
        let cpu = CpuId(fields.next()?.strip_prefix("cpu")?.parse().ok()?);
        Some((cpu, fields.map_while(|field| field.parse().ok()).collect()))
    })
}

/// Reads `usage_usec` of a v2 `cpu.stat`, microseconds.
pub fn cpu_stat_usage_us(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|l| l.strip_prefix("usage_usec "))
        .and_then(|n| n.trim().parse().ok())
}
