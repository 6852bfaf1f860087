//! Comments and strings of Rust and of C-like languages, and the code without them.

use super::passage::{Passage, Place, without_code};

/// Fewest words of a string that is prose.
const FEWEST_MESSAGE_WORDS: usize = 3;

/// Languages that differ in their strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Rust,
    C,
}

/// Parts of a source file.
pub struct Source {
    /// Comments, and strings that people read. Strings of tests are left out.
    pub passages: Vec<Passage>,
    /// The code, line by line, with comments and strings blank.
    pub code: String,
}

/// Splits a source file.
pub fn read(text: &str, language: Language) -> Source {
    let mut lexer = Lexer {
        rest: text,
        line: 1,
        language,
        code: String::with_capacity(text.len()),
        comments: Vec::new(),
        strings: Vec::new(),
    };
    while lexer.step() {}
    let tests = lexer
        .code
        .lines()
        .position(|line| line.trim() == "#[cfg(test)]")
        .map_or(usize::MAX, |at| at + 1);
    let is_message = |string: &Passage| {
        string.line < tests && string.text.split_whitespace().count() >= FEWEST_MESSAGE_WORDS
    };
    let mut passages = joined(lexer.comments);
    passages.extend(lexer.strings.into_iter().filter(is_message));
    Source {
        passages,
        code: lexer.code,
    }
}

/// Comment of one line, or one between `/*` and `*/`.
struct Comment {
    line: usize,
    /// `//`, `///`, `//!`: neighbours of one mark are one passage.
    mark: &'static str,
    text: String,
    /// Whether nothing but space stands before it on its line.
    is_alone: bool,
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    language: Language,
    code: String,
    comments: Vec<Comment>,
    strings: Vec<Passage>,
}

impl<'a> Lexer<'a> {
    /// Takes one token. Returns false at the end.
    fn step(&mut self) -> bool {
        let Some(letter) = self.rest.chars().next() else {
            return false;
        };
        if self.rest.starts_with("//") && self.language == Language::Rust
            || self.rest.starts_with("//") && !self.code.ends_with(':')
        {
            self.line_comment();
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if letter == '"' {
            let end = string_end(self.rest);
            self.string(1, end, 1);
        } else if let Some((begin, end, tail)) = self.raw_string() {
            self.string(begin, end, tail);
        } else if let Some(end) = self.character() {
            self.blank(end);
        } else {
            self.code.push(letter);
            self.advance(letter.len_utf8());
        }
        true
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Takes bytes that are no code.
    fn blank(&mut self, bytes: usize) -> &'a str {
        let taken = self.advance(bytes);
        self.code.push(' ');
        self.code.extend(taken.chars().filter(|c| *c == '\n'));
        taken
    }

    fn is_alone(&self) -> bool {
        let line = self.code.rsplit('\n').next().unwrap_or_default();
        line.trim().is_empty()
    }

    fn line_comment(&mut self) {
        let (line, is_alone) = (self.line, self.is_alone());
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let taken = self.blank(end);
        let mark = match taken {
            _ if taken.starts_with("////") => "//",
            _ if taken.starts_with("///") => "///",
            _ if taken.starts_with("//!") => "//!",
            _ => "//",
        };
        let text = taken.get(mark.len()..).unwrap_or_default().to_owned();
        self.comments.push(Comment {
            line,
            mark,
            text,
            is_alone,
        });
    }

    fn block_comment(&mut self) {
        let (line, is_alone) = (self.line, self.is_alone());
        let end = self.rest.find("*/").map_or(self.rest.len(), |at| at + 2);
        let taken = self.blank(end);
        let inner = taken.trim_start_matches(['/', '*']);
        let inner = inner.strip_suffix("*/").unwrap_or(inner);
        let lines = inner
            .lines()
            .map(|l| l.trim_start().trim_start_matches('*'));
        let text = lines.collect::<Vec<_>>().join("\n");
        self.comments.push(Comment {
            line,
            mark: "/*",
            text,
            is_alone,
        });
    }

    /// Takes a string whose text stands between `begin` and `end`; `tail` bytes close it.
    fn string(&mut self, begin: usize, end: usize, tail: usize) {
        let line = self.line;
        let taken = self.blank(end + tail);
        let text = taken.get(begin..end).unwrap_or_default();
        self.strings.push(Passage {
            line,
            place: Place::Message,
            text: without_code(&text.replace("\\n", " \u{200b}")),
        });
    }

    /// Begin of the text, its end, and length of the close of a raw string that stands here.
    fn raw_string(&self) -> Option<(usize, usize, usize)> {
        if self.language != Language::Rust || self.code.ends_with(is_of_word) {
            return None;
        }
        let after = self.rest.strip_prefix(['b', 'c']).unwrap_or(self.rest);
        let after = after.strip_prefix('r')?;
        let hashes = after.len() - after.trim_start_matches('#').len();
        after.get(hashes..)?.strip_prefix('"')?;
        let begin = self.rest.len() - after.len() + hashes + 1;
        let close = format!("\"{}", "#".repeat(hashes));
        let end = self.rest.get(begin..)?.find(&close)? + begin;
        Some((begin, end, close.len()))
    }

    /// Length of the character literal that stands here; a lifetime is none.
    fn character(&self) -> Option<usize> {
        let inner = self.rest.strip_prefix('\'')?;
        let mut letters = inner.char_indices();
        let (_, first) = letters.next()?;
        if first == '\\' {
            let (at, _) = inner.char_indices().skip(2).find(|(_, c)| *c == '\'')?;
            return (at < 12).then_some(at + 2);
        }
        let (at, second) = letters.next()?;
        (second == '\'').then_some(at + 2)
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Offset of the quote that ends the string that begins `text`.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Comments of neighbouring lines and of one mark as one passage; examples in fences are left out.
fn joined(comments: Vec<Comment>) -> Vec<Passage> {
    let mut passages: Vec<Passage> = Vec::new();
    let mut last: Option<(usize, &str)> = None;
    let mut is_in_fence = false;
    for comment in comments {
        let follows = comment.is_alone && last == Some((comment.line, comment.mark));
        if !follows {
            is_in_fence = false;
        }
        let is_fence = comment.text.trim_start().starts_with("```");
        is_in_fence ^= is_fence;
        let is_blank = is_fence || is_in_fence || comment.text.trim().is_empty();
        let text = if is_blank { "" } else { &comment.text };
        let lines = comment.text.matches('\n').count() + 1;
        match passages.last_mut().filter(|_| follows) {
            Some(passage) => {
                passage.text.push('\n');
                passage.text.push_str(text);
            }
            None => passages.push(Passage {
                line: comment.line,
                place: Place::Comment,
                text: text.to_owned(),
            }),
        }
        last = Some((comment.line + lines, comment.mark));
    }
    for passage in &mut passages {
        passage.text = without_code(&passage.text);
    }
    passages
}
