//! Names that somebody else chose, on their way to a terminal or a log.

/// `text` with `?` for each control character: one line that steers no terminal.
pub fn printable(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_steers_no_terminal() {
        assert_eq!(printable("a\nb\x1b[2J\u{9b}é"), "a?b?[2J?é");
    }
}
