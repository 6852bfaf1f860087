//! Log of the agent: one line an event on standard error. Under journald a line has its priority in
//! front (`sd-daemon(3)`) and no time, which journald adds. Events about victims
//! ([`crate::events`]) go to journald itself, with fields.

use crate::events::TARGET;
use cofferdam_host::with_remedy;
use cofferdam_types::printable;
use std::fmt;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

/// Prefix of the names of events' fields in the journal.
const FIELDS: &str = "COFFERDAM";

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `<4>text`
    Journal,
    /// `2026-11-21T23:50:00Z WARN text`
    Plain,
}

/// Sends the log to standard error from now on, and events with their fields to journald if it
/// reads standard error. Call once.
pub fn install() {
    let (form, journald) = if is_journal() {
        // Without journald's socket, events are written like other lines.
        (Form::Journal, tracing_journald::layer().ok())
    } else {
        (Form::Plain, None)
    };
    // A second call, in tests, changes nothing.
    let _ = tracing::subscriber::set_global_default(subscriber(form, journald, io::stderr));
}

/// Writes lines of `form` to `to`. Events go to `journald` instead, if it is there.
fn subscriber<W>(
    form: Form,
    journald: Option<tracing_journald::Layer>,
    to: W,
) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let apart = journald.is_some();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(to)
        .with_ansi(false)
        .event_format(form)
        .with_filter(filter_fn(move |meta| {
            is_logged(meta) && !(apart && is_event(meta))
        }));
    let named = |layer: tracing_journald::Layer| {
        let layer = layer.with_field_prefix(Some(FIELDS.to_owned()));
        layer.with_filter(filter_fn(is_event))
    };
    tracing_subscriber::registry()
        .with(lines)
        .with(journald.map(named))
}

fn is_logged(meta: &Metadata<'_>) -> bool {
    *meta.level() <= Level::INFO
}

fn is_event(meta: &Metadata<'_>) -> bool {
    meta.target() == TARGET
}

/// Whether journald reads standard error. `$JOURNAL_STREAM` has the device and inode of journald's
/// socket; standard error may have been redirected since.
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
        // The text may hold names that a container chose: print one line without control
        // characters.
        let mut text = Message(String::new());
        event.record(&mut text);
        writeln!(writer, "{}", printable(&with_remedy(text.0.trim_end())))
    }
}

/// Text of an event, without its fields.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a String cannot fail.
            let _ = fmt::Write::write_fmt(&mut self.0, format_args!("{value:?}"));
        }
    }
}

/// Priorities of syslog(3).
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
    use crate::events::{Event, EventPhase};
    use cofferdam_records::status::PAYS;
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    use std::io::Write;
    use std::os::unix::net::UnixDatagram;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(form: Form, log: impl FnOnce()) -> String {
        let buffer = LogBuffer::default();
        let to = buffer.clone();
        let subscriber = subscriber(form, None, move || to.clone());
        tracing::subscriber::with_default(subscriber, log);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// Promise 23.
    #[test]
    fn journald_gets_priorities_and_no_times() {
        let text = logged(Form::Journal, || {
            tracing::info!("ready");
            tracing::warn!("a\nb\u{1b}[2J");
            tracing::error!("no");
        });
        assert_eq!(text, "<6>ready\n<4>a\\x0ab\\x1b[2J\n<3>no\n");
    }

    /// Promise 23.
    #[test]
    fn an_event_is_a_line_of_words_without_its_fields() {
        let text = logged(Form::Journal, || {
            tracing::warn!(target: TARGET, victim = "db", cpus = 0.3, "db pays");
        });
        assert_eq!(text, "<4>db pays\n");
    }

    /// Replaces journald's socket in a mount namespace of the test's own.
    /// Promise 23.
    #[test]
    fn journald_gets_events_with_their_fields_and_no_line_besides() {
        let event = Event {
            name: PAYS,
            victim: "db\n\x1b[2J".to_owned(),
            cgroup: "/db".to_owned(),
            phase: EventPhase::Begins {
                cpus: 0.31,
                offender: Some("web".to_owned()),
            },
        };
        let (sent, lines) = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none = None::<&str>;
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(none, "/", none, private, none).unwrap();
            mount(none, "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
            std::fs::create_dir_all("/run/systemd/journal").unwrap();
            let journald = UnixDatagram::bind("/run/systemd/journal/socket").unwrap();
            let (buffer, layer) = (LogBuffer::default(), tracing_journald::layer().unwrap());
            let to = buffer.clone();
            let subscriber = subscriber(Form::Journal, Some(layer), move || to.clone());
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!("ready");
                event.log();
            });
            let mut bytes = vec![0; 4096];
            // The layer checks with an empty message whether journald is there.
            assert_eq!(journald.recv(&mut bytes).unwrap(), 0);
            let length = journald.recv(&mut bytes).unwrap();
            let lines = buffer.0.lock().unwrap().clone();
            (fields(&bytes[..length]), lines)
        })
        .join()
        .unwrap();
        assert_eq!(lines, b"<6>ready\n");
        for field in [
            "MESSAGE=db\\x0a\\x1b[2J pays for the packets of others, most of them web's: \
             0.31 CPUs; 'cofferdam explain' says what helps",
            "PRIORITY=4",
            "COFFERDAM_EVENT=pays_for_others",
            "COFFERDAM_STATE=begins",
            r"COFFERDAM_VICTIM=db\x0a\x1b[2J",
            "COFFERDAM_CGROUP=/db",
            "COFFERDAM_OFFENDER=web",
            "COFFERDAM_CPUS=0.31",
        ] {
            assert!(sent.iter().any(|f| f == field), "{field}: {sent:?}");
        }
    }

    /// Fields of a message in journald's native protocol: `NAME=value`, or the name, the length in
    /// eight bytes and the value.
    fn fields(mut bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            let (line, rest) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 1..]);
            if line.contains('=') {
                all.push(line.into_owned());
                bytes = rest;
                continue;
            }
            let (length, rest) = rest.split_first_chunk().unwrap();
            let (value, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            all.push(format!("{line}={}", String::from_utf8_lossy(value)));
            bytes = &rest[1..];
        }
        all
    }

    #[test]
    fn elsewhere_lines_have_a_time() {
        let text = logged(Form::Plain, || tracing::info!("ready"));
        assert!(text.ends_with("Z INFO ready\n"), "{text}");
    }
}
