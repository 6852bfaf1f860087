//! `cofferdam explain`: measures, asks the agent, and prints what is wrong.

use crate::args::ExplainArgs;
use crate::busiest::Busiest;
use crate::diagnosis::{self, Watch};
use crate::exit::{Failure, Outcome};
use crate::here;
use crate::interrupt::Interrupt;
use crate::output::{Output, json};
use crate::progress::Progress;
use crate::selection::Selection;
use crate::source::{self, Either, Meter};
use crate::units;
use cofferdam_agent::{Client, ClientError};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::explain::{Agent, Explanation, explain, text};
use cofferdam_types::Interval;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Readings of one explanation: several, so that a momentary effect is recognized.
const READINGS: u32 = 3;
/// Longest measurement that is explained by the seconds that the agent has watched, as in all other
/// views. A longer one is explained by itself.
const OF_AGENT: Duration = Duration::from_secs(5);

/// Prints the explanation, for people or for programs.
pub fn run(args: &ExplainArgs, interrupt: &Interrupt) -> Outcome {
    let mut progress = Progress::new(true);
    progress.show(&format!("measuring for {}", units::duration(args.duration)));
    let mut client = connect(&args.agent.path())?;
    let length = args.duration / READINGS;
    let busiest = Busiest::begin();
    let mut measured = measure(
        &mut client,
        &args.agent.path(),
        (READINGS, length),
        true,
        interrupt,
    )?;
    busiest.name(&mut measured.explanation, &measured.containers);
    progress.clear();
    let text = if args.json {
        json(&measured.explanation)?
    } else {
        text::screen(&measured.explanation)
    };
    Output::stdout().write(&text)
}

/// Connection to the agent, or the reason why there is none.
pub enum AgentConnection {
    /// The agent answers.
    Running(Client),
    /// No process listens on the socket.
    NotRunning,
    /// The agent refuses this user.
    NotPermitted,
}

/// Connects to the agent on `socket`.
pub fn connect(socket: &Path) -> Result<AgentConnection, Failure> {
    match Client::connect(socket) {
        Ok(client) => Ok(AgentConnection::Running(client)),
        Err(ClientError::NotRunning(_)) => Ok(AgentConnection::NotRunning),
        Err(ClientError::Denied(_)) => Ok(AgentConnection::NotPermitted),
        Err(other) => Err(other.into()),
    }
}

/// Measurement with its explanation.
pub struct Measurement {
    /// The whole measurement as one interval.
    pub total: Interval,
    /// The agent's answers.
    pub agent: Agent,
    /// Explanation of what is wrong.
    pub explanation: Explanation,
    /// Containers of the last reading.
    pub containers: Vec<ContainerRecord>,
}

/// Takes `count` readings, each `length` long, from the agent or from an accounting of our own. The
/// latter also diagnoses lost CPU time if `diagnose`.
pub fn measure(
    connection: &mut AgentConnection,
    socket: &Path,
    (count, length): (u32, Duration),
    diagnose: bool,
    interrupt: &Interrupt,
) -> Result<Measurement, Failure> {
    let before = match connection {
        AgentConnection::Running(client) => Some(client.status()?),
        AgentConnection::NotRunning | AgentConnection::NotPermitted => None,
    };
    let source = source::start(socket, &[])?;
    let mut watch = match &source {
        // The agent's status has the diagnosis.
        Either::Agent(_) => Watch::off(None),
        Either::Own(_) | Either::Shared(..) => Watch::start(diagnose),
    };
    let mut meter = Meter::new(source)?;
    watch.cut(&meter.containers());
    let first = meter.last().clone();
    let mut readings = Vec::new();
    for _ in 0..count {
        let Some(interval) = meter.next(length, interrupt)? else {
            return Err(Failure::Interrupted(None));
        };
        readings.push(AccountingRecord::new(&interval));
    }
    if let (Some(losses), Some(record)) = (watch.cut(&meter.containers()), readings.last_mut()) {
        record.diagnosis = Some(diagnosis::record(&losses, &Selection::default()));
    }
    let agent = match (connection, before) {
        (AgentConnection::Running(client), Some(before)) => {
            let mut after = client.status()?;
            if length * count > OF_AGENT {
                // The agent's harm is that of another interval.
                after.harm = None;
            }
            Agent::Running(Box::new((before, after)))
        }
        (AgentConnection::NotPermitted, _) => Agent::NotPermitted,
        _ => Agent::NotRunning(here::start()),
    };
    let time = cofferdam_records::time(SystemTime::now());
    let mut explanation = explain(&readings, &agent, time);
    for finding in &mut explanation.findings {
        let command = finding.command.take();
        finding.command = command.map(|command| here::with_socket(&command, socket));
    }
    Ok(Measurement {
        explanation,
        total: meter.last().since(&first),
        containers: readings.pop().map(|r| r.containers).unwrap_or_default(),
        agent,
    })
}
