//! The dataplanes of this host, asked in a thread of their own: one that does not answer keeps neither
//! the page nor its end waiting.

use cofferdam_records::cores::{CoreRecord, cores};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::sampler::locked;

/// Dataplanes of a page, at most.
pub const MOST_DATAPLANES: usize = 16;
/// One that did not answer is left alone for this long; what it said before that is too old.
const REST: Duration = Duration::from_secs(10);
/// Letters of what a dataplane says, at most.
const LONGEST_TEXT: usize = 300;

/// Asks the dataplane that listens on a socket for its document, or says why there is none. May wait.
pub type Ask<E> = fn(&Path) -> Result<Value, E>;

/// A dataplane of this host, as it says itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dataplane {
    /// Its control socket.
    pub socket: String,
    /// Its device; empty until it has answered.
    pub device: String,
    /// Why it does not answer; null while it does.
    pub error: Option<String>,
    /// Its cores in the last interval; none before the second answer.
    pub cores: Vec<CoreRecord>,
}

/// Those of a page.
#[derive(Debug)]
pub struct Dataplanes {
    latest: Arc<Mutex<Vec<Dataplane>>>,
    tick: Option<SyncSender<()>>,
}

impl Dataplanes {
    /// Those that listen on `sockets`; no thread runs for none.
    ///
    /// # Errors
    /// When no thread can be had.
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
            // Not joined: it ends by itself when this is dropped, after what it waits for.
            thread.spawn(move || run(sockets, ask, &ticks, &to))?;
            tick = Some(send);
        }
        Ok(Dataplanes { latest, tick })
    }

    /// What they said last, and they are asked again; nothing, and they are not, unless somebody
    /// `looks`.
    pub fn latest_if(&self, looks: bool) -> Vec<Dataplane> {
        if !looks {
            return Vec::new();
        }
        if let Some(tick) = &self.tick {
            // Full: it is asking now.
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
    let mut all: Vec<Followed> = sockets.into_iter().map(Followed::new).collect();
    while ticks.recv().is_ok() {
        let rows = all.iter_mut().map(|one| one.read(ask, Instant::now()));
        let rows = rows.collect();
        *locked(to) = rows;
    }
}

/// One of them, with its last answer.
struct Followed {
    socket: PathBuf,
    last: Option<(Instant, Value)>,
    failed: Option<(Instant, String)>,
}

impl Followed {
    fn new(socket: PathBuf) -> Followed {
        Followed {
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
                    // Nobody looked for longer: an average over that time is not what happens now.
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
    fn one_that_answers_has_cores_from_its_second_answer_on() {
        let mut one = Followed::new("/run/x".into());
        let at = Instant::now();
        assert_eq!(one.read(answers, at).cores, []);
        let row = one.read(answers, at + Duration::from_secs(1));
        assert_eq!((row.cores.len(), row.cores[0].groups), (1, 128));
        assert_eq!(row.device.len(), LONGEST_TEXT);
    }

    /// Promise 14.
    #[test]
    fn one_that_does_not_answer_is_left_alone_for_a_while() {
        let mut one = Followed::new("/run/x".into());
        let at = Instant::now();
        let row = one.read(|_| Err("gone"), at);
        assert_eq!(row.error.as_deref(), Some("gone"));
        let row = one.read(answers, at + REST / 2);
        assert_eq!(row.error.as_deref(), Some("gone"));
        assert_eq!(one.read(answers, at + REST).error, None);
    }

    /// Promise 14.
    #[test]
    fn one_that_hangs_keeps_nobody_waiting() {
        // Would wait for an hour.
        let all = Dataplanes::new(vec!["/run/x".into()], hangs).unwrap();
        for _ in 0..100 {
            assert_eq!(all.latest_if(true), []);
        }
        drop(all);
    }
}
