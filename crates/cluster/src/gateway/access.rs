//! Who is answered: whoever shows the token of the file.

use crate::TOKEN_HEADER;
use cofferdam_exporter::Request;
use cofferdam_paths::read_text;
use std::path::PathBuf;
use subtle::ConstantTimeEq;

/// Shortest token, characters: 32 letters and digits are more than anybody can try.
pub const SHORTEST_TOKEN: usize = 32;
/// Longest token, bytes.
const LONGEST_TOKEN: u64 = 4096;

/// The rules of a gateway.
#[derive(Debug)]
pub struct Access {
    file: PathBuf,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The gateway has no token itself: the reason.
    NoToken(String),
    /// The request shows none.
    NotShown,
    /// It shows another.
    Wrong,
}

impl Access {
    pub fn new(file: PathBuf) -> Access {
        Access { file }
    }

    /// Decides about a request.
    pub fn check(&self, request: &Request<'_>) -> Result<(), Refused> {
        let token = self.token().map_err(Refused::NoToken)?;
        decide(&token, shown(request))
    }

    fn token(&self) -> Result<String, String> {
        let text = read_text(&self.file, LONGEST_TOKEN).map_err(|why| {
            format!(
                "this gateway has no token ({}: {why}): create the Secret that the chart names, with the key token",
                self.file.display()
            )
        })?;
        let token = text.trim();
        if token.len() < SHORTEST_TOKEN {
            return Err(format!(
                "the token in {} is shorter than {SHORTEST_TOKEN} characters: replace the Secret",
                self.file.display()
            ));
        }
        Ok(token.to_owned())
    }
}

/// What a request shows: our header, or the one that Prometheus sends.
fn shown<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let bearer = || request.header("Authorization")?.strip_prefix(b"Bearer ");
    request.header(TOKEN_HEADER).or_else(bearer)
}

/// The time this takes says nothing about the token but its length.
fn decide(token: &str, shown: Option<&[u8]>) -> Result<(), Refused> {
    let shown = shown.ok_or(Refused::NotShown)?;
    let same: bool = token.as_bytes().ct_eq(shown).into();
    same.then_some(()).ok_or(Refused::Wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Promise 73.
    #[test]
    fn only_the_whole_token_gets_in() {
        let token = "0123456789abcdef0123456789abcdef";
        assert_eq!(decide(token, Some(token.as_bytes())), Ok(()));
        assert_eq!(decide(token, None), Err(Refused::NotShown));
        for wrong in [
            "",
            "0",
            &token[1..],
            &format!("{token}0"),
            &token.to_uppercase(),
        ] {
            assert_eq!(
                decide(token, Some(wrong.as_bytes())),
                Err(Refused::Wrong),
                "{wrong}"
            );
        }
    }

    /// Promise 73.
    #[test]
    fn a_gateway_without_a_token_answers_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let access = Access::new(file.clone());
        assert!(access.token().unwrap_err().contains("create the Secret"));
        for short in ["", "\n", "short", "0123456789abcdef0123456789abcde\n"] {
            std::fs::write(&file, short).unwrap();
            assert!(
                access.token().unwrap_err().contains("shorter than 32"),
                "{short}"
            );
        }
        // Read anew each time; the line end of an editor is none of it.
        std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(access.token().unwrap(), "0123456789abcdef0123456789abcdef");
    }
}
