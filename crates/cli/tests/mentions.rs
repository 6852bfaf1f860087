//! Test that every option in a message, a help text or a document is an option of its command.
#![allow(clippy::unwrap_used)]

mod mentions_in;

use clap::Command;
use mentions_in::{literals, mentions};
use std::fs;
use std::path::{Path, PathBuf};

/// Commands that print the messages of a part of the sources; the first part that matches counts.
/// `Each`: all of these have the option. `Any`: one of these, or a subcommand.
enum Of {
    Each(&'static [&'static str]),
    Any(&'static [&'static str]),
}

const BENCHES: &[&str] = &[
    "bench penalty",
    "bench latency",
    "bench accounting",
    "bench reservation",
    "bench simulation",
    "bench agent",
    "bench dataplane",
    "bench isolation",
];

const PARTS: &[(&str, Of)] = &[
    (
        "bench/src/experiment/cpu_options.rs",
        Of::Each(&["bench penalty", "bench accounting", "demo"]),
    ),
    ("bench/src/penalty", Of::Each(&["bench penalty"])),
    ("bench/src/latency", Of::Each(&["bench latency"])),
    ("bench/src/accounting", Of::Each(&["bench accounting"])),
    ("bench/src/reservation", Of::Each(&["bench reservation"])),
    ("bench/src/simulation", Of::Each(&["bench simulation"])),
    ("bench/src/history", Of::Each(&["bench history"])),
    ("bench/src/agent", Of::Each(&["bench agent"])),
    ("bench/src/dataplane", Of::Each(&["bench dataplane"])),
    ("bench/src/isolation", Of::Each(&["bench isolation"])),
    ("bench/src/demo", Of::Each(&["demo"])),
    ("bench/src", Of::Each(BENCHES)),
    ("lab/src", Of::Each(BENCHES)),
    (
        "cli/src/bench/isolation.rs",
        Of::Any(&["bench isolation", "bench compare"]),
    ),
    (
        "cli/src/bench/mod.rs",
        Of::Any(&["bench", "report", "demo"]),
    ),
    ("cli/src/dataplane", Of::Any(&["dataplane"])),
    ("cli/src/simulate", Of::Any(&["simulate"])),
    ("simulate/src", Of::Any(&["simulate"])),
    ("cli/src/latency", Of::Any(&["latency"])),
    ("cli/src/agent.rs", Of::Any(&["agent"])),
    ("cli/src/status", Of::Any(&["status"])),
    ("cli/src/rule.rs", Of::Any(&["rule"])),
    ("records/src/explain", Of::Any(&["explain", "rule"])),
    ("agent/src", Of::Any(&["agent", "status"])),
    ("", Of::Any(&[""])),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The command at `path`, such as `bench penalty`.
fn command<'a>(all: &'a Command, path: &str) -> Option<&'a Command> {
    let words = path.split_whitespace();
    words
        .into_iter()
        .try_fold(all, |at, word| at.find_subcommand(word))
}

fn has(command: &Command, option: &str) -> bool {
    let mut arguments = command.get_arguments();
    ["help", "version"].contains(&option)
        || arguments.any(|a| {
            a.get_long() == Some(option)
                || a.get_all_aliases().is_some_and(|all| all.contains(&option))
        })
}

fn has_below(command: &Command, option: &str) -> bool {
    has(command, option)
        || command
            .get_subcommands()
            .any(|below| has_below(below, option))
}

fn is_known(all: &Command, of: &Of, option: &str) -> bool {
    let find = |path: &&str| command(all, path).unwrap_or_else(|| panic!("no command {path}"));
    match of {
        Of::Each(paths) => paths.iter().all(|path| has(find(path), option)),
        Of::Any(paths) => paths.iter().any(|path| has_below(find(path), option)),
    }
}

/// Collects the files below `place` whose names end in `ending`.
fn files(place: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(place)
        .unwrap_or_else(|e| panic!("{}: {e}", place.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files(&path, ending, found),
            false if path.to_string_lossy().ends_with(ending) => found.push(path),
            false => {}
        }
    }
}

/// Whether a file prints no options: the words of a worker are not options of a command, and tests
/// name options that do not exist on purpose.
fn prints_nothing(path: &str) -> bool {
    [
        "bench/src/worker",
        "bench/src/bin",
        "lab/src/fixtures",
        "packetdrill-shim",
    ]
    .iter()
    .any(|part| path.starts_with(part))
        || path.ends_with("tests.rs")
        || path.contains("/tests/")
        || !path.contains("/src/")
}

/// Promise 76.
#[test]
fn every_option_that_a_message_names_exists_on_its_command() {
    let all = cofferdam::command();
    let crates = root().join("crates");
    let mut sources = Vec::new();
    files(&crates, ".rs", &mut sources);
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for path in &sources {
        let name = path
            .strip_prefix(&crates)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if prints_nothing(&name) {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let (_, of) = PARTS
            .iter()
            .find(|(part, _)| name.starts_with(part))
            .unwrap();
        for literal in literals(&text) {
            for mention in mentions(&all, &literal) {
                checked += 1;
                let exists = match &mention.command {
                    Some(path) => has_below(command(&all, path).unwrap(), &mention.option),
                    None => is_known(&all, of, &mention.option),
                };
                if !exists {
                    wrong.push(format!("{name}: --{} in {literal:?}", mention.option));
                }
            }
        }
        // A file that names options of several commands must be exempt.
        if name != "bench/src/experiment/cpu_options.rs"
            && !name.starts_with("bench/src/experiment/mod")
            && text.contains("CPU_OPTIONS")
        {
            assert!(
                is_known(&all, of, "victim-cpu"),
                "{name} has no --victim-cpu"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 25, "{checked}");
}

/// Checks `cofferdam COMMAND … --option` in code of any document, and the options under each
/// heading of the page of commands.
/// Promise 76.
#[test]
fn every_option_that_a_document_names_exists_on_its_command() {
    let all = cofferdam::command();
    let mut documents = vec![
        root().join("README.md"),
        root().join("etc/cofferdam.service"),
    ];
    files(&root().join("docs/src"), ".md", &mut documents);
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for path in documents.iter().filter(|path| path.exists()) {
        let text = fs::read_to_string(path).unwrap();
        for (command, option) in mentions_in::command_lines(&all, &text) {
            checked += 1;
            if !has_below(self::command(&all, &command).unwrap(), &option) {
                wrong.push(format!("{}: {command} --{option}", path.display()));
            }
        }
    }
    let page = root().join("docs/src/reference/commands.md");
    let page = fs::read_to_string(page).unwrap();
    for section in page.split("\n## ").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap();
        let commands = mentions_in::headed(&all, heading);
        for option in mentions_in::spans(body).flat_map(mentions_in::leading_option) {
            checked += 1;
            let has_option = |path: &String| has_below(self::command(&all, path).unwrap(), &option);
            if !commands.is_empty() && !commands.iter().any(has_option) {
                wrong.push(format!("commands.md, {heading}: --{option}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 150, "{checked}");
}
