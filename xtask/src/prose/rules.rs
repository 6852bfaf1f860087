//! Rules about sentences, words and lines.

use super::passage::{Passage, Place};
use super::{EXEMPTION, Finding, Rule, exemption};
use regex_lite::Regex;
use std::sync::OnceLock;

/// Widest line of a source or a document, columns.
pub const MOST_COLUMNS: usize = 100;

/// Beginnings that make a sentence depend on the one before, or hide its subject.
const OPENINGS: &[&str] = &[
    "what", "who", "whose", "where", "of", "as", "those", "so", "it", "its", "the same",
];

/// Words and phrases that the glossary replaces, with the replacement.
const WORDS: &[(&str, &str)] = &[
    ("told", "report, log, notify"),
    ("tells of", "reports"),
    ("tell of", "report"),
    ("anew", "again, restart"),
    ("whoever", "the one that"),
    ("goes on", "continues, resumes"),
    ("go on", "continue, resume"),
    ("went on", "continued"),
    ("going on", "continuing"),
    ("those that", "the noun"),
    ("those who", "the noun"),
    ("somebody", "the noun"),
    ("somebody's", "the noun"),
    ("nobody's", "unattributed"),
    ("made up", "synthetic"),
    ("made-up", "synthetic"),
    ("so long", "while, until"),
    ("as much", "the quantity"),
    ("beside", "with, next to"),
    ("causer", "offender"),
    ("sufferer", "victim"),
    ("payer", "victim"),
    ("rival", "competitor"),
    ("rivals", "competitors"),
    ("interferer", "offender"),
    ("take back", "revert, reclaim"),
    ("takes back", "reverts, reclaims"),
    ("taken back", "reverted, reclaimed"),
    ("took back", "reverted, reclaimed"),
    ("give back", "revert, return"),
    ("gives back", "reverts, returns"),
    ("given back", "reverted, returned"),
    ("let go", "revert, release"),
    ("lets go", "reverts, releases"),
    ("kept out", "limited"),
    ("under way", "in flight, pending"),
    // prose: allow word: a refused phrase
    ("is to be", "must be, the verb"),
    // prose: allow word: a refused phrase
    ("are to be", "must be, the verb"),
    // prose: allow word: a refused phrase
    ("was to be", "should be, the verb"),
    // prose: allow word: a refused phrase
    ("were to be", "should be, the verb"),
];

/// Sentences and words that the rules refuse.
pub fn check(passages: &[Passage]) -> Vec<Finding> {
    passages
        .iter()
        .flat_map(|passage| openings(passage).into_iter().chain(words(passage)))
        .collect()
}

/// Refused beginnings: of each sentence in a document, of each paragraph in a comment.
fn openings(passage: &Passage) -> Vec<Finding> {
    let checked = match passage.place {
        Place::Comment => passage.paragraphs(),
        Place::Document => passage.sentences(),
        Place::Message => Vec::new(),
    };
    let refused = checked.iter().filter_map(|&at| {
        let sentence = passage.text.get(at..)?;
        // Code in lower case begins some sentences, and no English one.
        sentence.chars().next()?.is_uppercase().then_some(())?;
        let opening = OPENINGS
            .iter()
            .find(|opening| begins_with(sentence, opening))?;
        Some(Finding {
            line: passage.line_of(at),
            rule: Rule::Opening,
            text: format!(
                "a sentence begins with \"{opening}\": {}",
                excerpt(sentence)
            ),
        })
    });
    refused.collect()
}

fn words(passage: &Passage) -> Vec<Finding> {
    let found = pattern().find_iter(&passage.text).filter_map(|found| {
        is_whole(&passage.text, found.start(), found.len()).then_some(())?;
        let spaced: Vec<&str> = found.as_str().split_whitespace().collect();
        let phrase = spaced.join(" ").to_lowercase();
        let (_, instead) = WORDS.iter().find(|(word, _)| *word == phrase)?;
        Some(Finding {
            line: passage.line_of(found.start()),
            rule: Rule::Word,
            text: format!("\"{phrase}\" (say: {instead})"),
        })
    });
    found.collect()
}

/// Any of [`WORDS`], in any case, over ends of lines. The longest comes first.
fn pattern() -> &'static Regex {
    static PATTERN: OnceLock<Regex> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let words = WORDS.iter().map(|(word, _)| word.replace(' ', r"\s+"));
        let mut words: Vec<String> = words.collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        let pattern = format!("(?i){}", words.join("|"));
        Regex::new(&pattern).expect("the words are letters, hyphens and apostrophes")
    })
}

/// Whether the words at `at` are no part of longer ones.
fn is_whole(text: &str, at: usize, length: usize) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '\'' || c == '-';
    let before = text.get(..at).and_then(|t| t.chars().next_back());
    let after = text.get(at + length..).and_then(|t| t.chars().next());
    !before.is_some_and(is_part) && !after.is_some_and(is_part)
}

fn begins_with(sentence: &str, opening: &str) -> bool {
    let Some(begin) = sentence.get(..opening.len()) else {
        return false;
    };
    begin.eq_ignore_ascii_case(opening) && is_whole(sentence, 0, opening.len())
}

/// First words of a sentence.
fn excerpt(sentence: &str) -> String {
    let words: Vec<&str> = sentence.split_whitespace().take(8).collect();
    words.join(" ")
}

/// Lines that are too wide. A line of one word, as a link, cannot be wrapped.
pub fn wide_lines(text: &str) -> Vec<Finding> {
    let is_wide = |line: &&str| line.chars().count() > MOST_COLUMNS && line.trim().contains(' ');
    let findings = text.lines().enumerate().filter(|(_, line)| is_wide(line));
    findings
        .map(|(number, line)| Finding {
            line: number + 1,
            rule: Rule::Width,
            text: format!("{} columns", line.chars().count()),
        })
        .collect()
}

/// Exemptions without a reason, or of no rule.
pub fn bare_exemptions(lines: &[&str]) -> Vec<Finding> {
    let bare = lines.iter().enumerate().filter(|(_, line)| {
        // A marker in quotes is a mention of it.
        let is_mention = ['"', '`']
            .iter()
            .any(|quote| line.contains(&format!("{quote}{EXEMPTION}")));
        !is_mention
            && exemption(line)
                .is_some_and(|(rule, reason)| Rule::parse(rule).is_none() || reason.is_empty())
    });
    bare.map(|(number, _)| Finding {
        line: number + 1,
        rule: Rule::Exemption,
        text: format!("write `{EXEMPTION}RULE: REASON`"),
    })
    .collect()
}
