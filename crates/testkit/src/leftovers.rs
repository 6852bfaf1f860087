//! What tests and Cofferdam left on the host.

use crate::names::{link_prefix, prefix};
use crate::try_run;
use cofferdam_lab::cgroup::{all_mounts, layout};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How names of the fixtures and of the benchmarks begin.
const OUR_PREFIXES: [&str; 3] = ["cf-", "cfbench-", "cofferdam-bench-"];

/// Maps that only the accounting has (`bpf/include/state.h`).
const OUR_MAPS: [&str; 4] = ["netns_rows", "cgroup_rows", "link_rows", "sched_cell_map"];

/// Everything on this host whose name says that it is ours, one line each: `kind name`.
/// Namespaces, folders, links, cgroups, NAPI threads of our links, podman containers, and BPF
/// programs that no running cofferdam holds ([`in_use`] has those).
pub fn list() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut add = |kind: &str, names: Vec<String>, is_ours: fn(&str) -> bool| {
        found.extend(
            names
                .iter()
                .filter(|n| is_ours(n))
                .map(|n| format!("{kind} {n}")),
        );
    };
    add(
        "namespace",
        dir_names(Path::new("/run/netns")),
        has_our_prefix,
    );
    add("folder", dir_names(Path::new("/run")), has_our_prefix);
    add("folder", dir_names(Path::new("/var/tmp")), has_our_prefix);
    add("link", dir_names(Path::new("/sys/class/net")), is_our_link);
    let containers = try_run(&["podman", "ps", "-a", "--format", "{{.Names}}"]);
    let containers = containers
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    add("podman container", containers, has_our_prefix);
    let mounts = layout().map(|layout| all_mounts(&layout));
    for mount in mounts.unwrap_or_default() {
        for name in dir_names(&mount).into_iter().filter(|n| has_our_prefix(n)) {
            found.insert(format!("cgroup {}", mount.join(name).display()));
        }
    }
    for (pid, name) in processes() {
        if name.strip_prefix("napi/").is_some_and(is_our_link) {
            found.insert(format!("NAPI thread {name} ({pid})"));
        }
    }
    let held = programs_in_use();
    for (name, id) in accounting_programs() {
        if !held.contains_key(&id) {
            found.insert(format!("BPF program {name} {id}"));
        }
    }
    found
}

/// What running processes of Cofferdam hold, which is not left over: one line a process, with its
/// id, its command and how many BPF programs it has loaded.
pub fn in_use() -> BTreeSet<String> {
    let ours: BTreeSet<u32> = accounting_programs()
        .into_iter()
        .map(|(_, id)| id)
        .collect();
    let mut programs_of: BTreeMap<u32, usize> = BTreeMap::new();
    for (id, holder) in programs_in_use() {
        if ours.contains(&id) {
            *programs_of.entry(holder).or_default() += 1;
        }
    }
    let line = |(pid, count): (u32, usize)| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        format!(
            "process {pid} ({}): {count} BPF programs",
            command.trim_end()
        )
    };
    programs_of.into_iter().map(line).collect()
}

/// The BPF programs that a process of the binary `cofferdam` holds: program id to process id.
fn programs_in_use() -> BTreeMap<u32, u32> {
    let mut held = BTreeMap::new();
    for (pid, _) in processes().filter(|(_, name)| name == "cofferdam") {
        let descriptors = Path::new("/proc").join(pid.to_string()).join("fdinfo");
        for descriptor in dir_names(&descriptors) {
            let text = fs::read_to_string(descriptors.join(descriptor)).unwrap_or_default();
            let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
            if let Some(id) = id.and_then(|id| id.trim().parse().ok()) {
                held.insert(id, pid);
            }
        }
    }
    held
}

/// The part of [`list`] that this process made.
fn ours() -> BTreeSet<String> {
    let (prefix, link) = (prefix(), link_prefix());
    let mine = |line: &String| {
        line.split_whitespace().any(|w| {
            let name = w.rsplit('/').next().unwrap_or(w);
            name.starts_with(&prefix) || name.starts_with(&link)
        })
    };
    list().into_iter().filter(mine).collect()
}

/// Panics when something that this process made is still on the host. Waits a moment first:
/// the kernel takes namespaces down in the background.
#[track_caller]
pub fn assert_nothing_left() {
    let start = Instant::now();
    loop {
        let left = ours();
        if left.is_empty() {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "left on the host: {left:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The BPF programs of the accounting that are loaded, as `NAME ID`. They are known by their
/// maps: program names such as `softirq_entry` are anybody's.
pub fn bpf_programs() -> Vec<String> {
    let programs = accounting_programs().into_iter();
    programs.map(|(name, id)| format!("{name} {id}")).collect()
}

fn accounting_programs() -> Vec<(String, u32)> {
    let is_ours = |name: &OsStr| OUR_MAPS.iter().any(|ours| name == *ours);
    let maps: BTreeSet<u32> = MapInfoIter::default()
        .filter(|map| is_ours(&map.name))
        .map(|map| map.id)
        .collect();
    let programs =
        ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true));
    programs
        .filter(|program| program.map_ids.iter().any(|id| maps.contains(id)))
        .map(|program| (program.name.to_string_lossy().into_owned(), program.id))
        .collect()
}

fn has_our_prefix(name: &str) -> bool {
    OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// `cf`, a process id in base 36, `x`, a number.
fn is_our_link(name: &str) -> bool {
    let name = name.split('-').next().unwrap_or(name);
    let Some((pid, number)) = name.strip_prefix("cf").and_then(|n| n.split_once('x')) else {
        return false;
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric());
    digits(pid) && digits(number)
}

fn processes() -> impl Iterator<Item = (u32, String)> {
    dir_names(Path::new("/proc"))
        .into_iter()
        .filter_map(|name| {
            let pid = name.parse().ok()?;
            Some((
                pid,
                fs::read_to_string(format!("/proc/{pid}/comm"))
                    .ok()?
                    .trim()
                    .to_owned(),
            ))
        })
}

fn dir_names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|e| e.file_name().into_string().ok())
        .collect()
}
