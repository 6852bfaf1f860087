//! What tests and Cofferdam left on the host.

use crate::names::{link_prefix, prefix};
use crate::{cgroup, try_run};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Everything on this host whose name says that it is ours, one line each: `kind name`.
/// Namespaces, links, cgroups, BPF programs, NAPI threads of our links, podman containers.
pub fn list() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    add(
        &mut found,
        "namespace",
        dir_names(Path::new("/run/netns")),
        "cf-",
    );
    let links = dir_names(Path::new("/sys/class/net"));
    add(
        &mut found,
        "link",
        links.into_iter().filter(|n| is_our_link(n)).collect(),
        "cf",
    );
    for mount in cgroup::mounts() {
        for name in dir_names(&mount)
            .into_iter()
            .filter(|n| n.starts_with("cf-"))
        {
            found.insert(format!("cgroup {}", mount.join(name).display()));
        }
    }
    for (pid, name) in processes() {
        if name.strip_prefix("napi/").is_some_and(is_our_link) {
            found.insert(format!("NAPI thread {name} ({pid})"));
        }
    }
    for program in bpf_programs() {
        found.insert(format!("BPF program {program}"));
    }
    let containers = try_run(&["podman", "ps", "-a", "--format", "{{.Names}}"]);
    let names = containers
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    add(&mut found, "podman container", names, "cf-");
    found
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

/// Names of the BPF programs that are loaded and whose name begins with `cf_` (ours). Empty
/// without bpftool.
pub fn bpf_programs() -> Vec<String> {
    let Ok(out) = try_run(&["bpftool", "--json", "prog", "list"]) else {
        return Vec::new();
    };
    let programs: Vec<serde_json::Value> = serde_json::from_str(&out).unwrap_or_default();
    let names = programs
        .iter()
        .filter_map(|p| Some((p["id"].as_u64()?, p["name"].as_str()?)));
    names
        .filter(|(_, n)| n.starts_with("cf_"))
        .map(|(id, n)| format!("{n} ({id})"))
        .collect()
}

fn add(found: &mut BTreeSet<String>, kind: &str, names: Vec<String>, prefix: &str) {
    let ours = names.into_iter().filter(|n| n.starts_with(prefix));
    found.extend(ours.map(|n| format!("{kind} {n}")));
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
