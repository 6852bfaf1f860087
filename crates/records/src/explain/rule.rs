//! Shell commands that put a rule for one container in force.

use super::{Agent, Start};
use crate::accounting::ContainerRecord;
use cofferdam_types::{Pattern, printable};

/// Word for a shell that selects exactly `container` among `all`. `None` where it has no path, or
/// none that can be printed.
pub(super) fn selector(container: &ContainerRecord, all: &[ContainerRecord]) -> Option<String> {
    let is_unique = all.iter().filter(|c| c.name == container.name).count() == 1;
    if is_unique && is_plain(&container.name) && !container.name.contains([':', '/']) {
        return Some(container.name.clone());
    }
    if let Some(id) = &container.id {
        let short: String = id.chars().take(12).collect();
        let is_hex = short.len() == 12 && short.chars().all(|c| c.is_ascii_hexdigit());
        let unique = |c: &&ContainerRecord| c.id.as_ref().is_some_and(|i| i.starts_with(&short));
        if is_hex && all.iter().filter(unique).count() == 1 {
            return Some(format!("id:{short}"));
        }
    }
    let path = container.cgroup_path.as_str();
    if !path.starts_with('/') {
        return None;
    }
    let shown = printable(path);
    let exact = Pattern::escape(&shown);
    // A path with characters that control a terminal is selected by its printed form, which then
    // must not be a pattern.
    (shown == path || exact == shown).then(|| quote(format!("cgroup:{exact}")))
}

/// Quotes `word` as one word for a shell.
fn quote(word: String) -> String {
    match is_plain(&word) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Whether no character of `text` has a meaning for a shell, a glob or an option parser.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(plain)
}

/// Command that has the agent charge `selector` for the network work that it causes.
pub(super) fn enforce(selector: &str) -> String {
    format!("sudo cofferdam rule set {selector} --network-cpu enforce")
}

/// Command that has the agent reserve `cpus` for `selector`.
pub(super) fn reserve(selector: &str, cpus: f64) -> String {
    format!("sudo cofferdam rule set {selector} --cpu strict --cpus {cpus}")
}

/// `command`, which needs an agent, in the form that works on this host, and its effect in full.
pub(super) fn for_agent(agent: &Agent, command: String, effect: &str) -> (Option<String>, String) {
    let ends = "until the agent ends or 'rule clear'";
    match agent {
        Agent::Running(both) => (
            Some(command),
            format!(
                "{effect} {ends}; a rule in {} stays",
                both.1.configuration.path
            ),
        ),
        Agent::NotPermitted => (Some(command), format!("{effect} {ends}")),
        Agent::NotRunning(Start::Service) => (
            Some(format!("sudo systemctl start cofferdam && {command}")),
            format!("starts the agent and {effect} {ends}"),
        ),
        Agent::NotRunning(Start::ByHand) => (
            Some(format!("sudo cofferdam agent & {command} --wait 1m")),
            format!("starts an agent (this host has no service for it) and {effect} {ends}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::made_up::{Scene, container};

    /// The selector means no other container, and is safe in a shell.
    /// Promise 11.
    #[test]
    fn a_selector_names_one_container_and_is_safe() {
        let mut all = Scene::new(&[
            container(1, "web"),
            container(2, "twin"),
            container(3, "twin"),
            container(4, "a; rm -rf /"),
            container(5, "--cpus"),
            container(6, "*"),
            container(7, "id:abc"),
            container(8, r"web\x2d1"),
            container(9, "[x]"),
            container(10, "esc\x1b"),
        ])
        .record()
        .containers;
        all.sort_by_key(|c| c.cgroup_id);
        all[1].id = Some("3f2a".repeat(16));
        all[2].id = None;
        all[3].id = Some("0123456789abcdef".repeat(4));
        all[5].cgroup_path = "/with space/it's".into();
        all[7].cgroup_path = r"/web@eu\x2d1.service".into();
        all[8].cgroup_path = "/a[x]*".into();
        all[9].cgroup_path = "/esc\x1b[".into();
        let named: Vec<_> = all.iter().map(|c| selector(c, &all)).collect();
        let expected = [
            Some("web"),
            Some("id:3f2a3f2a3f2a"),
            Some("cgroup:/tenants/3"),
            Some("id:0123456789ab"),
            Some("cgroup:/tenants/5"),
            Some(r"'cgroup:/with space/it'\''s'"),
            Some("cgroup:/tenants/7"),
            Some(r"'cgroup:/web@eu\x2d1.service'"),
            Some("'cgroup:/a[[]x[]][*]'"),
            None,
        ];
        assert_eq!(named, expected.map(|e| e.map(str::to_owned)));
        let command = enforce("web");
        assert_eq!(command, "sudo cofferdam rule set web --network-cpu enforce");
    }
}
