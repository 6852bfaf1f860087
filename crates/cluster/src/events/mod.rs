//! Events on pods: one process in a cluster asks the gateways of all nodes and writes what concerns a pod
//! as an event of that pod.
//!
//! Not the agents: RBAC cannot limit the right to write events to the pods of one node, so the token of one
//! node could write about every pod. Here a node is heard about its own pods only, which the API server says.
//! The API server is reached through a `kubectl proxy` beside this process, which has the credentials; the
//! gateways are asked on the addresses of their nodes.

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

pub use tracker::{MOST_KEPT, MOST_WRITES, MOST_WRITES_A_NODE, RENEWED};

/// How often the nodes are asked unless told otherwise.
pub const EVERY: Duration = Duration::from_secs(15);
/// The list of agents is taken again after this time, and sooner when one does not answer.
const LISTED: Duration = Duration::from_secs(300);
/// At least between two lists.
const LISTED_AT_LEAST: Duration = Duration::from_secs(30);
/// Longest token of the gateways, bytes.
const LONGEST_TOKEN: u64 = 4096;
/// How often it is looked whether this is to end.
const LOOK: Duration = Duration::from_millis(200);

/// What is told to whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `kubectl proxy`.
    pub proxy: Peer,
    /// Namespace of the agents.
    pub namespace: String,
    /// File with the token of the gateways; read in each round.
    pub token_file: PathBuf,
    /// Between two rounds.
    pub every: Duration,
    /// Agents asked at the same time.
    pub parallel: usize,
}

/// All that lasts from round to round.
#[derive(Debug, Default)]
struct Teller {
    agents: Vec<Agent>,
    listed: Option<Instant>,
    tracker: Tracker,
    writer: Writer,
    /// The last trouble that was logged: each once.
    trouble: Option<String>,
}

/// Tells until `stop` is set. What fails is tried again in the next round: an API server that is away is
/// waited for.
pub fn run(options: &Options, stop: &AtomicBool) {
    let api = Api::through(options.proxy.clone());
    let mut teller = Teller::default();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let trouble = teller.round(&api, options, stop).err();
        if trouble != teller.trouble {
            match &trouble {
                Some(why) => tracing::warn!("{why}"),
                None => tracing::info!("events are written again"),
            }
            teller.trouble = trouble;
        }
        while begun.elapsed() < options.every && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(options.every.saturating_sub(begun.elapsed())));
        }
    }
}

impl Teller {
    /// Asks all nodes once, and writes what is due. The error says what did not go.
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

    /// Until `deadline`: what is left waits for the next round.
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
            self.tracker.done(write, outcome, Instant::now());
        }
        result
    }
}

/// RFC 3339 to the second, as the API server keeps times of events.
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
    // It goes into a header.
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{} has no token of printable characters",
            file.display()
        )),
    }
}
