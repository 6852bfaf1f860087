//! Names of types, locals and tests in Rust.

use super::{Finding, Rule};
use regex_lite::Regex;
use std::sync::OnceLock;

/// Most words in the name of a test.
pub const MOST_TEST_WORDS: usize = 10;

/// Participles, pronouns and adverbs that are no noun. Words in `-ed` are recognized by their end.
const BARE: &[&str] = &[
    "alone",
    "beside",
    "between",
    "both",
    "bound",
    "broken",
    "built",
    "chosen",
    "done",
    "drawn",
    "each",
    "found",
    "given",
    "gone",
    "grown",
    "held",
    "here",
    "hidden",
    "kept",
    "known",
    "left",
    "lost",
    "made",
    "meant",
    "meanwhile",
    "other",
    "ours",
    "said",
    "seen",
    "sent",
    "shown",
    "spoken",
    "standing",
    "taken",
    "there",
    "those",
    "told",
    "unseen",
    "untold",
    "waiting",
    "what",
    "whose",
    "written",
];

/// Nouns, and adjectives of the standard library, that end in `-ed`.
const NOUNS: &[&str] = &[
    "bed",
    "breed",
    "feed",
    "need",
    "seed",
    "shed",
    "speed",
    "testbed",
    "thread",
    "unlimited",
];

/// Locals that say what happened to a value, not what it is.
const LOCALS: &[&str] = &[
    "told", "known", "kept", "said", "held", "gone", "spoken", "untold", "meant", "beside",
    "those", "made",
];

/// Refused names in code whose comments and strings are blank.
pub fn check(code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_test = false;
    for (number, line) in code.lines().enumerate() {
        let mut refuse = |rule, text| {
            findings.push(Finding {
                line: number + 1,
                rule,
                text,
            });
        };
        for name in captured(types(), line).filter(|name| is_bare(name)) {
            refuse(Rule::Name, format!("type `{name}`: name it by a noun"));
        }
        for name in locals_of(line) {
            refuse(Rule::Name, format!("local `{name}`: say what it holds"));
        }
        let attribute = line.trim();
        is_test |= attribute == "#[test]";
        if let Some(name) = captured(functions(), line).next() {
            let words = name.split('_').filter(|word| !word.is_empty()).count();
            if is_test && words > MOST_TEST_WORDS {
                let text = format!("`{name}` has {words} words, {MOST_TEST_WORDS} at most");
                refuse(Rule::Test, text);
            }
            is_test = false;
        }
    }
    findings
}

/// Whether the name of a type is one word, and that is no noun.
fn is_bare(name: &str) -> bool {
    let word = name.to_lowercase();
    let is_one_word = name.chars().skip(1).all(char::is_lowercase);
    let is_participle = word.ends_with("ed") && word.len() > 3 && !NOUNS.contains(&&*word);
    is_one_word && (is_participle || BARE.contains(&&*word))
}

/// Locals that a line declares and the rule refuses.
fn locals_of(line: &str) -> impl Iterator<Item = &str> {
    captured(patterns(), line)
        .flat_map(|pattern| pattern.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .filter(|name| LOCALS.contains(name))
}

/// First group of each match.
fn captured<'a>(pattern: &'a Regex, line: &'a str) -> impl Iterator<Item = &'a str> {
    let groups = pattern.captures_iter(line);
    groups.filter_map(|found| Some(found.iter().skip(1).flatten().next()?.as_str()))
}

fn compiled(cell: &'static OnceLock<Regex>, pattern: &str) -> &'static Regex {
    cell.get_or_init(|| Regex::new(pattern).expect("the pattern is a constant, and is tested"))
}

fn types() -> &'static Regex {
    static CELL: OnceLock<Regex> = OnceLock::new();
    compiled(&CELL, r"\b(?:struct|enum|trait|union|type)\s+([A-Z]\w*)")
}

fn functions() -> &'static Regex {
    static CELL: OnceLock<Regex> = OnceLock::new();
    compiled(&CELL, r"\bfn\s+(\w+)")
}

/// Patterns of `let`, of `for` and of closures.
fn patterns() -> &'static Regex {
    static CELL: OnceLock<Regex> = OnceLock::new();
    compiled(
        &CELL,
        r"\blet\s+([^=:;]+)|\bfor\s+(.+?)\s+in\b|\|([\w\s,&()]+)\|",
    )
}
