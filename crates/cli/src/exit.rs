//! End of a command: the documented exit codes, and one line on standard error.

use cofferdam_accounting::{ReadError, StartError};
use cofferdam_fleet_args::error_chain;
use cofferdam_host::with_remedy;
use cofferdam_latency::MeasureError;
use cofferdam_types::printable;
use std::io;
use std::process::ExitCode;

/// Reason why a command did not finish. Each kind has its exit code.
#[derive(Debug)]
pub enum Failure {
    /// An attempt failed: 1.
    Failed(anyhow::Error),
    /// The command line makes no sense: 2.
    Usage(String),
    /// This host lacks a requirement: 3. The text names it and the remedy.
    Unsupported(String),
    /// A signal ended the command, after everything was cleaned up: 130. The text says what is
    /// left, if anything.
    Interrupted(Option<String>),
    /// The reader of standard output closed it: exit code 0, without a message. A reader that
    /// closes a pipe early (`| head`) has what it wanted; an error would break `set -o pipefail`.
    ReaderGone,
    /// The answer of the command, already printed: this exit code.
    Answer(u8),
}

/// Result of a command.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// A failure from a text alone.
    pub fn failed(text: impl Into<String>) -> Failure {
        Failure::Failed(anyhow::Error::msg(text.into()))
    }

    /// The documented exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Unsupported(_) => 3,
            Failure::Interrupted(_) => 130,
            Failure::ReaderGone => 0,
            Failure::Answer(code) => *code,
        }
    }

    /// Line for standard error; `None` for a silent end.
    pub fn line(&self) -> Option<String> {
        let text = match self {
            Failure::Failed(error) => error_chain(&**error),
            Failure::Usage(text) | Failure::Unsupported(text) => text.clone(),
            Failure::Interrupted(left) => left.clone()?,
            Failure::ReaderGone | Failure::Answer(_) => return None,
        };
        Some(one_line(&with_remedy(&text)))
    }

    /// Prints the line and returns the exit code. Errors on standard error are ignored: they cannot
    /// be reported anywhere.
    pub fn report(&self) -> ExitCode {
        if let Some(line) = self.line() {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "cofferdam: {line}");
        }
        ExitCode::from(self.code())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Failed(error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        match error {
            StartError::Unsupported(text) => Failure::Unsupported(text),
            other => Failure::Failed(other.into()),
        }
    }
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Failure {
        match error {
            MeasureError::Unsupported(text) => Failure::Unsupported(text),
            other => Failure::Failed(other.into()),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::Failed(error.into())
    }
}

/// Whether the process runs as root: decides how a refusal by the kernel is explained.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Failure of an operation that needs root. It has code 3 and the remedy if this process is not
/// root and was refused for that.
pub fn refused_without_root(error: anyhow::Error, what: &str) -> Failure {
    let denied = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
    };
    match error.chain().any(denied) {
        true => needs_root(error, what),
        false => Failure::Failed(error),
    }
}

/// Failure of an operation that needs root and was refused, as [`refused_without_root`].
pub fn needs_root(error: anyhow::Error, what: &str) -> Failure {
    if is_root() {
        return Failure::Failed(error);
    }
    Failure::Unsupported(format!(
        "{what}: run it with sudo ({})",
        error_chain(&*error)
    ))
}

/// Most combining letters in a row that are printed; more would be drawn over other lines.
const MOST_COMBINING: usize = 4;

/// Joins the lines of `text` with single spaces, and escapes it with [`printable`]. The text may
/// have names that a container chose.
pub fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut combining = 0;
    printable(&words.join(" "))
        .chars()
        .filter(|c| {
            let alone = unicode_width::UnicodeWidthChar::width(*c) != Some(0);
            combining = if alone { 0 } else { combining + 1 };
            combining <= MOST_COMBINING
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 74.
    #[test]
    fn names_cannot_control_reorder_or_hide_text() {
        assert_eq!(one_line("a\u{1b}[2J\nb\u{9b}c"), r"a\x1b[2J b\xc2\x9bc");
        assert_eq!(
            one_line("gnp\u{202e}exe\u{feff}"),
            r"gnp\xe2\x80\xaeexe\xef\xbb\xbf"
        );
        assert_eq!(one_line("網頁 e\u{301}"), "網頁 e\u{301}");
        let stacked = format!("z{}", "\u{335}".repeat(300));
        assert_eq!(one_line(&stacked).chars().count(), 5);
    }

    /// Promise 76.
    #[test]
    fn codes_are_the_documented_ones() {
        assert_eq!(Failure::failed("x").code(), 1);
        assert_eq!(Failure::Usage("x".into()).code(), 2);
        assert_eq!(
            Failure::from(StartError::Unsupported("no BTF".into())).code(),
            3
        );
        assert_eq!(Failure::from(StartError::Failed("x".into())).code(), 1);
        assert_eq!(Failure::Interrupted(None).code(), 130);
        assert_eq!(Failure::ReaderGone.code(), 0);
    }

    /// Promise 24.
    #[test]
    fn too_many_open_files_are_reported_with_limit_and_remedy() {
        let error = io::Error::from_raw_os_error(nix::errno::Errno::EMFILE as i32);
        let error = anyhow::Error::new(error).context("cannot read /sys/fs/cgroup/x");
        let line = Failure::Failed(error).line().unwrap();
        for part in ["RLIMIT_NOFILE", "LimitNOFILE="] {
            assert!(line.contains(part), "{line}");
        }
    }

    /// Promise 76.
    #[test]
    fn messages_are_one_line_with_the_whole_chain() {
        let error = anyhow::anyhow!("disk\nfull\u{1b}[2J").context("cannot write to /x");
        assert_eq!(
            Failure::Failed(error).line().as_deref(),
            Some(r"cannot write to /x: disk full\x1b[2J")
        );
        assert_eq!(Failure::ReaderGone.line(), None);
    }

    /// Promise 76.
    #[test]
    fn a_cause_is_reported_once() {
        let cause = io::Error::from_raw_os_error(1);
        let text = format!("the program on eth0: {cause}");
        let error = anyhow::Error::new(cause).context(text);
        assert_eq!(
            Failure::Failed(error).line().as_deref(),
            Some("the program on eth0: Operation not permitted (os error 1)")
        );
    }
}
