//! Options in string literals and in documents.

use clap::Command;

/// Other programs, and workers, whose command lines are no mentions.
const PROGRAMS: &[&str] = &[
    "apt", "apt-get", "ctr", "curl", "docker", "groupadd", "ip", "iptables", "nsenter", "podman",
    "setpriv", "tar",
];

/// Option in a text.
pub struct Mention {
    /// Name without dashes.
    pub option: String,
    /// Command that the text names with it, such as `dataplane top`.
    pub command: Option<String>,
}

/// String literals of Rust sources, up to their unit tests; comments are left out.
pub fn literals(source: &str) -> Vec<String> {
    let source = source
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        rest = &from[1..];
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, next)| next);
        } else if from.starts_with("'\"'") || from.starts_with("'\\\"'") {
            rest = &from[3..];
        } else if from.starts_with('"') {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let is_raw = before.trim_end_matches('#').ends_with('r');
            let end = match is_raw {
                true => rest.find(&format!("\"{}", "#".repeat(hashes))),
                false => closing(rest),
            };
            let end = end.unwrap_or(rest.len());
            found.push(rest[..end].replace("\\\n", " "));
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }
    found
}

/// Offset of the quote that ends the literal `text`.
fn closing(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// Options in `literal` that address a person; none in the command line of a program.
pub fn mentions(all: &Command, literal: &str) -> Vec<Mention> {
    let first = literal.split_whitespace().next().unwrap_or_default();
    let first = first.trim_matches(['{', '}']);
    let is_prose = [": ", "; ", ", ", " or ", " with ", "'", " (", "run "]
        .iter()
        .any(|mark| literal.contains(mark));
    if !is_prose || PROGRAMS.contains(&first) {
        return Vec::new();
    }
    let options = literal.match_indices("--").filter_map(|(at, _)| {
        let before = &literal[..at];
        let is_start = before.is_empty() || before.ends_with([' ', '\'', '(', '`']);
        let option = option(&literal[at..]).filter(|_| is_start)?;
        // Two dashes precede another program's command line.
        let line = before.rsplit("\\n").next().unwrap_or_default();
        if line.contains(" -- ") {
            return None;
        }
        let last = before.split_whitespace().next_back().unwrap_or_default();
        if PROGRAMS.contains(&last.trim_start_matches(['(', '\''])) {
            return None;
        }
        let quoted = before.rfind(['\'', '`']).map(|quote| &before[quote + 1..]);
        let command = quoted.and_then(|words| named(all, words));
        Some(Mention { option, command })
    });
    options.collect()
}

/// Option at the beginning of `text`.
fn option(text: &str) -> Option<String> {
    let name = text.strip_prefix("--")?;
    let end = name.find(|c: char| !c.is_ascii_lowercase() && c != '-');
    let name = name[..end.unwrap_or(name.len())].trim_end_matches('-');
    name.starts_with(|c: char| c.is_ascii_lowercase())
        .then(|| name.to_owned())
}

/// Command at the beginning of `words`, or after `cofferdam` if that is among them.
fn named(all: &Command, words: &str) -> Option<String> {
    let own = words.split("cofferdam ").last().unwrap_or(words);
    let (mut at, mut path) = (all, Vec::new());
    for word in own.split_whitespace() {
        let Some(below) = at.find_subcommand(word) else {
            break;
        };
        at = below;
        path.push(word);
    }
    (!path.is_empty()).then(|| path.join(" "))
}

/// Every `cofferdam COMMAND` of the code in `text`, with each of its options.
pub fn command_lines(all: &Command, text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let fenced = text.split("```").skip(1).step_by(2);
    let lines = fenced
        .flat_map(|block| block.split('\n'))
        .chain(spans(text));
    for line in lines {
        let Some((_, rest)) = line.split_once("cofferdam ") else {
            continue;
        };
        let rest = rest
            .split(['|', ';', '#', '&', '>'])
            .next()
            .and_then(|rest| rest.split(" -- ").next())
            .unwrap_or_default();
        if let Some(command) = named(all, rest) {
            let options = rest.split_whitespace().filter_map(option);
            found.extend(options.map(|option| (command.clone(), option)));
        }
    }
    found
}

/// Inline code of a document.
pub fn spans(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2))
}

/// Option at the beginning of a piece of inline code.
pub fn leading_option(span: &str) -> Option<String> {
    option(span)
}

/// Commands of a heading such as `latency record, latency watch`; `latency serve, on` includes
/// `latency on`.
pub fn headed(all: &Command, heading: &str) -> Vec<String> {
    let mut group = String::new();
    let mut found = Vec::new();
    for name in heading.split(", ").map(str::trim) {
        let inherited = format!("{group} {name}");
        if let Some(path) = named(all, name).or_else(|| named_whole(all, &inherited)) {
            group = path.split(' ').next().unwrap_or_default().to_owned();
            found.push(path);
        }
    }
    found
}

fn named_whole(all: &Command, path: &str) -> Option<String> {
    named(all, path).filter(|found| found == path.trim())
}
