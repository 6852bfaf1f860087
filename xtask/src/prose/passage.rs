//! Pieces of prose in sources and documents.

/// Kind of place in which a passage stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Comment of a source file: its first sentence introduces something.
    Comment,
    /// Paragraph, heading, list item or cell of a document: each sentence stands alone.
    Document,
    /// String literal of at least three words.
    Message,
}

/// Text without markup: code is replaced by `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// Line of its first word, from 1.
    pub line: usize,
    pub place: Place,
    pub text: String,
}

impl Passage {
    /// Line on which byte `at` of the text stands: lines are kept in it.
    pub fn line_of(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        self.line + before.matches('\n').count()
    }

    /// Byte offsets of the beginnings of its paragraphs. A heading ends one.
    pub fn paragraphs(&self) -> Vec<usize> {
        let mut begins = Vec::new();
        let mut is_at_begin = true;
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            let words = line.trim();
            if words.is_empty() || words.starts_with('#') {
                is_at_begin = true;
            } else if is_at_begin {
                begins.push(at + line.len() - line.trim_start().len());
                is_at_begin = false;
            }
            at += line.len();
        }
        begins
    }

    /// Byte offsets of the beginnings of its sentences.
    pub fn sentences(&self) -> Vec<usize> {
        let mut begins = Vec::new();
        let mut is_at_begin = true;
        for (at, letter) in self.text.char_indices() {
            if is_at_begin && !letter.is_whitespace() {
                begins.push(at);
                is_at_begin = false;
            }
            let rest = self.text.get(at + letter.len_utf8()..).unwrap_or_default();
            let ends = matches!(letter, '.' | '?' | '!' | ':')
                && rest.starts_with(char::is_whitespace)
                && rest.trim_start().starts_with(char::is_uppercase);
            is_at_begin |= ends;
        }
        begins
    }
}

/// Replaces code between backquotes by `_`; line breaks stay.
pub fn without_code(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (number, part) in text.split('`').enumerate() {
        if number % 2 == 0 {
            plain.push_str(part);
        } else {
            plain.push('_');
            plain.extend(part.chars().filter(|c| *c == '\n'));
        }
    }
    plain
}
