//! `cofferdam agent`.

use crate::args::AgentArgs;
use crate::doctor;
use crate::exit::{Failure, Outcome, refused_without_root};
use crate::output::Output;
use cofferdam_accounting::StartError;
use cofferdam_agent::config::{ConfigError, Source};
use cofferdam_agent::{AgentError, Client, ClientError, EndCause};
use cofferdam_types::{Problem, Severity};
use std::path::Path;

/// Runs the daemon, or the action that `args` ask for instead.
pub fn run(args: &AgentArgs) -> Outcome {
    if args.check_config {
        return check(&Source::new(args.config.as_deref()));
    }
    if args.restore {
        return restore(&args.agent.path_by(args.config.as_deref()));
    }
    if args.reload {
        let reloaded = Client::connect(&args.agent.path_by(args.config.as_deref()))?.reload()?;
        let mut text = format!("{} rules in force\n", reloaded.rules);
        for warning in &reloaded.warnings {
            text += &format!("{warning}\n");
        }
        return Output::stdout().write(&text);
    }
    if args.stop {
        Client::connect(&args.agent.path_by(args.config.as_deref()))?.stop()?;
        return Ok(());
    }
    cofferdam_agent::log::install();
    match cofferdam_agent::run(args.config.as_deref()) {
        Ok(EndCause::Stopped) => Ok(()),
        Ok(EndCause::Interrupted) => Err(Failure::Interrupted(None)),
        Err(error) => Err(error.into()),
    }
}

/// Prints every problem of the configuration, one a line.
fn check(source: &Source) -> Outcome {
    let path = source.path.display();
    match source.load() {
        Ok(loaded) => {
            let mut text = String::new();
            for warning in &loaded.warnings {
                text += &format!("{path}:{warning}\n");
            }
            text += &if loaded.from_file {
                format!("{path}: valid, {} rules\n", loaded.config.rules.len())
            } else {
                format!("{path} does not exist: the agent would observe and change nothing\n")
            };
            Output::stdout().write(&text)
        }
        Err(ConfigError::Wrong { path, problems }) => refuse(&path, &problems),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

/// Prints `problems` of a configuration, one a line, and fails.
pub fn refuse(path: &Path, problems: &[Problem]) -> Outcome {
    let path = path.display();
    let text: String = problems.iter().map(|p| format!("{path}:{p}\n")).collect();
    Output::stdout().write(&text)?;
    let errors = problems
        .iter()
        .filter(|p| p.severity == Severity::Error)
        .count();
    let word = if errors == 1 { "error" } else { "errors" };
    Err(Failure::failed(format!("{path}: {errors} {word}, refused")))
}

/// Reverts changes that a killed agent left.
fn restore(socket: &Path) -> Outcome {
    let undone = cofferdam_agent::restore(socket)
        .map_err(|e| refused_without_root(e.into(), "reverting changes needs root"))?;
    let mut text = format!("{} changes reverted\n", undone.changes);
    for one in &undone.instead {
        text += &format!("{one}\n");
    }
    for one in &undone.left_alone {
        text += &format!("left alone, changed by another program since: {one}\n");
    }
    for failure in &undone.failures {
        text += &format!("not reverted: {failure}\n");
    }
    Output::stdout().write(&text)?;
    match undone.failures.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(format!(
            "{} changes could not be reverted, first: {first}",
            undone.failures.len()
        ))),
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Failed(error.into())
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Failure {
        match error {
            AgentError::Start(StartError::Unsupported(text)) => doctor::unsupported(text),
            AgentError::Start(error) => error.into(),
            // The configuration may belong to another user: root is not what it lacks.
            AgentError::Config(error) => Failure::Failed(error.into()),
            other => refused_without_root(other.into(), "the agent needs root"),
        }
    }
}
