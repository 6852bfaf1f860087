//! Manual pages: the definition of the command line, and sections that it has no place for.

use crate::args::{Cli, examples};
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::path::Path;

/// Files of the commands whose path begins with one of the words: path and content.
const FILES: &[(&[&str], &str, &str)] = &[
    (
        &["agent"],
        "/etc/cofferdam/cofferdam.toml",
        "Configuration of the agent.",
    ),
    (
        &[
            "",
            "agent",
            "status",
            "explain",
            "rule",
            "top",
            "web",
            "flows",
            "export",
            "accounting",
            "gateway",
        ],
        "/run/cofferdam/agent.sock",
        "Socket of the running agent.",
    ),
    (
        &["agent"],
        "/run/cofferdam",
        "Journal of the changes to the host. A start after a crash reverts them with it.",
    ),
    (
        &["agent", "export", "top"],
        "/var/lib/cofferdam/history",
        "History that the agent keeps.",
    ),
    (
        &["latency"],
        "/run/cofferdam/latency.sock",
        "Socket where containers read their own reports.",
    ),
    (
        &["dataplane"],
        cofferdam_dataplane::config::DEFAULT_SOCKET,
        "Socket of the running dataplane.",
    ),
    (
        &["simulate"],
        "/usr/share/doc/cofferdam/examples/simulate",
        "Example hosts and tenants.",
    ),
    (
        &[""],
        "/usr/share/doc/cofferdam",
        "The documentation, and examples of configuration files.",
    ),
];

/// Exit codes of all commands; docs/src/reference/exit-codes.md has the details.
const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Success."),
    (
        "1",
        "Failure: the line on standard error names action, object, reason and remedy.",
    ),
    ("2", "The command line is invalid."),
    (
        "3",
        "This host lacks a requirement: the line names it and the remedy.",
    ),
    ("130", "Interrupted, after cleaning up."),
];

/// Writes one page for each command to `dir`: `cofferdam.1`, `cofferdam-top.1`, …; hidden commands
/// have none.
pub fn write(dir: &Path) -> anyhow::Result<()> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, "", dir)
        .with_context(|| format!("cannot write manual pages to {}", dir.display()))
}

fn pages(command: &Command, path: &str, dir: &Path) -> std::io::Result<()> {
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        let path = format!("{path} {}", below.get_name());
        pages(below, path.trim_start(), dir)?;
    }
    let page = Man::new(command.clone());
    std::fs::write(dir.join(page.get_filename()), text(&page, path)?)
}

/// Page of the command at `path`.
fn text(page: &Man, path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    let mut more = Roff::new();
    section(&mut more, "EXAMPLES", examples::of(path));
    let first = path.split(' ').next().unwrap_or_default();
    let files = FILES
        .iter()
        .filter(|(commands, ..)| commands.contains(&first));
    let files: Vec<_> = files.map(|(_, file, content)| (*file, *content)).collect();
    section(&mut more, "FILES", &files);
    match path {
        "dataplane exec" => {
            more.control("SH", ["EXIT STATUS"]);
            more.text([roman("That of the program once it runs. Before:")]);
            entries(&mut more, &EXIT_STATUS);
        }
        _ => section(&mut more, "EXIT STATUS", &EXIT_STATUS),
    }
    more.to_writer(&mut bytes)?;
    Ok(bytes)
}

/// Writes a section of terms with descriptions; nothing for an empty one.
fn section(roff: &mut Roff, title: &str, all: &[(&str, &str)]) {
    if !all.is_empty() {
        roff.control("SH", [title]);
        entries(roff, all);
    }
}

fn entries(roff: &mut Roff, all: &[(&str, &str)]) {
    for (term, description) in all {
        roff.control("TP", []);
        roff.text([bold(*term)]);
        roff.text([roman(*description)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Promise 78.
    #[test]
    fn every_page_has_examples_files_and_exit_codes() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let pages = fs::read_dir(dir.path()).unwrap();
        let names: Vec<String> = pages
            .map(|page| page.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.len() > 50, "{names:?}");
        for name in &names {
            let page = read(name);
            assert!(page.contains(".SH \"EXIT STATUS\"\n"), "{name}: {page}");
            let title = page.lines().find(|l| l.starts_with(".TH ")).unwrap();
            assert!(title.contains(name.trim_end_matches(".1")), "{title}");
        }
        let top = read("cofferdam-top.1");
        for part in [
            ".SH EXAMPLES\n",
            ".SH FILES\n",
            "cofferdam/agent.sock",
            "cofferdam top",
        ] {
            assert!(top.replace("\\-", "-").contains(part), "{part}: {top}");
        }
        assert!(!names.iter().any(|name| name.contains("bench-worker")));
    }
}
