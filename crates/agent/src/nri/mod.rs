//! Connection to the container runtime. It survives restarts of the runtime and of the agent.
//!
//! The connection runs in the control loop and never blocks it: the loop waits for [`Nri::wake`],
//! and [`Nri::take_turn`] reads and writes. Decisions about containers are in `control::runtime`.

mod waiter;

use crate::config::NriConfig;
use cofferdam_nri::{Adjustment, Call, Event, Roster, Session, Socket, Update};
use cofferdam_records::status::NriRecord;
use cofferdam_types::{Degradation, printable};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use waiter::Waiter;

/// Name and index of the agent as a plugin. The runtime calls plugins in the order of their
/// indices; late ones see the changes of the others.
const NAME: &str = "cofferdam";
const INDEX: &str = "90";
/// First pause before another attempt to connect. The pause doubles up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Duration of a sound session. The next one begins with the shortest pause.
const SOUND: Duration = Duration::from_secs(10);
/// Time within which a request should be answered.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(2);

/// Agent's side of the connection to the runtime.
#[derive(Debug)]
pub(crate) struct Nri {
    config: NriConfig,
    link: Link,
    waiter: Option<Waiter>,
    pause: Duration,
    pub roster: Roster,
    counts: Counts,
    /// Arrival of the current requests.
    arrived: Instant,
}

#[derive(Debug)]
enum Link {
    /// Not configured.
    Off,
    /// Disconnected; the next attempt is at `until`.
    Down { until: Instant, why: String },
    /// Connection to the runtime.
    Up(Box<Up>),
}

#[derive(Debug)]
struct Up {
    socket: Socket,
    session: Session,
    since: Instant,
    /// Name and version of the runtime, once it has sent them.
    runtime: Option<(String, String)>,
    malformed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sessions: u64,
    answers: u64,
    late: u64,
    slowest: Duration,
    malformed: u64,
}

/// Result of a turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Events from the runtime.
    pub events: Vec<Event>,
    /// Whether the connection was lost.
    pub lost: bool,
}

impl Default for Nri {
    fn default() -> Nri {
        Nri {
            config: NriConfig::default(),
            link: Link::Off,
            waiter: None,
            pause: SHORTEST_PAUSE,
            roster: Roster::default(),
            counts: Counts::default(),
            arrived: Instant::now(),
        }
    }
}

impl Nri {
    /// Applies the configuration from the next turn on. Returns whether the socket changed: the
    /// records of pods are forgotten then.
    pub fn switch(&mut self, config: &NriConfig) -> bool {
        let moved = config.socket != self.config.socket;
        self.config = config.clone();
        if !moved {
            return false;
        }
        self.roster = Roster::default();
        self.waiter = None;
        self.pause = SHORTEST_PAUSE;
        self.link = match config.socket {
            None => Link::Off,
            Some(_) => Link::Down {
                until: Instant::now(),
                why: "not tried yet".to_owned(),
            },
        };
        true
    }

    /// Whether the runtime can receive messages.
    pub fn is_connected(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// Time at which a turn is due without anything to read.
    pub fn due(&self) -> Option<Instant> {
        match &self.link {
            Link::Down { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// Descriptor that is readable when a turn is due, or when `sleeper` is readable.
    pub fn wake<'a>(&'a self, sleeper: BorrowedFd<'a>) -> BorrowedFd<'a> {
        match (&self.link, &self.waiter) {
            (Link::Up(_), Some(waiter)) => waiter.as_fd(),
            _ => sleeper,
        }
    }

    /// Connects, reads and writes as far as possible without blocking.
    pub fn take_turn(&mut self, sleeper: BorrowedFd<'_>, now: Instant) -> Turn {
        let mut turn = Turn::default();
        if self.due().is_some_and(|until| now >= until) {
            self.connect(sleeper, now);
        }
        let Link::Up(up) = &mut self.link else {
            return turn;
        };
        self.arrived = now;
        let ended = up.socket.turn(&mut up.session, &mut turn.events).err();
        self.counts.malformed += up.session.malformed() - up.malformed;
        up.malformed = up.session.malformed();
        for event in &turn.events {
            if let Event::Configured {
                runtime, version, ..
            } = event
            {
                let of = (printable(runtime), printable(version));
                tracing::info!("connected to {} {} over NRI", of.0, of.1);
                up.runtime = Some(of);
                self.counts.sessions += 1;
            }
        }
        let shutdown = turn.events.contains(&Event::Shutdown);
        if let Some(error) = ended {
            self.disconnect(error.to_string(), now);
            turn.lost = true;
            // Nobody waits for these answers.
            turn.events.clear();
        } else if shutdown {
            self.disconnect("the runtime has shut the plugin down".to_owned(), now);
            turn.lost = true;
        } else {
            self.update_waiter();
        }
        turn
    }

    /// Answers a request.
    pub fn answer(&mut self, call: Call, adjustment: Option<Adjustment>) {
        let Link::Up(up) = &mut self.link else {
            return;
        };
        up.session.answer(call, adjustment, &[]);
        // Send it at once: the runtime waits. The next turn reports an error.
        let _ = up.socket.flush(&mut up.session);
        let took = self.arrived.elapsed();
        self.counts.answers += 1;
        self.counts.late += u64::from(took > ANSWER_WITHIN);
        self.counts.slowest = self.counts.slowest.max(took);
        self.update_waiter();
    }

    /// Requests other CPUs for containers.
    pub fn update(&mut self, updates: &[Update]) {
        if let Link::Up(up) = &mut self.link
            && !updates.is_empty()
        {
            up.session.update(updates);
            let _ = up.socket.flush(&mut up.session);
            self.update_waiter();
        }
    }

    fn connect(&mut self, sleeper: BorrowedFd<'_>, now: Instant) {
        let Some(path) = self.config.socket.clone() else {
            return;
        };
        let connected = Socket::connect(&path).and_then(|socket| {
            let waiter = Waiter::new(sleeper, socket.as_fd())?;
            Ok((socket, waiter))
        });
        match connected {
            Ok((socket, waiter)) => {
                self.waiter = Some(waiter);
                self.link = Link::Up(Box::new(Up {
                    socket,
                    session: Session::begin(NAME, INDEX),
                    since: now,
                    runtime: None,
                    malformed: 0,
                }));
            }
            Err(e) => self.disconnect(format!("cannot connect to {}: {e}", path.display()), now),
        }
    }

    fn disconnect(&mut self, why: String, now: Instant) {
        let news = match &self.link {
            Link::Down { why: before, .. } => *before != why,
            Link::Up(up) => {
                if now.saturating_duration_since(up.since) >= SOUND {
                    self.pause = SHORTEST_PAUSE;
                }
                true
            }
            Link::Off => false,
        };
        if news {
            tracing::warn!("NRI: {why}; containers are found without it meanwhile");
        }
        self.waiter = None;
        self.link = Link::Down {
            until: now + self.pause,
            why,
        };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Waits for room to write only while data is unsent.
    fn update_waiter(&mut self) {
        if let (Link::Up(up), Some(waiter)) = (&self.link, &mut self.waiter) {
            waiter.wait_for_room(up.socket.as_fd(), !up.session.unsent().is_empty());
        }
    }

    /// Degradation if the connection is not as configured, or if pods were left out.
    pub fn degraded(&self) -> Option<Degradation> {
        let text = match &self.link {
            Link::Down { why, .. } => format!(
                "the container runtime is not asked for its pods: {why}; containers are found \
                 without it, and annotations of pods have no effect on new ones. Is NRI on in the \
                 runtime's configuration, and is its socket the one in [nri]?"
            ),
            Link::Up(_) if self.roster.left_out() > 0 => format!(
                "{} pods and containers are not known: their labels and annotations together are \
                 too large",
                self.roster.left_out()
            ),
            _ => return None,
        };
        Some(Degradation {
            name: match self.link {
                Link::Down { .. } => "nri_unavailable",
                _ => "nri_incomplete",
            }
            .to_owned(),
            text,
        })
    }

    /// Record for the status; `None` if NRI is off.
    pub fn record(&self) -> Option<NriRecord> {
        let socket = self.config.socket.as_ref()?;
        let up = match &self.link {
            Link::Up(up) => Some(up),
            _ => None,
        };
        let runtime = up.and_then(|up| up.runtime.clone());
        let (name, version) = runtime.unzip();
        let counts = self.counts;
        Some(NriRecord {
            socket: socket.display().to_string(),
            connected: name.is_some(),
            runtime: name,
            version,
            sessions: counts.sessions,
            pods: self.roster.pods().count() as u64,
            containers: self.roster.containers().count() as u64,
            answers: counts.answers,
            late_answers: counts.late,
            slowest_answer_s: counts.slowest.as_secs_f64(),
            malformed: counts.malformed,
        })
    }
}

#[cfg(test)]
mod tests;
