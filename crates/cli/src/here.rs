//! Adaptation of suggested commands to this host.

use cofferdam_agent::config::DEFAULT_SOCKET;
use cofferdam_records::explain::{Start, shell_word};
use std::path::Path;

/// Directory that exists where systemd runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Folders of units (systemd.unit(5)).
const UNITS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// The agent's unit.
const UNIT: &str = "cofferdam.service";

/// Way to start an agent here.
pub fn start() -> Start {
    start_below(Path::new("/"))
}

fn start_below(root: &Path) -> Start {
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let has_unit = UNITS.iter().any(|folder| at(folder).join(UNIT).exists());
    match at(SYSTEMD).is_dir() && has_unit {
        true => Start::Service,
        false => Start::ByHand,
    }
}

/// `command` for the agent that listens on `socket`. Each part that asks the agent names the
/// socket, unless it is the default one. A part that starts an agent stays as it is, because the
/// agent's configuration names the socket.
pub fn with_socket(command: &str, socket: &Path) -> String {
    if socket == Path::new(DEFAULT_SOCKET) {
        return command.to_owned();
    }
    let asks = |part: &&str| {
        let words: Vec<&str> = part.split_whitespace().collect();
        let asked = ["rule", "status", "top", "explain"];
        matches!(words[..], ["sudo", "cofferdam", word, ..] if asked.contains(&word))
    };
    let part = |part: &str| match Some(part).filter(asks) {
        Some(part) => format!("{part} --socket {}", shell_word(&socket.to_string_lossy())),
        None => part.to_owned(),
    };
    let parts: Vec<String> = command.split(" && ").map(part).collect();
    parts.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 11.
    #[test]
    fn a_unit_starts_the_agent_only_where_systemd_runs() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/lib/systemd/system");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(UNIT), "").unwrap();
        assert_eq!(start_below(root.path()), Start::ByHand);
        std::fs::create_dir_all(root.path().join("run/systemd/system")).unwrap();
        assert_eq!(start_below(root.path()), Start::Service);
        std::fs::remove_file(folder.join(UNIT)).unwrap();
        assert_eq!(start_below(root.path()), Start::ByHand);
    }

    /// Promise 11.
    #[test]
    fn a_command_names_the_socket_of_the_agent() {
        let command = "sudo systemctl start cofferdam && sudo cofferdam rule set web --cpu strict";
        assert_eq!(with_socket(command, Path::new(DEFAULT_SOCKET)), command);
        assert_eq!(
            with_socket(command, Path::new("/tmp/a.sock")),
            format!("{command} --socket /tmp/a.sock")
        );
        assert_eq!(
            with_socket("sudo cofferdam status", Path::new("/tmp/it's a.sock")),
            "sudo cofferdam status --socket '/tmp/it'\\''s a.sock'"
        );
        let others = "sudo podman update --cpus 0.8 api";
        assert_eq!(with_socket(others, Path::new("/tmp/a.sock")), others);
    }
}
