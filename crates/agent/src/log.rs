//! The log: one line an event on standard error. Under journald with its priority in front
//! (`sd-daemon(3)`) and without a time, which journald adds.

use std::fmt;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `<4>text`
    Journal,
    /// `2026-11-21T23:50:00Z WARN text`
    Plain,
}

/// Sends the log to standard error from now on. Call once.
pub fn install() {
    let form = if is_journal() {
        Form::Journal
    } else {
        Form::Plain
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_writer(io::stderr)
        .with_ansi(false)
        .event_format(form)
        .finish();
    // A second call, in tests, keeps the first.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// `$JOURNAL_STREAM` names the device and inode of journald's socket: standard error may have
/// been sent elsewhere since.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let own = std::fs::metadata("/proc/self/fd/2");
    !io::stderr().is_terminal()
        && own.is_ok_and(|meta| stream == format!("{}:{}", meta.dev(), meta.ino()))
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        match self {
            Form::Journal => write!(writer, "<{}>", priority(level))?,
            Form::Plain => {
                let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
                write!(writer, "{now} {level} ")?;
            }
        }
        // Names that a container chose may stand in it: one line, nothing that steers a
        // terminal.
        let mut text = String::new();
        context.format_fields(Writer::new(&mut text), event)?;
        let clean = |c: char| if c.is_control() { '?' } else { c };
        for c in text.trim_end().chars().map(clean) {
            fmt::Write::write_char(&mut writer, c)?;
        }
        writeln!(writer)
    }
}

/// syslog(3)'s priorities.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(form: Form, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let to = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || to.clone())
            .with_ansi(false)
            .event_format(form)
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn journald_gets_priorities_and_no_times() {
        let text = logged(Form::Journal, || {
            tracing::info!("ready");
            tracing::warn!("a\nb\u{1b}[2J");
            tracing::error!("no");
        });
        assert_eq!(text, "<6>ready\n<4>a?b\\x1b[2J\n<3>no\n");
    }

    #[test]
    fn elsewhere_lines_have_a_time() {
        let text = logged(Form::Plain, || tracing::info!("ready"));
        assert!(text.ends_with("Z INFO ready\n"), "{text}");
    }
}
