//! The log: one line an event on standard error. Under journald with its priority in front
//! (`sd-daemon(3)`) and without a time, which journald adds; what containers suffer
//! ([`crate::events`]) goes to journald itself, with fields.

use crate::events::TARGET;
use std::fmt;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// Before the names of events' fields in the journal.
const FIELDS: &str = "COFFERDAM";

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `<4>text`
    Journal,
    /// `2026-11-21T23:50:00Z WARN text`
    Plain,
}

/// Sends the log to standard error from now on, and events with their fields to journald where that
/// reads it. Call once.
pub fn install() {
    let journald = is_journal()
        .then(tracing_journald::layer)
        // journald is not there: lines go where the others go.
        .and_then(Result::ok)
        .map(|layer| layer.with_field_prefix(Some(FIELDS.to_owned())));
    let form = if is_journal() {
        Form::Journal
    } else {
        Form::Plain
    };
    let apart = journald.is_some();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .event_format(form)
        .with_filter(filter_fn(move |meta| {
            is_told(meta) && !(apart && is_event(meta))
        }));
    let journald = journald.map(|layer| layer.with_filter(filter_fn(is_event)));
    let subscriber = tracing_subscriber::registry().with(lines).with(journald);
    // A second call, in tests, keeps the first.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn is_told(meta: &Metadata<'_>) -> bool {
    *meta.level() <= Level::INFO
}

fn is_event(meta: &Metadata<'_>) -> bool {
    meta.target() == TARGET
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
        _: &FmtContext<'_, S, N>,
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
        let mut text = Message(String::new());
        event.record(&mut text);
        let clean = |c: char| if c.is_control() { '?' } else { c };
        for c in text.0.trim_end().chars().map(clean) {
            fmt::Write::write_char(&mut writer, c)?;
        }
        writeln!(writer)
    }
}

/// The words of an event, without its fields.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a String cannot fail.
            let _ = fmt::Write::write_fmt(&mut self.0, format_args!("{value:?}"));
        }
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
        assert_eq!(text, "<6>ready\n<4>a?b?[2J\n<3>no\n");
    }

    #[test]
    fn an_event_is_a_line_of_words_without_its_fields() {
        let text = logged(Form::Journal, || {
            tracing::warn!(target: TARGET, victim = "db", cpus = 0.3, "db pays");
        });
        assert_eq!(text, "<4>db pays\n");
    }

    #[test]
    fn elsewhere_lines_have_a_time() {
        let text = logged(Form::Plain, || tracing::info!("ready"));
        assert!(text.ends_with("Z INFO ready\n"), "{text}");
    }
}
