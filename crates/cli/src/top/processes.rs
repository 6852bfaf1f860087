//! Processes of a container, from cgroup.procs and /proc. Their number is bounded, whatever the
//! container starts.

use super::inspection::Processes;
use crate::exit::one_line;
use cofferdam_host::{CgroupLayout, HostFs, TICKS_PER_S, parse};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Most processes that are read.
const MOST: usize = 256;
/// Most cgroups below the container's that are read.
const MOST_CGROUPS: usize = 64;
/// Most bytes of a command line that are read.
const COMMAND_BYTES: u64 = 1024;

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Process id on the host.
    pub pid: u32,
    /// Command line, safe for a terminal; the name in brackets where there is none.
    pub command: String,
    /// CPU use since the last reading, percent of one CPU; `None` at the first.
    pub cpu_pct: Option<f64>,
    /// Threads.
    pub threads: u64,
}

/// Needed fields of /proc/PID/stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name of the process.
    pub name: String,
    /// CPU time since the start, clock ticks.
    pub ticks: u64,
    threads: u64,
    /// Start, clock ticks after the boot: distinguishes it from an earlier process of the same
    /// number.
    pub start: u64,
}

/// Reader of processes; remembers their CPU times from one reading to the next.
#[derive(Debug, Default)]
pub struct Reader {
    last: HashMap<(u32, u64), u64>,
    at: Option<Instant>,
}

impl Reader {
    /// Reads the processes in the cgroup at `cgroup_path` and below.
    pub fn read(&mut self, cgroup_path: &Path) -> Result<Processes, String> {
        let fs = HostFs::host();
        let layout = CgroupLayout::read(&fs).map_err(|e| e.to_string())?;
        let folder = layout.v2_directory(cgroup_path);
        let (pids, more) =
            pids(&fs, folder).map_err(|e| format!("its cgroup cannot be read: {e}"))?;
        let now = Instant::now();
        let seconds = self.at.map(|at| now.duration_since(at).as_secs_f64());
        let mut ticks = HashMap::with_capacity(pids.len());
        let mut shown: Vec<_> = (pids.into_iter())
            .filter_map(|pid| {
                // A process that has ended meanwhile is left out.
                let stat = stat(&fs.read_text(format!("/proc/{pid}/stat")).ok()?)?;
                ticks.insert((pid, stat.start), stat.ticks);
                let before = self.last.get(&(pid, stat.start));
                let used = before.map(|before| stat.ticks.saturating_sub(*before) as f64);
                Some(Process {
                    pid,
                    command: command(&fs, pid, &stat.name),
                    cpu_pct: used
                        .zip(seconds)
                        .map(|(t, s)| t / TICKS_PER_S / s.max(1e-3) * 100.0),
                    threads: stat.threads,
                })
            })
            .collect();
        (self.last, self.at) = (ticks, Some(now));
        shown.sort_by(|a, b| {
            let cpu = |p: &Process| p.cpu_pct.unwrap_or(0.0);
            cpu(b).total_cmp(&cpu(a)).then(a.pid.cmp(&b.pid))
        });
        Ok(Processes { shown, more })
    }
}

/// Ids of at most [`MOST`] processes, and whether there are more.
fn pids(fs: &HostFs, folder: PathBuf) -> std::io::Result<(Vec<u32>, bool)> {
    let mut found: Vec<u32> = parse::procs(&fs.read_text(folder.join("cgroup.procs"))?).collect();
    let mut folders = fs.directories(&folder).unwrap_or_default();
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if found.len() > MOST || seen > MOST_CGROUPS {
            found.truncate(MOST);
            return Ok((found, true));
        }
        let text = fs
            .read_text(folder.join("cgroup.procs"))
            .unwrap_or_default();
        found.extend(parse::procs(&text));
        folders.extend(fs.directories(&folder).unwrap_or_default());
    }
    let more = found.len() > MOST;
    found.truncate(MOST);
    Ok((found, more))
}

/// Command line of a process, safe for a terminal; the name in brackets where there is none.
pub fn command(fs: &HostFs, pid: u32, name: &str) -> String {
    let line = fs
        .read(format!("/proc/{pid}/cmdline"), COMMAND_BYTES)
        .unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    match line.trim() {
        "" => format!("[{}]", one_line(name)),
        line => one_line(line),
    }
}

/// Parses /proc/PID/stat (proc_pid_stat(5)). The second field, the name, may contain blanks and
/// parentheses.
pub fn stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    // Fields are counted from the third one, the state.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        ticks: number(14)?.saturating_add(number(15)?),
        threads: number(20)?,
        start: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 140 15 16 17 20 0 7 0 4242 0";
        let stat = |name: &str| stat(&format!("12 ({name}) {tail}")).unwrap();
        for name in ["web", "a) S 1 (b", "", "x y"] {
            let found = stat(name);
            assert_eq!(
                (found.name.as_str(), found.ticks, found.threads, found.start),
                (name, 155, 7, 4242)
            );
        }
        for broken in [
            "",
            "12",
            "12 (web",
            "12 (web) S 1",
            ") (",
            "12 (web) S a b c d e f g h i j k l m n o p q r s",
        ] {
            assert_eq!(super::stat(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_process_is_read_with_its_threads() {
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let own = super::stat(&own).unwrap();
        assert!(own.threads >= 1 && own.start > 0, "{own:?}");
        let text = command(&HostFs::host(), std::process::id(), &own.name);
        assert!(!text.is_empty() && !text.contains('\0'), "{text}");
    }
}
