//! Licence expressions of SPDX, and of crates.io's older form with `/`.

use anyhow::{Result, bail};

/// Whether the licences that `is_allowed` accepts satisfy `expression`.
pub fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    let text = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut parser = Parser {
        words: &words,
        is_allowed,
    };
    let satisfied = parser.choice()?;
    match parser.words.first() {
        None => Ok(satisfied),
        Some(word) => bail!("\"{expression}\" is no licence expression: \"{word}\" is unexpected"),
    }
}

struct Parser<'a> {
    /// Words that are not yet read.
    words: &'a [&'a str],
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    /// Parts with `OR` between them.
    fn choice(&mut self) -> Result<bool> {
        let mut satisfied = self.conjunction()?;
        while self.takes("OR") {
            satisfied |= self.conjunction()?;
        }
        Ok(satisfied)
    }

    /// Parts with `AND` between them.
    fn conjunction(&mut self) -> Result<bool> {
        let mut satisfied = self.part()?;
        while self.takes("AND") {
            satisfied &= self.part()?;
        }
        Ok(satisfied)
    }

    /// Licence, with an exception or without, or an expression in brackets.
    fn part(&mut self) -> Result<bool> {
        if self.takes("(") {
            let satisfied = self.choice()?;
            if !self.takes(")") {
                bail!("a bracket of a licence expression is not closed");
            }
            return Ok(satisfied);
        }
        let license = self.word()?;
        if self.takes("WITH") {
            // An exception grants more than the licence.
            self.word()?;
        }
        Ok((self.is_allowed)(license))
    }

    fn word(&mut self) -> Result<&'a str> {
        let Some((word, rest)) = self.words.split_first() else {
            bail!("a licence expression ends too early");
        };
        self.words = rest;
        if matches!(*word, "(" | ")" | "OR" | "AND" | "WITH") {
            bail!("\"{word}\" is no licence");
        }
        Ok(word)
    }

    fn takes(&mut self, wanted: &str) -> bool {
        let is_next = self.words.first() == Some(&wanted);
        if is_next {
            self.words = self.words.get(1..).unwrap_or_default();
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 80.
    #[test]
    fn an_expression_is_satisfied_by_allowed_licences() {
        let is_allowed = |name: &str| matches!(name, "MIT" | "Apache-2.0");
        for (expression, wanted) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("GPL-3.0-only OR MIT", true),
            ("GPL-3.0-only/MIT", true),
            ("GPL-3.0-only AND MIT", false),
            ("(GPL-3.0-only OR MIT) AND Apache-2.0", true),
            ("GPL-3.0-only OR MIT AND BSD-2-Clause", false),
            ("Apache-2.0 WITH LLVM-exception", true),
        ] {
            let found = is_satisfied(expression, &is_allowed).unwrap();
            assert_eq!(found, wanted, "{expression}");
        }
        for wrong in ["", "MIT OR", "(MIT", "MIT)", "MIT MIT", "AND MIT"] {
            assert!(is_satisfied(wrong, &is_allowed).is_err(), "{wrong}");
        }
    }
}
