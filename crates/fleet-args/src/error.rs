//! Errors as one text.

use std::error::Error;

/// Joins `error` and its causes with colons. A cause whose text is in the text before it is
/// skipped: many errors contain the text of their source.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;
    use std::io;

    #[derive(Debug)]
    struct FailedStep(&'static str, io::Error);

    impl fmt::Display for FailedStep {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for FailedStep {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    /// Promise 76.
    #[test]
    fn a_cause_is_in_the_text_once() {
        let cause = || io::Error::from_raw_os_error(2);
        let words = "cannot read x: No such file or directory (os error 2)";
        assert_eq!(error_chain(&FailedStep("cannot read x", cause())), words);
        assert_eq!(error_chain(&FailedStep(words, cause())), words);
    }
}
