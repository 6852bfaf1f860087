//! Markers of tests: lines `/// Promise 12.` in the documentation of a test, and `# Promise 12.` in
//! a script that boots kernels.

use regex_lite::Regex;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Scripts that check promises: each one is a test.
const SCRIPTS: &str = "scripts/kernels.d";

/// Test that carries the number of a promise.
#[derive(Debug, PartialEq)]
pub struct Check {
    pub promise: u32,
    /// Name of its crate as in a path of Rust, such as `packetdrill_shim`.
    pub krate: String,
    pub name: String,
    file: PathBuf,
    line: usize,
}

impl Check {
    /// File and line, as `crates/host/src/name.rs:12`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }
}

/// Markers of one file.
#[derive(Debug, Default, PartialEq)]
pub struct Markers {
    pub checks: Vec<Check>,
    /// Markers of no test, or of another form.
    pub faults: Vec<String>,
}

/// Crate that a file belongs to; `None` for a script that checks no promise.
pub fn crate_of(file: &Path) -> Option<String> {
    let mut parts = file.iter().filter_map(|part| part.to_str());
    let first = parts.next()?;
    let name = match first {
        "crates" => parts.next()?,
        "scripts" => file.starts_with(SCRIPTS).then_some(first)?,
        other => other,
    };
    Some(name.replace('-', "_"))
}

/// Reads the markers of `text`.
pub fn read(file: &Path, krate: &str, text: &str) -> Markers {
    let is_script = file.extension().is_some_and(|ending| ending == "sh");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut markers = Markers::default();
    for (at, line) in lines.iter().enumerate() {
        let Some(promise) = number(line) else {
            if is_almost(line) {
                let place = format!("{}:{}", file.display(), at + 1);
                markers
                    .faults
                    .push(format!("{place}: write \"/// Promise N.\", one a line"));
            }
            continue;
        };
        let test = if is_script {
            let name = file.file_stem().and_then(|name| name.to_str());
            name.map(|name| (at, name))
        } else {
            test_at(&lines, at)
        };
        match test {
            Some((line, name)) => markers.checks.push(Check {
                promise,
                krate: krate.to_owned(),
                name: name.to_owned(),
                file: file.to_owned(),
                line: line + 1,
            }),
            None => {
                let place = format!("{}:{}", file.display(), at + 1);
                markers
                    .faults
                    .push(format!("{place}: the marker stands at no test"));
            }
        }
    }
    markers
}

/// Number of a marker.
fn number(line: &str) -> Option<u32> {
    let rest = line
        .strip_prefix("/// Promise ")
        .or_else(|| line.strip_prefix("# Promise "))?;
    rest.strip_suffix('.')?.parse().ok()
}

/// Whether a comment is meant as a marker, but has another form.
fn is_almost(line: &str) -> bool {
    static CELL: OnceLock<Regex> = OnceLock::new();
    let pattern = CELL.get_or_init(|| {
        Regex::new(r"^(//[/!]?|#)\s*[Pp]romises?:?\s*\d").expect("the pattern is a constant")
    });
    pattern.is_match(line)
}

/// Line and name of the test whose documentation holds line `at`: a function with `#[test]`, or one
/// that a macro makes into a test (`fn name();`).
fn test_at<'a>(lines: &[&'a str], at: usize) -> Option<(usize, &'a str)> {
    let is_head = |line: &str| line.starts_with("//") || line.starts_with("#[");
    let after = lines.get(at..)?.iter().take_while(|line| is_head(line));
    let function = at + after.count();
    let line = lines.get(function)?;
    let (_, name) = line.split_once("fn ")?;
    let name = name.split(['(', '<']).next()?;
    let mut head = lines.get(..function)?.iter().rev();
    let is_test = head
        .by_ref()
        .take_while(|line| is_head(line))
        .any(|line| *line == "#[test]");
    (is_test || line.ends_with("();")).then_some((function, name))
}
