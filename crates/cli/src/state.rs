//! `cofferdam` without a command: whether the agent runs, who pays for whom now, and what to do
//! next.

use crate::args::SocketArgs;
use crate::exit::{Failure, Outcome, one_line};
use crate::explain::{self, AgentConnection};
use crate::here;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::{headline, units};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::explain::{Agent, Explanation, Start};
use cofferdam_records::status::StatusReport;
use std::time::Duration;

/// Number of readings: the first one also shows what was missed before.
const READINGS: u32 = 2;
/// Length of a reading by the agent: the answer must come within a second.
const OF_AGENT: Duration = Duration::from_millis(200);
/// Length of a reading of our own, after the programs are loaded.
const OF_OWN: Duration = Duration::from_millis(500);

/// Prints the state.
pub fn run(socket: &SocketArgs, interrupt: &Interrupt) -> Outcome {
    let mut output = Output::stdout();
    let mut connection = explain::connect(&socket.path())?;
    let length = match connection {
        AgentConnection::Running(_) => OF_AGENT,
        AgentConnection::NotRunning | AgentConnection::NotPermitted => OF_OWN,
    };
    let readings = (READINGS, length);
    let measured = explain::measure(&mut connection, &socket.path(), readings, true, interrupt);
    let measured = match measured {
        Ok(measured) => measured,
        // Without root's rights it is still known that the agent does not run.
        Err(failure @ Failure::Unsupported(_)) => {
            let agent = match connection {
                AgentConnection::Running(_) => return Err(failure),
                AgentConnection::NotRunning => Agent::NotRunning(here::start()),
                AgentConnection::NotPermitted => Agent::NotPermitted,
            };
            output.write(&agent_line(&agent))?;
            return Err(failure);
        }
        Err(other) => return Err(other),
    };
    let record = AccountingRecord::new(&measured.total);
    output.write(&text(&measured.agent, &record, &measured.explanation))
}

/// Text of three lines, or four when something is wrong.
fn text(agent: &Agent, record: &AccountingRecord, explanation: &Explanation) -> String {
    let mut text = agent_line(agent);
    match explanation.findings.first() {
        None => text += &format!("now    {}\n", headline::sentence(explanation, record)),
        Some(worst) => {
            text += &format!("now    {}\n", network_work(explanation));
            text += &format!("wrong  {}\n", one_line(&worst.sentence));
        }
    }
    let next = match (agent, explanation.findings.is_empty()) {
        (_, false) => "sudo cofferdam explain     # why, how sure, and the command that helps",
        (Agent::NotRunning(Start::Service), true) => {
            "sudo systemctl start cofferdam     # watches, changes nothing"
        }
        (Agent::NotRunning(Start::ByHand), true) => {
            "sudo cofferdam agent     # watches, changes nothing; ends with Ctrl-C"
        }
        (_, true) => "sudo cofferdam top     # live; 'cofferdam --help' lists all commands",
    };
    text + &format!("next   {next}\n")
}

/// Network work of all containers, without names: the headline has the worst.
fn network_work(explanation: &Explanation) -> String {
    let figures = &explanation.figures;
    format!(
        "{:.2} CPUs of network work, by {} containers in {:.1} s",
        figures.caused_cpus, figures.containers, figures.measured_s
    )
}

fn agent_line(agent: &Agent) -> String {
    let state = match agent {
        Agent::Running(both) => running(&both.1),
        Agent::NotRunning(_) => "not running".to_owned(),
        Agent::NotPermitted => "running, but refuses this user: use sudo".to_owned(),
    };
    format!("agent  {state}\n")
}

fn running(status: &StatusReport) -> String {
    let uptime = Duration::from_secs(status.agent.uptime_s as u64);
    let count = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    format!(
        "running for {}: {}, {}, {} in force",
        units::duration(uptime),
        count(
            usize::try_from(status.containers_known).unwrap_or(usize::MAX),
            "container"
        ),
        count(status.rules.len(), "rule"),
        count(
            usize::try_from(status.changes_in_force).unwrap_or(usize::MAX),
            "change"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::interval;
    use cofferdam_records::explain::explain;

    fn shown(agent: &Agent, interval: &cofferdam_types::Interval) -> String {
        let record = AccountingRecord::new(interval);
        let readings = [record];
        let explanation = explain(&readings, agent, "2026-11-24T03:12:05.000Z".to_owned());
        text(agent, &readings[0], &explanation)
    }

    /// Promise 12.
    #[test]
    fn four_lines_name_agent_harm_and_the_next_command() {
        let report = crate::status::tests::report();
        let agent = Agent::Running(Box::new((report.clone(), report)));
        let text = shown(&agent, &interval());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "agent  running for 3m 20s: 9 containers, 1 rule, 4 changes in force"
        );
        assert_eq!(
            lines[1],
            "now    0.43 CPUs of network work, by 3 containers in 1.0 s"
        );
        let worst = "wrong  db-1 keeps 0.60 CPUs from web-1, which waits for a CPU.";
        assert_eq!(lines[2], worst);
        assert!(
            lines[3].starts_with("next   sudo cofferdam explain "),
            "{text}"
        );
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|l| l.chars().count() <= 80), "{text}");
    }

    /// Promise 12.
    #[test]
    fn without_an_agent_the_next_command_starts_one() {
        let mut quiet = interval();
        quiet.containers.clear();
        let text = shown(&Agent::NotRunning(Start::Service), &quiet);
        assert_eq!(
            text,
            "agent  not running\nnow    No container on this host yet.\nnext   sudo systemctl \
             start cofferdam     # watches, changes nothing\n"
        );
        assert_eq!(
            agent_line(&Agent::NotPermitted),
            "agent  running, but refuses this user: use sudo\n"
        );
    }
}
