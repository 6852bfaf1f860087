//! Dataplanes of this host, queried in a thread of their own: one that does not answer delays
//! neither the page nor its end.

use cofferdam_records::cores::{CoreRecord, cores};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::sampler::locked;

/// Limit on the dataplanes of a page.
pub const MOST_DATAPLANES: usize = 16;
/// Time without queries after a dataplane did not answer. An answer older than this is too old.
const REST: Duration = Duration::from_secs(10);
/// Limit on the letters of a text that a dataplane sends.
const LONGEST_TEXT: usize = 300;

/// Queries the dataplane on a socket for its document, or returns the reason why there is none. It
/// may block.
pub type Ask<E> = fn(&Path) -> Result<Value, E>;

/// Dataplane of this host, as it describes itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dataplane {
    /// Path of the control socket.
    pub socket: String,
    /// Device; empty until the first answer.
    pub device: String,
    /// Reason why it does not answer; null while it does.
    pub error: Option<String>,
    /// Cores in the last interval; none before the second answer.
    pub cores: Vec<CoreRecord>,
}

/// Dataplanes of a page.
#[derive(Debug)]
pub struct Dataplanes {
    latest: Arc<Mutex<Vec<Dataplane>>>,
    tick: Option<SyncSender<()>>,
}

impl Dataplanes {
    /// Starts the thread for the dataplanes on `sockets`, unless there are none.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn new<E: Display + 'static>(
        sockets: Vec<PathBuf>,
        ask: Ask<E>,
    ) -> std::io::Result<Dataplanes> {
        let latest = Arc::<Mutex<Vec<Dataplane>>>::default();
        let mut tick = None;
        if !sockets.is_empty() {
            let (send, ticks) = sync_channel(1);
            let to = latest.clone();
            let thread = std::thread::Builder::new().name("cofferdam-cores".to_owned());
            // The thread is not joined. It ends after its current query when this is dropped.
            thread.spawn(move || run(sockets, ask, &ticks, &to))?;
            tick = Some(send);
        }
        Ok(Dataplanes { latest, tick })
    }

    /// Returns the last answers and queries the dataplanes again, if a visitor `looks`. Otherwise
    /// returns nothing and queries nothing.
    pub fn latest_if(&self, looks: bool) -> Vec<Dataplane> {
        if !looks {
            return Vec::new();
        }
        if let Some(tick) = &self.tick {
            // A full channel means that a query is in progress.
            let _ = tick.try_send(());
        }
        locked(&self.latest).clone()
    }
}

fn run<E: Display>(
    sockets: Vec<PathBuf>,
    ask: Ask<E>,
    ticks: &Receiver<()>,
    to: &Mutex<Vec<Dataplane>>,
) {
    let mut all: Vec<TrackedDataplane> = sockets.into_iter().map(TrackedDataplane::new).collect();
    while ticks.recv().is_ok() {
        let rows = all.iter_mut().map(|one| one.read(ask, Instant::now()));
        let rows = rows.collect();
        *locked(to) = rows;
    }
}

/// One dataplane with its last answer.
struct TrackedDataplane {
    socket: PathBuf,
    last: Option<(Instant, Value)>,
    failed: Option<(Instant, String)>,
}

impl TrackedDataplane {
    fn new(socket: PathBuf) -> TrackedDataplane {
        TrackedDataplane {
            socket,
            last: None,
            failed: None,
        }
    }

    fn read<E: Display>(&mut self, ask: Ask<E>, now: Instant) -> Dataplane {
        let mut row = Dataplane {
            socket: bounded(&self.socket.to_string_lossy()),
            device: String::new(),
            error: None,
            cores: Vec::new(),
        };
        if let Some((at, why)) = &self.failed
            && now.duration_since(*at) < REST
        {
            row.error = Some(why.clone());
            return row;
        }
        match ask(&self.socket) {
            Ok(document) => {
                let device = document.get("device").and_then(Value::as_str);
                row.device = bounded(device.unwrap_or_default());
                if let Some((at, before)) = &self.last {
                    let passed = now.duration_since(*at);
                    // After a longer pause, the average would not describe the present.
                    if passed < REST {
                        row.cores = cores(before, &document, passed.as_secs_f64());
                    }
                }
                self.last = Some((now, document));
                self.failed = None;
            }
            Err(why) => {
                let why = bounded(&why.to_string());
                row.error = Some(why.clone());
                self.failed = Some((now, why));
                self.last = None;
            }
        }
        row
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answers(_: &Path) -> Result<Value, String> {
        Ok(json!({"device": "d".repeat(1000), "cores": [{"groups": 128}]}))
    }

    fn hangs(_: &Path) -> Result<Value, String> {
        std::thread::sleep(Duration::from_secs(3600));
        Err(String::new())
    }

    #[test]
    fn a_dataplane_has_cores_from_its_second_answer_on() {
        let mut one = TrackedDataplane::new("/run/x".into());
        let at = Instant::now();
        assert_eq!(one.read(answers, at).cores, []);
        let row = one.read(answers, at + Duration::from_secs(1));
        assert_eq!((row.cores.len(), row.cores[0].groups), (1, 128));
        assert_eq!(row.device.len(), LONGEST_TEXT);
    }

    /// Promise 14.
    #[test]
    fn a_silent_dataplane_is_not_queried_for_a_while() {
        let mut one = TrackedDataplane::new("/run/x".into());
        let at = Instant::now();
        let row = one.read(|_| Err("gone"), at);
        assert_eq!(row.error.as_deref(), Some("gone"));
        let row = one.read(answers, at + REST / 2);
        assert_eq!(row.error.as_deref(), Some("gone"));
        assert_eq!(one.read(answers, at + REST).error, None);
    }

    /// Promise 14.
    #[test]
    fn a_hanging_dataplane_delays_no_one() {
        // The query would wait for an hour.
        let all = Dataplanes::new(vec!["/run/x".into()], hangs).unwrap();
        for _ in 0..100 {
            assert_eq!(all.latest_if(true), []);
        }
        drop(all);
    }
}
