//! `cofferdam explain`: measures, asks the agent, and shows what is wrong.

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

/// Readings of one explanation: what holds in all of them is not a moment's.
const READINGS: u32 = 3;
/// A measurement that is longer than this is explained by itself, a shorter one by the seconds that
/// the agent has watched, as in all other views.
const OF_AGENT: Duration = Duration::from_secs(5);

/// Explains, for people or for programs.
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

/// The agent, or why it is not asked.
pub enum Asked {
    /// It answers.
    Running(Client),
    /// Nobody listens.
    NotRunning,
    /// It does not answer this user.
    NotPermitted,
}

/// Connects to the agent on `socket`.
pub fn connect(socket: &Path) -> Result<Asked, Failure> {
    match Client::connect(socket) {
        Ok(client) => Ok(Asked::Running(client)),
        Err(ClientError::NotRunning(_)) => Ok(Asked::NotRunning),
        Err(ClientError::Denied(_)) => Ok(Asked::NotPermitted),
        Err(other) => Err(other.into()),
    }
}

/// What was measured, and what it means.
pub struct Measured {
    /// All of it as one interval.
    pub total: Interval,
    /// The agent's answers.
    pub agent: Agent,
    /// What is wrong.
    pub explanation: Explanation,
    /// The containers, as in the last reading.
    pub containers: Vec<ContainerRecord>,
}

/// Takes `count` readings, each `length` long, from the agent or from an accounting of our own; that
/// diagnoses lost CPU time as well where `diagnose` says so and the agent does not.
pub fn measure(
    asked: &mut Asked,
    socket: &Path,
    (count, length): (u32, Duration),
    diagnose: bool,
    interrupt: &Interrupt,
) -> Result<Measured, Failure> {
    let before = match asked {
        Asked::Running(client) => Some(client.status()?),
        Asked::NotRunning | Asked::NotPermitted => None,
    };
    let source = source::start(socket, &[])?;
    let mut watch = match &source {
        // Its status has the diagnosis.
        Either::Agent(_) => Watch::off(None),
        Either::Own(_) | Either::Beside(..) => Watch::start(diagnose),
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
    let agent = match (asked, before) {
        (Asked::Running(client), Some(before)) => {
            let mut after = client.status()?;
            if length * count > OF_AGENT {
                // Asked for another interval than the one that the agent speaks of.
                after.harm = None;
            }
            Agent::Running(Box::new((before, after)))
        }
        (Asked::NotPermitted, _) => Agent::NotPermitted,
        _ => Agent::NotRunning(here::start()),
    };
    let time = cofferdam_records::time(SystemTime::now());
    let mut explanation = explain(&readings, &agent, time);
    for finding in &mut explanation.findings {
        let command = finding.command.take();
        finding.command = command.map(|command| here::with_socket(&command, socket));
    }
    Ok(Measured {
        explanation,
        total: meter.last().since(&first),
        containers: readings.pop().map(|r| r.containers).unwrap_or_default(),
        agent,
    })
}
