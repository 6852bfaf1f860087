//! Access to the gateway: a client must show the token of the file.

use crate::TOKEN_HEADER;
use cofferdam_exporter::Request;
use cofferdam_paths::read_text;
use std::path::PathBuf;
use subtle::ConstantTimeEq;

/// Shortest token, characters: 32 letters and digits cannot be guessed.
pub const SHORTEST_TOKEN: usize = 32;
/// Longest token, bytes.
const LONGEST_TOKEN: u64 = 4096;

/// Access rules of a gateway.
#[derive(Debug)]
pub struct Access {
    file: PathBuf,
}

/// Reason why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The gateway has no token, for this reason.
    NoToken(String),
    /// The request shows no token.
    NotShown,
    /// The request shows a wrong token.
    Wrong,
}

impl Access {
    pub fn new(file: PathBuf) -> Access {
        Access { file }
    }

    /// Checks a request.
    pub fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let token = self.token().map_err(Refusal::NoToken)?;
        decide(&token, shown(request))
    }

    fn token(&self) -> Result<String, String> {
        let text = read_text(&self.file, LONGEST_TOKEN).map_err(|why| {
            format!(
                "this gateway has no token ({}: {why}): \
             create the Secret that the chart names, with the key token",
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

/// Token that a request shows, in our header or in that of Prometheus.
fn shown<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let bearer = || request.header("Authorization")?.strip_prefix(b"Bearer ");
    request.header(TOKEN_HEADER).or_else(bearer)
}

/// Compares the tokens. The time that this takes reveals only the length of the token.
fn decide(token: &str, shown: Option<&[u8]>) -> Result<(), Refusal> {
    let shown = shown.ok_or(Refusal::NotShown)?;
    let same: bool = token.as_bytes().ct_eq(shown).into();
    same.then_some(()).ok_or(Refusal::Wrong)
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
        assert_eq!(decide(token, None), Err(Refusal::NotShown));
        for wrong in [
            "",
            "0",
            &token[1..],
            &format!("{token}0"),
            &token.to_uppercase(),
        ] {
            assert_eq!(
                decide(token, Some(wrong.as_bytes())),
                Err(Refusal::Wrong),
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
        // The file is read each time; an editor's line end is not part of the token.
        std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(access.token().unwrap(), "0123456789abcdef0123456789abcdef");
    }
}
