//! Attacks on the protection of `domain = "pkey"`, each in a process of its own: what stops them here,
//! on this CPU and kernel.

mod guest;
mod list;
mod stage;

pub use list::{Attack, all};
pub use stage::run;

use std::fmt;

/// How an attack ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What stopped it.
    Stopped(String),
    /// It is no attack: what the application is to be able to do, it did.
    Allowed(String),
    /// Nothing stopped it, or what is allowed was stopped.
    Succeeded(String),
}

const STOPPED: &str = "stopped: ";
const ALLOWED: &str = "allowed: ";
const SUCCEEDED: &str = "succeeded: ";

/// One line, which [`Verdict::parse`] reads.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Stopped(how) => write!(f, "{STOPPED}{how}"),
            Verdict::Allowed(how) => write!(f, "{ALLOWED}{how}"),
            Verdict::Succeeded(how) => write!(f, "{SUCCEEDED}{how}"),
        }
    }
}

impl Verdict {
    /// Reads a line.
    pub fn parse(line: &str) -> Option<Verdict> {
        let rest = |word| line.strip_prefix(word).map(str::to_owned);
        rest(STOPPED)
            .map(Verdict::Stopped)
            .or_else(|| rest(ALLOWED).map(Verdict::Allowed))
            .or_else(|| rest(SUCCEEDED).map(Verdict::Succeeded))
    }

    /// What it says, without the word.
    pub fn how(&self) -> &str {
        match self {
            Verdict::Stopped(how) | Verdict::Allowed(how) | Verdict::Succeeded(how) => how,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_survives_its_line() {
        for verdict in [
            Verdict::Stopped("a key".to_owned()),
            Verdict::Allowed(String::new()),
            Verdict::Succeeded("x: y".to_owned()),
        ] {
            assert_eq!(Verdict::parse(&verdict.to_string()), Some(verdict));
        }
        assert_eq!(Verdict::parse("killed"), None);
    }

    #[test]
    fn attacks_have_names_of_their_own_and_say_what_they_do() {
        let mut names: Vec<_> = all().iter().map(|attack| attack.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(all().iter().all(|attack| !attack.what.is_empty()));
    }
}
