//! Sentences on a screen, broken between words.

use crate::text;

/// Folds `sentence` into at most `most` lines of at most `width` characters. An ellipsis marks
/// omitted text. Only a word longer than a line is cut.
pub fn fold(sentence: &str, width: usize, most: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut words = sentence.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = text::begin(word, width).to_owned();
        let length = text::width(&word);
        let more = words.peek().is_some();
        let count = lines.len();
        let Some(line) = lines.last_mut() else { break };
        let used = text::width(line);
        // The last line needs space for the ellipsis.
        let free = width - usize::from(count == most && more) * 2.min(width);
        if used == 0 {
            *line = word;
        } else if used + 1 + length <= free {
            *line += &format!(" {word}");
        } else if count < most {
            lines.push(word);
        } else {
            // Without space for it, the ellipsis is omitted.
            if used + 2 <= width {
                *line += " …";
            }
            break;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 13.
    #[test]
    fn lines_end_between_words() {
        assert_eq!(fold("one two three", 7, 3), ["one two", "three"]);
        assert_eq!(fold("one two three four", 9, 1), ["one two …"]);
        assert_eq!(fold("one two", 7, 1), ["one two"]);
        assert_eq!(fold("", 7, 1), [""]);
        assert_eq!(fold("enormous", 4, 1), ["enor"]);
        let text = "a bb ccc dddd eeeee ffffff ggggggg";
        for width in 1..40 {
            for most in 1..4 {
                let lines = fold(text, width, most);
                assert!(lines.len() <= most, "{width}: {lines:?}");
                let fits = |line: &String| line.chars().count() <= width.max(1);
                assert!(lines.iter().all(fits), "{width}: {lines:?}");
            }
        }
    }
}
