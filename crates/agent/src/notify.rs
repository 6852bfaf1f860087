//! Notifications to systemd (`sd_notify(3)`): datagrams to `$NOTIFY_SOCKET`, and the control loop's
//! signs of life, which `WatchdogSec=` demands.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Service manager, if one started this process.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<Watchdog>,
}

impl Notifier {
    /// Connects as the environment says. Without systemd, or if its socket cannot be reached,
    /// nothing is ever sent: systemd's own time limits notice that.
    pub fn of_environment() -> Notifier {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name).ok());
        let text = |name: &str| std::env::var(name).ok();
        let limit = limit(
            text("WATCHDOG_USEC").as_deref(),
            text("WATCHDOG_PID").as_deref(),
            std::process::id(),
        );
        Notifier {
            watchdog: limit
                .filter(|_| socket.is_some())
                .map(|limit| Watchdog::new(limit, Instant::now())),
            socket,
        }
    }

    /// Sends `state`, such as `READY=1`; several assignments are lines of it. Errors are ignored.
    pub fn send(&self, state: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(state.as_bytes());
        }
    }

    /// Sends a sign of life if one is due. Cheap: called in every turn of the control loop, and
    /// only there, so that systemd notices a loop that hangs.
    pub fn send_sign_of_life(&mut self, now: Instant) {
        let due = self.watchdog.as_mut().is_some_and(|w| w.is_due(now));
        if due {
            self.send("WATCHDOG=1");
        }
    }
}

fn connect(name: &std::ffi::OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that does not read must not stop the control loop.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Time within which systemd expects a sign of life. `None` if it expects none of this process. The
/// values are those of `WATCHDOG_USEC` (microseconds) and `WATCHDOG_PID`.
fn limit(usec: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let usec: u64 = usec?.parse().ok().filter(|usec| *usec > 0)?;
    let is_meant = match pid {
        None => true,
        Some(pid) => pid.parse() == Ok(own),
    };
    is_meant.then_some(Duration::from_micros(usec))
}

/// Schedule of the signs of life.
#[derive(Debug)]
struct Watchdog {
    /// A third of the limit: one sign may be late, and one lost.
    period: Duration,
    next: Instant,
}

impl Watchdog {
    fn new(limit: Duration, now: Instant) -> Watchdog {
        Watchdog {
            period: limit / 3,
            next: now,
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.period;
        }
        due
    }
}

/// Unit of systemd in which this process runs; `None` without one.
pub(crate) fn own_unit() -> Option<Arc<str>> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    unit_of(&text).map(Arc::from)
}

/// Unit in a `/proc/PID/cgroup`.
fn unit_of(text: &str) -> Option<&str> {
    let mut parts = text.lines().flat_map(|line| line.rsplit('/'));
    // A user's service manager is a unit too, and not the one that starts an agent.
    parts.find(|part| part.ends_with(".service") && !part.starts_with("user@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notifier, and the socket of its manager.
    fn pair(watchdog: Option<Duration>) -> (Notifier, UnixDatagram) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        ours.set_nonblocking(true).unwrap();
        let notifier = Notifier {
            socket: Some(ours),
            watchdog: watchdog.map(|limit| Watchdog::new(limit, Instant::now())),
        };
        (notifier, theirs)
    }

    fn read_messages(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 256];
        let mut all = Vec::new();
        while let Ok(length) = socket.recv(&mut buffer) {
            all.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
        }
        all
    }

    /// Promise 11.
    #[test]
    fn a_unit_is_read_from_the_cgroup() {
        let unit = "12:cpu:/system.slice/cofferdam.service\n0::/system.slice/cofferdam.service\n";
        assert_eq!(unit_of(unit), Some("cofferdam.service"));
        assert_eq!(
            unit_of("0::/user.slice/user@0.service/app.slice/x.scope\n"),
            None
        );
        assert_eq!(unit_of("0::/\n"), None);
    }

    /// Promise 63.
    #[test]
    fn the_watchdog_is_for_the_process_that_it_names() {
        let second = Some(Duration::from_secs(1));
        for (usec, pid, expected) in [
            (Some("1000000"), Some("42"), second),
            (Some("1000000"), None, second),
            (Some("1000000"), Some("41"), None),
            (Some("1000000"), Some("self"), None),
            (Some("0"), Some("42"), None),
            (Some("-1"), Some("42"), None),
            (Some("soon"), Some("42"), None),
            (None, Some("42"), None),
        ] {
            assert_eq!(limit(usec, pid, 42), expected, "{usec:?} {pid:?}");
        }
    }

    /// Promise 63.
    #[test]
    fn three_signs_of_life_are_sent_within_the_limit() {
        let limit = Duration::from_secs(30);
        let (mut notifier, manager) = pair(Some(limit));
        let begin = Instant::now();
        // A turn every 20 ms for one limit.
        for turn in 0..1500 {
            notifier.send_sign_of_life(begin + Duration::from_millis(20 * turn));
        }
        assert_eq!(read_messages(&manager), ["WATCHDOG=1"; 3]);
        // A loop that stood still sends one sign, and does not catch up.
        notifier.send_sign_of_life(begin + 3 * limit);
        notifier.send_sign_of_life(begin + 3 * limit);
        assert_eq!(read_messages(&manager).len(), 1);
    }

    /// Promise 63.
    #[test]
    fn without_a_watchdog_no_sign_is_sent_and_states_are() {
        let (mut notifier, manager) = pair(None);
        notifier.send_sign_of_life(Instant::now());
        notifier.send("READY=1\nSTATUS=observing");
        assert_eq!(read_messages(&manager), ["READY=1\nSTATUS=observing"]);
        Notifier::default().send("READY=1");
    }

    /// Promise 63.
    #[test]
    fn a_manager_that_never_reads_cannot_block_the_loop() {
        let (notifier, _manager) = pair(None);
        for _ in 0..10_000 {
            notifier.send("STATUS=a line that nobody reads");
        }
    }

    /// Promise 63.
    #[test]
    fn both_kinds_of_address_are_reached() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let file = UnixDatagram::bind(&path).unwrap();
        connect(path.as_os_str()).unwrap().send(b"READY=1").unwrap();
        file.set_nonblocking(true).unwrap();
        assert_eq!(read_messages(&file), ["READY=1"]);

        let name = format!("cofferdam-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let hidden = UnixDatagram::bind_addr(&address).unwrap();
        hidden.set_nonblocking(true).unwrap();
        connect(format!("@{name}").as_ref())
            .unwrap()
            .send(b"STOPPING=1")
            .unwrap();
        assert_eq!(read_messages(&hidden), ["STOPPING=1"]);

        assert!(connect("/nowhere/notify".as_ref()).is_err());
        assert!(connect(folder.path().as_os_str()).is_err());
    }
}
