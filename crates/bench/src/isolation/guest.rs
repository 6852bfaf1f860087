//! The driver's side of a load generator, which may run anywhere: lines in, lines out.

use crate::error::BenchError;
use crate::line_process::LineProcess;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit to prepare: a disk load writes its file first, on a throttled device.
const PREPARE: Duration = Duration::from_secs(60);
/// Time limit for its standard error to be closed after its end.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Lines of its standard error that are stored for the error message.
const KEPT_WORDS: usize = 5;

/// Figures of a load in its window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LoadFigures {
    pub window_s: f64,
    pub ops: u64,
    pub bytes: u64,
    pub lost: u64,
    pub restarts: u64,
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
}

/// Progress of a load since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tick {
    /// Time of arrival by the driver's clock: by then this much was done, perhaps more.
    pub at: Instant,
    pub ops: u64,
    pub bytes: u64,
}

/// Running load generator. Dropping it closes its input, and kills it if it does not end.
pub(super) struct Guest {
    child: LineProcess,
    /// Received lines with their times.
    lines: Receiver<(Instant, String)>,
    words: Arc<Mutex<Vec<String>>>,
    /// Thread that reads its standard error until that is closed.
    listener: Option<JoinHandle<()>>,
    /// Time limit of its end: a container's runtime cleans up after it.
    ending: Duration,
    ticks: Vec<Tick>,
}

impl Guest {
    /// Starts `command`, which runs `cofferdam-load serve` somewhere with its standard input and
    /// output connected here. Waits at most `patience` until it is ready.
    pub fn start(
        name: &str,
        mut command: Command,
        patience: Duration,
    ) -> Result<Guest, BenchError> {
        let mut child = LineProcess::start(name, &mut command)?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stdout);
                let mut line = Vec::new();
                // Bytes, not text: a virtual machine's console may print anything.
                while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                    let text = String::from_utf8_lossy(&line);
                    let answer = text.find('@').map(|at| text[at..].trim_end().to_owned());
                    if answer.is_some_and(|a| sender.send((Instant::now(), a)).is_err()) {
                        return;
                    }
                    line.clear();
                }
            });
        }
        let words = Arc::new(Mutex::new(Vec::new()));
        let listener = child.stderr().map(|stderr| {
            let words = words.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    if let Ok(mut words) = words.lock()
                        && !line.trim().is_empty()
                    {
                        words.push(line.trim().to_owned());
                        let surplus = words.len().saturating_sub(KEPT_WORDS);
                        words.drain(..surplus);
                    }
                }
            })
        });
        let mut guest = Guest {
            child,
            lines,
            words,
            listener,
            ending: Duration::from_secs(10),
            ticks: Vec::new(),
        };
        guest.expect("@ready", patience)?;
        Ok(guest)
    }

    /// Name in errors.
    pub fn name(&self) -> &str {
        self.child.name()
    }

    /// Process id of the started command.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Prepares a load and waits until it is ready.
    pub fn prepare(&mut self, line: &str) -> Result<(), BenchError> {
        self.begin(line)?;
        self.await_prepared()
    }

    /// Sends the load to prepare and returns, so that other guests may prepare at the same time.
    pub fn begin(&mut self, line: &str) -> Result<(), BenchError> {
        self.forget();
        self.say(&format!("prepare {line}"))
    }

    /// Waits for the end of the preparation that [`Guest::begin`] started.
    pub fn await_prepared(&mut self) -> Result<(), BenchError> {
        self.expect("@prepared", PREPARE)
    }

    /// Starts the load.
    pub fn go(&mut self, warmup: Duration, measure: Duration) -> Result<(), BenchError> {
        self.say(&format!(
            "go warmup_ms={} measure_ms={}",
            warmup.as_millis(),
            measure.as_millis()
        ))
    }

    /// Stops the load early.
    pub fn stop(&mut self) -> Result<(), BenchError> {
        self.say("stop")
    }

    /// Waits at most `patience` for the end of the load; `None` if it still runs.
    pub fn await_figures(&mut self, patience: Duration) -> Result<Option<LoadFigures>, BenchError> {
        let deadline = Instant::now() + patience;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok((at, line)) => {
                    if let Some(tick) = tick(&line, at) {
                        self.ticks.push(tick);
                    } else if let Some(words) = line.strip_prefix("@done ") {
                        let done = parse_done(words);
                        return match done {
                            Some(done) => Ok(Some(done)),
                            None => Err(self.child.failure(format!("it answered '{line}'"))),
                        };
                    } else if let Some(reason) = line.strip_prefix("@error ") {
                        return Err(self.child.failure(reason.to_owned()));
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(self.post_mortem()),
            }
        }
    }

    /// Waits for the end of the load.
    ///
    /// # Errors
    /// The load has not ended within `patience`.
    pub fn await_end(&mut self, patience: Duration) -> Result<LoadFigures, BenchError> {
        let done = self.await_figures(patience)?;
        done.ok_or_else(|| late_error(self.name()))
    }

    /// Ticks since the last preparation.
    pub fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// Drops all lines received so far.
    fn forget(&mut self) {
        self.ticks.clear();
        while self.lines.try_recv().is_ok() {}
    }

    fn expect(&mut self, answer: &str, patience: Duration) -> Result<(), BenchError> {
        let deadline = Instant::now() + patience;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok((_, line)) if line == answer => return Ok(()),
                Ok((_, line)) => {
                    if let Some(reason) = line.strip_prefix("@error ") {
                        return Err(self.child.failure(reason.to_owned()));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let waited = patience.as_secs();
                    return Err(self.child.failure(format!("no answer for {waited} s")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.post_mortem()),
            }
        }
    }

    fn say(&mut self, line: &str) -> Result<(), BenchError> {
        let sent = self.child.say(line);
        sent.map_err(|_| self.post_mortem())
    }

    /// Error of a guest that closed its output, with the end of its standard error.
    fn post_mortem(&mut self) -> BenchError {
        self.end();
        // The last lines may still be in the pipe; a helper that still runs may keep it open.
        let deadline = Instant::now() + LAST_WORDS;
        while self.listener.as_ref().is_some_and(|l| !l.is_finished()) && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        let words = self.words.lock().map(|w| w.join("; ")).unwrap_or_default();
        let status = self.child.ended().ok().flatten();
        let status = status.map_or("it ended".to_owned(), |s| format!("it ended ({s})"));
        self.child.failure(match words.is_empty() {
            true => status,
            false => format!("{status}: {words}"),
        })
    }

    fn end(&mut self) {
        // The end of its input ends it. A virtual machine's console has no such end, so it gets a
        // command too.
        let _gone = self.child.say("quit");
        self.child.hang_up();
        let deadline = Instant::now() + self.ending;
        while Instant::now() < deadline {
            match self.child.ended() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
        self.child.kill();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// Error of a load's process that does not end.
pub(super) fn late_error(worker: &str) -> BenchError {
    BenchError::Worker {
        worker: worker.to_owned(),
        reason: "not finished in time".to_owned(),
    }
}

/// Parses `@tick OPS BYTES`, received at `at`.
fn tick(line: &str, at: Instant) -> Option<Tick> {
    let (ops, bytes) = line.strip_prefix("@tick ")?.split_once(' ')?;
    Some(Tick {
        at,
        ops: ops.parse().ok()?,
        bytes: bytes.parse().ok()?,
    })
}

/// Parses the words after `@done`.
fn parse_done(words: &str) -> Option<LoadFigures> {
    let values: BTreeMap<&str, u64> = words
        .split(' ')
        .map(|word| {
            let (key, value) = word.split_once('=')?;
            Some((key, value.parse().ok()?))
        })
        .collect::<Option<_>>()?;
    let need = |key| values.get(key).copied();
    Some(LoadFigures {
        window_s: need("window_us")? as f64 / 1e6,
        ops: need("ops")?,
        bytes: need("bytes")?,
        lost: need("lost")?,
        restarts: need("restarts")?,
        p50_us: need("p50_us").map(|us| us as f64),
        p99_us: need("p99_us").map(|us| us as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn answers_are_found_among_a_consoles_noise() {
        let script = "printf 'boot \\377\\n[ 0.1] @ready\\r\\n'; read x; echo @prepared; read x; \
            echo '@tick 5 6'; echo '@done window_us=500000 ops=7 bytes=8 lost=1 restarts=0 \
            p99_us=9'";
        let mut guest = Guest::start("console", shell(script), Duration::from_secs(20)).unwrap();
        guest.prepare("cpu").unwrap();
        let before = Instant::now();
        guest.go(Duration::ZERO, Duration::from_secs(1)).unwrap();
        let done = guest
            .await_figures(Duration::from_secs(20))
            .unwrap()
            .unwrap();
        assert_eq!((done.window_s, done.ops, done.p99_us), (0.5, 7, Some(9.0)));
        assert_eq!(done.p50_us, None);
        let [tick] = guest.ticks() else {
            panic!("{:?}", guest.ticks());
        };
        assert_eq!((tick.ops, tick.bytes), (5, 6));
        assert!(tick.at >= before, "{tick:?}");
    }

    #[test]
    fn a_guest_that_dies_is_reported_in_its_own_words() {
        let script = "echo @ready; read x; echo 'no such memory' >&2; exit 3";
        let mut guest = Guest::start("frail", shell(script), Duration::from_secs(20)).unwrap();
        let reason = guest.prepare("cpu").unwrap_err().to_string();
        assert!(
            reason.contains("frail") && reason.contains("no such memory"),
            "{reason}"
        );
        let missing = Command::new("/no/such/program");
        assert!(Guest::start("x", missing, Duration::from_secs(1)).is_err());
    }

    #[test]
    fn any_bytes_are_an_answer_or_none() {
        let mut random = fastrand::Rng::with_seed(5);
        let words = [
            "window_us=1",
            "ops=",
            "=",
            "p99_us=18446744073709551616",
            "ops=2",
            "x",
            "",
        ];
        for _ in 0..2_000 {
            let line: Vec<&str> = (0..random.usize(..9))
                .map(|_| words[random.usize(..7)])
                .collect();
            let line = line.join(" ");
            assert!(parse_done(&line).is_none() || line.contains("window_us=1"));
            assert!(tick(&format!("@tick {line}"), Instant::now()).is_none());
        }
    }
}
