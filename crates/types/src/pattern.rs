//! Patterns of names and paths.

use crate::printable;
use globset::{Glob, GlobBuilder, GlobMatcher};

/// A name, or a glob for several names.
///
/// `*` matches any characters, `?` one, `[a-c]` one of a set, `[!a-c]` one outside it, `{a,b}` one
/// of several texts. In paths none of them matches a `/`, and `**` matches any characters and `/`.
/// A backslash is an ordinary character: systemd writes it in the names of units. Between brackets
/// each of these characters stands for itself: `[*]`.
///
/// A pattern always matches the name that is written just like it, and the name of which a terminal
/// [shows](printable) just this text.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// `None` where the text is a name and nothing else.
    glob: Option<GlobMatcher>,
    /// Reason why the text is not a valid glob though it has a glob's characters.
    fault: Option<String>,
}

impl Pattern {
    /// Pattern of a path, or of a name.
    pub fn of_path(text: &str) -> Pattern {
        Pattern::compile(text, true)
    }

    /// Pattern of a text in which a `/` is an ordinary character.
    pub fn of_text(text: &str) -> Pattern {
        Pattern::compile(text, false)
    }

    /// Pattern that matches `name` and nothing else.
    pub fn of_name(name: &str) -> Pattern {
        Pattern {
            text: name.to_owned(),
            glob: None,
            fault: None,
        }
    }

    /// Text of a pattern that matches `name` and nothing else.
    pub fn escape(name: &str) -> String {
        globset::escape(name)
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches `name`.
    pub fn matches(&self, name: &str) -> bool {
        name == self.text
            || self.glob.as_ref().is_some_and(|glob| glob.is_match(name))
            || (self.text.contains("\\x") && printable(name) == self.text)
    }

    /// Remark on a pattern that its author may have meant otherwise.
    ///
    /// These are: an invalid glob; one with a backslash before a special character; and, where
    /// names may have special characters (`in_names`), one that does not match its own text.
    pub fn remark(&self, in_names: bool) -> Option<String> {
        let text = &self.text;
        if let Some(fault) = &self.fault {
            return Some(format!(
                "'{text}' is no pattern ({fault}): it means the one name as written"
            ));
        }
        let exact = Pattern::escape(text);
        let escapes = ["\\*", "\\?", "\\[", "\\]", "\\{", "\\}"];
        if escapes.iter().any(|escape| text.contains(escape)) {
            let bare = text.replace('\\', "");
            let exact = Pattern::escape(&bare);
            return Some(format!(
                "'{text}': a backslash is an ordinary character: \
     for the name '{bare}' write {exact}"
            ));
        }
        let glob = self.glob.as_ref().filter(|_| in_names)?;
        (!glob.is_match(text)).then(|| {
            format!(
                "'{text}': [ ] stand for one character of a set and {{ }} for one of several \
     texts: for the name as written write {exact}"
            )
        })
    }

    fn compile(text: &str, stops: bool) -> Pattern {
        let mut pattern = Pattern::of_name(text);
        if text.contains(['*', '?', '[', ']', '{', '}']) {
            let glob = GlobBuilder::new(text)
                .literal_separator(stops)
                .backslash_escape(false)
                .build();
            match glob {
                Ok(glob) => pattern.glob = Some(Glob::compile_matcher(&glob)),
                Err(error) => pattern.fault = Some(error.kind().to_string()),
            }
        }
        pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn globs_stop_at_a_separator_of_paths() {
        for (pattern, name, expected) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a/b/c", true),
            ("web-[0-9]", "web-3", true),
            ("web-[!0-9]", "web-3", false),
            ("{web,db}-?", "db-1", true),
            (r"/s/web\x2d1*", r"/s/web\x2d1.service", true),
            (r"/s/web\x2d1*", "/s/webx2d1.service", false),
            ("a[*]", "a*", true),
            ("a[*]", "ab", false),
        ] {
            let matches = Pattern::of_path(pattern).matches(name);
            assert_eq!(matches, expected, "{pattern} {name}");
        }
        assert!(Pattern::of_text("a*").matches("a/b"));
    }

    /// Promise 9.
    #[test]
    fn a_doubtful_pattern_is_remarked_upon() {
        for (pattern, part) in [
            ("web-[1", "is no pattern (unclosed character class"),
            ("web-{a", "is no pattern"),
            (r"web\*", "write web[*]"),
            ("/s/a[b].service", "write /s/a[[]b[]].service"),
            ("{a,b}", "write [{]a,b[}]"),
        ] {
            let remark = Pattern::of_path(pattern).remark(true);
            let remark = remark.unwrap_or_else(|| panic!("no remark on {pattern}"));
            assert!(remark.contains(part), "{remark}");
        }
        for pattern in [
            "*",
            "web-*",
            "/a/**",
            r"/system.slice/web\x2d1.service",
            "w?b",
        ] {
            assert_eq!(Pattern::of_path(pattern).remark(true), None, "{pattern}");
        }
        assert_eq!(Pattern::of_path("web-[0-9]").remark(false), None);
    }

    proptest! {
        /// Every name of a container selects that container.
        /// Promise 9.
        #[test]
        fn a_name_matches_itself(
    name in "[a-c/*?\\[\\]{},!\\\\x2d-]{0,16}",
    other in "[a-c/*x2d-]{0,4}",
        ) {
            prop_assert!(Pattern::of_path(&name).matches(&name));
            let exact = Pattern::of_path(&Pattern::escape(&name));
            prop_assert!(exact.matches(&name));
            if other != name && other != exact.as_str() {
                prop_assert!(!exact.matches(&other));
                prop_assert!(!Pattern::of_name(&name).matches(&other));
            }
        }

        /// Promise 9.
        #[test]
        fn the_printed_form_of_a_name_selects_it(
    bytes in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            use std::os::unix::ffi::OsStringExt;
            let path = std::path::PathBuf::from(std::ffi::OsString::from_vec(bytes));
            let text = crate::path_text(&path);
            prop_assert!(Pattern::of_path(&printable(&text)).matches(&text));
        }
    }
}
