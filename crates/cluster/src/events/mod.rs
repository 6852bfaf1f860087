//! Events of pods: one process in a cluster asks the gateways of all nodes, and writes conditions
//! of a pod as events of that pod.
//!
//! The agents do not write events. RBAC cannot limit the right to write events to the pods of one
//! node, so the token of one node could write about every pod. Here a node can only report its own
//! pods, which the API server confirms.
//!
//! A `kubectl proxy` next to this process has the credentials for the API server. The gateways are
//! asked on the addresses of their nodes.

mod tracker;
mod write;

use crate::agents::{self, Agent};
use crate::ask::{self, Question, Way, document};
use crate::http::Peer;
use crate::kubectl::Api;
use cofferdam_records::conditions::{CONDITIONS, ConditionsReport};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tracker::{Outcome, Tracker};
use write::Writer;

pub use tracker::{MOST_TRACKED, MOST_WRITES, MOST_WRITES_A_NODE, RENEWED};

/// Default interval between two rounds.
pub const EVERY: Duration = Duration::from_secs(15);
/// Age at which the list of agents is read again, or earlier if one does not answer.
const LISTED: Duration = Duration::from_secs(300);
/// Shortest time between two lists.
const LISTED_AT_LEAST: Duration = Duration::from_secs(30);
/// Longest token of the gateways, bytes.
const LONGEST_TOKEN: u64 = 4096;
/// Interval between two checks whether the process is to end.
const LOOK: Duration = Duration::from_millis(200);

/// Options of the events process.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `kubectl proxy`.
    pub proxy: Peer,
    /// Namespace of the agents.
    pub namespace: String,
    /// File with the token of the gateways; read in each round.
    pub token_file: PathBuf,
    /// Interval between two rounds.
    pub every: Duration,
    /// Agents asked at the same time.
    pub parallel: usize,
}

/// State that lasts from round to round.
#[derive(Debug, Default)]
struct EventLoop {
    agents: Vec<Agent>,
    listed: Option<Instant>,
    tracker: Tracker,
    writer: Writer,
    /// Last trouble that was logged, so that each is logged once.
    trouble: Option<String>,
}

/// Writes events until `stop` is set. A failure is retried in the next round: the process waits for
/// an API server that is away.
pub fn run(options: &Options, stop: &AtomicBool) {
    let api = Api::through(options.proxy.clone());
    let mut events = EventLoop::default();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let trouble = events.round(&api, options, stop).err();
        if trouble != events.trouble {
            match &trouble {
                Some(why) => tracing::warn!("{why}"),
                None => tracing::info!("events are written again"),
            }
            events.trouble = trouble;
        }
        while begun.elapsed() < options.every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(options.every.saturating_sub(begun.elapsed())));
        }
    }
}

impl EventLoop {
    /// Asks all nodes once, and writes the due events. The error names the failures.
    fn round(&mut self, api: &Api, options: &Options, stop: &AtomicBool) -> Result<(), String> {
        let begun = Instant::now();
        let deadline = begun + options.every.max(ask::EACH_WITHIN);
        self.list(api, options, deadline)?;
        let token = token(options)?;
        let question = Question {
            namespace: &options.namespace,
            token: &token,
            path: "/v1/conditions",
            parallel: options.parallel,
            deadline,
        };
        let read = |_: &Agent, body: &[u8]| document::<ConditionsReport>(body, CONDITIONS);
        let answers = ask::all(Way::Direct, &self.agents, &question, stop, read);
        let mut silent = (self.agents.iter().zip(&answers))
            .filter_map(|(agent, answer)| Some((agent, answer.as_ref().err()?)));
        let first = silent
            .next()
            .map(|(agent, why)| format!("{}: {why}", agent.node));
        let more = silent.count();
        if first.is_some() && self.listed.is_some_and(|at| at.elapsed() > LISTED_AT_LEAST) {
            self.listed = None;
        }
        let nodes: Vec<_> = (self.agents.iter().zip(answers))
            .map(|(agent, answer)| (agent.node.clone(), answer.ok()))
            .collect();
        self.tracker.take(&nodes);
        self.write(api, stop, begun + options.every)?;
        match first {
            None => Ok(()),
            Some(first) if more == 0 => Err(format!("no answer from {first}")),
            Some(first) => Err(format!("no answer from {first}; and from {more} more")),
        }
    }

    fn list(&mut self, api: &Api, options: &Options, deadline: Instant) -> Result<(), String> {
        if self.listed.is_some_and(|at| at.elapsed() < LISTED) {
            return Ok(());
        }
        let found = agents::list(api, &options.namespace, deadline);
        self.agents = found.map_err(|why| why.to_string())?.agents;
        self.listed = Some(Instant::now());
        Ok(())
    }

    /// Writes due events until `deadline`; the rest waits for the next round.
    fn write(&mut self, api: &Api, stop: &AtomicBool, deadline: Instant) -> Result<(), String> {
        let (writes, waiting) = self.tracker.due(Instant::now());
        if waiting > 0 {
            tracing::info!("{waiting} events wait: {MOST_WRITES} are written in a round");
        }
        let mut result = Ok(());
        for write in &writes {
            if stop.load(Ordering::Relaxed) || Instant::now() >= deadline {
                break;
            }
            let time = time();
            let outcome = self.writer.write(api, write, &time);
            let outcome = outcome.unwrap_or_else(|why| {
                result = Err(why);
                Outcome::Failed
            });
            self.tracker.record_outcome(write, outcome, Instant::now());
        }
        result
    }
}

/// Present time in RFC 3339 to the second, as the API server stores times of events.
fn time() -> String {
    let text = cofferdam_records::time(SystemTime::now());
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

fn token(options: &Options) -> Result<String, String> {
    let file = &options.token_file;
    let text = cofferdam_paths::read_text(file, LONGEST_TOKEN).map_err(|why| {
        format!(
            "cannot read the token of the gateways, {}: {why}",
            file.display()
        )
    })?;
    let text = text.trim();
    // The token goes into a header.
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{} has no token of printable characters",
            file.display()
        )),
    }
}
