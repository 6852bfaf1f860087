//! Width of text in cells of a terminal, and cutting to a width. Widths are those of
//! `unicode-width`: wide letters take two cells, combining ones none.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Number of cells that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts `text` to `cells` at the end, with an ellipsis.
pub fn cut_end(text: &str, cells: usize) -> String {
    if text.width() <= cells {
        return text.to_owned();
    }
    match cells {
        0 => String::new(),
        _ => format!("{}…", begin(text, cells - 1)),
    }
}

/// Cuts `text` to `cells` in the middle: the ends distinguish containers of one pod.
pub fn cut_middle(text: &str, cells: usize) -> String {
    if text.width() <= cells {
        return text.to_owned();
    }
    if cells < 5 {
        return cut_end(text, cells);
    }
    let tail = cells / 2;
    format!("{}…{}", begin(text, cells - tail - 1), end(text, tail))
}

/// Longest beginning of `text` that fits into `cells`.
pub fn begin(text: &str, cells: usize) -> &str {
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        used += letter.width().unwrap_or(0);
        if used > cells {
            return &text[..at];
        }
    }
    text
}

/// Longest end of `text` that fits into `cells`; it does not begin with a combining letter.
fn end(text: &str, cells: usize) -> &str {
    let (mut used, mut from) = (0, text.len());
    for (at, letter) in text.char_indices().rev() {
        let wide = letter.width().unwrap_or(0);
        used += wide;
        if used > cells {
            break;
        }
        if wide > 0 {
            from = at;
        }
    }
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Promise 74.
    #[test]
    fn wide_and_combining_letters_count_by_their_cells() {
        assert_eq!(width("web"), 3);
        assert_eq!(width("網頁"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(cut_end("網頁伺服器", 5), "網頁…");
        assert_eq!(cut_end("abc", 3), "abc");
        assert_eq!(cut_end("abcd", 0), "");
        assert_eq!(cut_middle("payments-api-7f9c-xk2lp", 11), "payme…xk2lp");
        assert_eq!(cut_middle("網頁伺服器甲乙丙", 7), "網…丙");
        assert_eq!(cut_middle("a-very-long-e\u{301}", 5), "a-…-e\u{301}");
    }

    proptest! {
        /// Promise 74.
        #[test]
        fn cut_text_fits(text in "\\PC{0,300}", cells in 0_usize..60) {
            prop_assert!(width(&cut_end(&text, cells)) <= cells);
            prop_assert!(width(&cut_middle(&text, cells)) <= cells);
        }
    }
}
