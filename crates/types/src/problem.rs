//! Problems of a configuration with their places: all of them, not the first mistake alone.

use std::fmt;
use std::ops::Range;

/// Most mistakes that one parse reports.
const MOST_PROBLEMS: usize = 100;

/// Consequence of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is accepted; something in it has no effect.
    Warning,
}

/// One problem, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Consequence for the file.
    pub severity: Severity,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The problem and its remedy, in one line.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}: {word}: {}", self.line, self.column, self.text)
    }
}

impl Problem {
    /// Problem described by `what`, at `span` of `text`.
    pub fn at(text: &str, span: &Range<usize>, severity: Severity, what: String) -> Problem {
        let (line, column) = place(text, span.start);
        Problem {
            severity,
            line,
            column,
            text: what.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Line and column of a byte offset, both from 1.
pub fn place(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |last| last.chars().count())
        + 1;
    (line, column)
}

/// Outcome of [`parse_all`].
#[derive(Debug)]
pub struct ParseOutcome<T> {
    /// Value of the valid parts; `None` where the rest could not be parsed.
    pub value: Option<T>,
    /// The text with blanks in place of every mistake, so that offsets are those of the original.
    pub text: String,
    /// Every mistake, in the order found.
    pub problems: Vec<Problem>,
    /// Keys that were removed because they were wrong.
    pub without: Vec<String>,
}

/// Finds all mistakes in TOML with a parser that stops at the first one.
///
/// The function parses repeatedly, each time without the previous mistake. A mistake that only
/// follows from another (a key that is missing because it was removed) is not reported.
pub fn parse_all<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, (Range<usize>, String)>,
) -> ParseOutcome<T> {
    let mut parsed = ParseOutcome {
        value: None,
        text: text.to_owned(),
        problems: Vec::new(),
        without: Vec::new(),
    };
    while parsed.problems.len() < MOST_PROBLEMS {
        let (span, what) = match parse(&parsed.text) {
            Ok(value) => {
                parsed.value = Some(value);
                break;
            }
            Err(wrong) => wrong,
        };
        let missing = missing_field(&what).map(str::to_owned);
        let was_removed = |field: &String| parsed.without.contains(field);
        if !missing.as_ref().is_some_and(was_removed) {
            let problem = Problem::at(text, &span, Severity::Error, what);
            parsed.problems.push(problem);
        }
        let out = match missing {
            Some(_) => section(&parsed.text, span.start),
            None => item(&parsed.text, &span),
        };
        let Some(out) = out.filter(|out| !parsed.text[out.clone()].trim().is_empty()) else {
            break;
        };
        parsed.without.extend(key(&parsed.text[out.clone()]));
        let blank = |c: char| {
            if c == '\n' {
                "\n".into()
            } else {
                " ".repeat(c.len_utf8())
            }
        };
        let blanks: String = parsed.text[out.clone()].chars().map(blank).collect();
        parsed.text.replace_range(out, &blanks);
    }
    parsed
}

fn missing_field(what: &str) -> Option<&str> {
    let (_, rest) = what.split_once("missing field `")?;
    rest.split('`').next()
}

/// Lines of `text` with their offsets, without blanks around them.
fn lines(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.split_inclusive('\n').scan(0, |start, line| {
        let range = *start..*start + line.len();
        *start = range.end;
        Some((range, line.trim()))
    })
}

fn is_header(line: &str) -> bool {
    let bare = line.split('#').next().unwrap_or(line);
    line.starts_with('[') && !bare.contains(['=', ',', '"', '\''])
}

/// Last part of the key at the beginning of a line.
fn key(line: &str) -> Option<String> {
    let (key, _) = line.lines().next()?.split_once('=')?;
    let last = key
        .trim()
        .rsplit('.')
        .next()?
        .trim()
        .trim_matches(['"', '\'']);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    (!last.is_empty() && last.chars().all(plain)).then(|| last.to_owned())
}

/// All lines of the key and value around `span`; the whole section where `span` is in a header.
fn item(text: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let all: Vec<_> = lines(text).collect();
    let holds = |(range, _): &(Range<usize>, &str)| range.contains(&span.start);
    let at = all.iter().position(holds).or(all.len().checked_sub(1))?;
    if is_header(all[at].1) {
        return section(text, span.start);
    }
    // An element of a list of several lines belongs to the line with the key.
    let begins = |i: &usize| key(all[*i].1).is_some();
    let first = (0..=at).rev().find(begins);
    let first = first.filter(|i| *i == at || is_open(text, &all, *i, at));
    let first = first.unwrap_or(at);
    let inside = |i: &usize| {
        let in_list = first < at && is_open(text, &all, first, *i);
        all[*i].0.start < span.end || in_list
    };
    let last = (at..all.len()).take_while(inside).last().unwrap_or(at);
    Some(all[first].0.start..all[last].0.end)
}

/// Whether a list that begins in line `first` is still open at the beginning of line `line`.
fn is_open(text: &str, all: &[(Range<usize>, &str)], first: usize, line: usize) -> bool {
    let part = &text[all[first].0.start..all[line].0.start];
    part.matches('[').count() > part.matches(']').count()
}

/// Section around `offset` with its header; `None` where no header precedes it.
fn section(text: &str, offset: usize) -> Option<Range<usize>> {
    let all: Vec<_> = lines(text).collect();
    let before = |(range, line): &&(Range<usize>, &str)| range.start <= offset && is_header(line);
    let start = all.iter().rev().find(before)?.0.start;
    let after = |(range, line): &&(Range<usize>, &str)| range.start > start && is_header(line);
    let end = all
        .iter()
        .find(after)
        .map_or(text.len(), |(range, _)| range.start);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters() {
        assert_eq!(place("a\nbä c", 5), (2, 3));
        assert_eq!(place("a", 99), (1, 2));
        assert_eq!(place("ä", 1), (1, 1));
    }

    /// Parser that stops at the first `bad`, or at a section without `need`.
    fn first_bad(text: &str) -> Result<usize, (Range<usize>, String)> {
        if let Some(at) = text.find("bad") {
            return Err((at..at + 3, "bad".to_owned()));
        }
        for (at, _) in text.match_indices("[s]") {
            if !text[at..].contains("need") {
                return Err((at..at + 3, "missing field `need`".to_owned()));
            }
        }
        Ok(text.matches('=').count())
    }

    /// Promise 75.
    #[test]
    fn every_mistake_is_found_and_the_rest_is_parsed() {
        let text = "a = 1\nb = bad\nc = [\n1,\nbad,\n2 ]\nd = 1\n";
        let parsed = parse_all(text, first_bad);
        let places: Vec<_> = parsed.problems.iter().map(|p| (p.line, p.column)).collect();
        assert_eq!(places, [(2, 5), (5, 1)]);
        assert_eq!(parsed.value, Some(2), "{}", parsed.text);
        assert_eq!(parsed.text.len(), text.len());
        assert_eq!(parsed.without, ["b", "c"]);
    }

    /// Promise 75.
    #[test]
    fn a_removed_key_is_not_missing() {
        let parsed = parse_all("[s]\nneed = bad\n", first_bad);
        assert_eq!(parsed.problems.len(), 1, "{:?}", parsed.problems);
        let parsed = parse_all("x = 1\n[s]\nother = 1\n", first_bad);
        assert_eq!(parsed.problems.len(), 1);
        assert_eq!(parsed.problems[0].line, 2);
        assert_eq!(parsed.value, Some(1));
    }

    #[test]
    fn parsing_ends_where_nothing_can_be_removed() {
        let parsed = parse_all("x", |_| {
            Err::<(), _>((0..0, "missing field `y`".to_owned()))
        });
        assert_eq!(parsed.problems.len(), 1);
        let parsed = parse_all("", |_| Err::<(), _>((0..0, "no".to_owned())));
        assert!(parsed.value.is_none());
        let endless = "k = 1\n".repeat(300);
        let parsed = parse_all(&endless, |text| match text.find('k') {
            Some(at) => Err((at..at + 1, "no".to_owned())),
            None => Ok(()),
        });
        assert_eq!(parsed.problems.len(), MOST_PROBLEMS);
    }
}
