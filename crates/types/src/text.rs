//! Names from outside (paths, containers) as text for a document, a terminal or a log.
//!
//! A Linux name is bytes. [`path_text`] writes bytes that are not UTF-8 as `\xNN`, and a backslash
//! that would read as such an escape as `\x5c`. Thus two names never have the same text, and
//! [`text_path`] is the inverse. [`printable`] also writes characters that control a terminal as
//! the `\xNN` of their bytes. That adds no ambiguity, because [`path_text`] never yields these
//! escapes for other names.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Text of a path or a name in documents: JSON, metrics, selectors.
pub fn path_text(path: &Path) -> Cow<'_, str> {
    if let Some(text) = path.to_str().filter(|text| !text.contains('\\')) {
        return Cow::Borrowed(text);
    }
    let mut rest = path.as_os_str().as_bytes();
    let mut text = String::with_capacity(rest.len());
    loop {
        let (valid, invalid) = split_utf8(rest);
        push_valid(&mut text, valid);
        let Some((byte, tail)) = invalid.split_first() else {
            return Cow::Owned(text);
        };
        push_byte(&mut text, *byte);
        rest = tail;
    }
}

/// Path of which `text` is the [`path_text`].
pub fn text_path(text: &str) -> PathBuf {
    let mut rest = text.as_bytes();
    let mut path = Vec::with_capacity(rest.len());
    while let Some((byte, tail)) = rest.split_first() {
        match escape(rest).filter(|byte| *byte == b'\\' || *byte >= 0x80) {
            Some(escaped) => {
                path.push(escaped);
                rest = rest.get(4..).unwrap_or_default();
            }
            None => {
                path.push(*byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Writes each character of `text` that controls a terminal as the `\xNN` of its bytes, so that the
/// result is one line that reads from left to right.
pub fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                push_byte(&mut clean, byte);
            }
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Writes each character of the document `json` that controls a terminal, and that JSON writers
/// leave as it is, as `\uNNNN`. Lines and indentation stay.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let is_raw = |c: char| steers(c) && !matches!(c, '\n' | '\r' | '\t');
    if !json.contains(is_raw) {
        return Cow::Borrowed(json);
    }
    let mut clean = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match is_raw(c) {
            // In a document such a character can only be part of a string.
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(clean, "\\u{unit:04x}");
                }
            }
            false => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// Whether `c` moves the cursor, ends the line, changes the direction of the following text or
/// hides in it.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Splits at the first byte that is not UTF-8.
fn split_utf8(bytes: &[u8]) -> (&str, &[u8]) {
    let end = match std::str::from_utf8(bytes) {
        Ok(text) => return (text, &[]),
        Err(error) => error.valid_up_to(),
    };
    let (valid, invalid) = bytes.split_at(end);
    (std::str::from_utf8(valid).unwrap_or_default(), invalid)
}

fn push_valid(text: &mut String, valid: &str) {
    let mut rest = valid;
    while let Some(at) = rest.find('\\') {
        let (before, after) = rest.split_at(at);
        text.push_str(before);
        match escape(after.as_bytes()).is_some_and(is_escaped) {
            true => push_byte(text, b'\\'),
            false => text.push('\\'),
        }
        rest = after.get(1..).unwrap_or_default();
    }
    text.push_str(rest);
}

fn push_byte(text: &mut String, byte: u8) {
    let _ = write!(text, "\\x{byte:02x}");
}

/// Whether an escape of [`printable`] or [`path_text`] may stand for `byte`.
fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'\\' || byte >= 0x7f
}

/// Byte that `\xNN` at the beginning of `text` stands for; lower-case digits only.
fn escape(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\x")?.get(..2)?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (high, low) = (digit(*digits.first()?)?, digit(*digits.last()?)?);
    Some(high << 4 | low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;

    fn text(bytes: &[u8]) -> String {
        path_text(Path::new(OsStr::from_bytes(bytes))).into_owned()
    }

    #[test]
    fn bytes_that_are_not_text_are_written_as_numbers() {
        for (bytes, expected) in [
            (&b"/a/bad\xff"[..], r"/a/bad\xff"),
            (b"/a/bad\xfe", r"/a/bad\xfe"),
            (b"/cut-\xe5\x90", r"/cut-\xe5\x90"),
            (r"/web\x2d1".as_bytes(), r"/web\x2d1"),
            (r"/a\b\\".as_bytes(), r"/a\b\\"),
            // Names that look like the text of another one.
            (r"/a/bad\xff".as_bytes(), r"/a/bad\x5cxff"),
            (r"/a\x5c".as_bytes(), r"/a\x5cx5c"),
            ("/größe".as_bytes(), "/größe"),
        ] {
            assert_eq!(text(bytes), expected);
        }
    }

    #[test]
    fn a_printed_name_does_not_control_the_terminal() {
        let printed = printable("a\nb\x1b[2J\u{9b}é\u{202e}x");
        assert_eq!(printed, r"a\x0ab\x1b[2J\xc2\x9bé\xe2\x80\xaex");
    }

    /// Promise 74.
    #[test]
    fn a_printed_document_has_the_same_value() {
        let name = "rtl\u{202e}evil\u{9b}\u{7f}\x1b";
        let json = serde_json::to_string_pretty(&[name]).unwrap();
        let printed = printable_json(&json);
        assert_eq!(printed, "[\n  \"rtl\\u202eevil\\u009b\\u007f\\u001b\"\n]");
        assert_eq!(
            serde_json::from_str::<[String; 1]>(&printed).unwrap(),
            [name]
        );
        assert!(matches!(printable_json("{\"a\": 1}\n"), Cow::Borrowed(_)));
    }

    proptest! {
        /// Different names have different texts, in documents and on terminals.
        /// Promise 9.
        #[test]
        fn no_two_names_have_one_text(
    a in prop::collection::vec(
        prop::sample::select(&b"\\x5cfe2d80ae1b\xff\xe2\x80\xae\x1b"[..]),
        0..12,
    ),
    b in prop::collection::vec(
        prop::sample::select(&b"\\x5cfe2d80ae1b\xff\xe2\x80\xae\x1b"[..]),
        0..12,
    ),
        ) {
            prop_assert_eq!(text(&a) == text(&b), a == b);
            prop_assert_eq!(printable(&text(&a)) == printable(&text(&b)), a == b);
        }

        /// Promise 9.
        #[test]
        fn a_text_leads_back_to_its_name(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let name = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(text_path(&path_text(&name)), name);
        }
    }
}
