//! `cofferdam kubectl …`: the same program under the name `kubectl-cofferdam` is kubectl's plugin.

mod doctor;
mod explain;
mod session;
mod text;

use crate::args::{KubectlCommand, KubectlStatusArgs, KubectlTopArgs};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, json};
use crate::table;
use cofferdam_cluster::merge::{ClusterReport, merge, part};
use session::Session;
pub(crate) use session::peer;
use std::ffi::OsString;
use std::path::Path;
use std::time::SystemTime;

/// How kubectl calls its plugin.
const PLUGIN: &str = "kubectl-cofferdam";

/// The words of the command line; called as kubectl's plugin, with the command that it then is.
pub fn as_plugin(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if name.is_some_and(|name| name == PLUGIN) {
        words.insert(1, "kubectl".into());
    }
    words
}

/// Asks the cluster.
pub fn run(command: &KubectlCommand, interrupt: &Interrupt) -> Outcome {
    match command {
        KubectlCommand::Top(args) => top(args, interrupt),
        KubectlCommand::Status(args) => status(args, interrupt),
        KubectlCommand::Explain(args) => explain::run(args, interrupt),
        KubectlCommand::Doctor(args) => doctor::run(args, interrupt),
    }
}

fn top(args: &KubectlTopArgs, interrupt: &Interrupt) -> Outcome {
    let mut report = report(&Session::open(&args.cluster)?, interrupt)?;
    if let Some(namespace) = &args.namespace {
        text::only(&mut report, namespace);
    }
    let text = match args.cluster.json {
        true => json(&report)?,
        false => text::top(&report, args.rows, table::terminal_width()),
    };
    Output::stdout().write(&text)
}

fn status(args: &KubectlStatusArgs, interrupt: &Interrupt) -> Outcome {
    let report = report(&Session::open(&args.cluster)?, interrupt)?;
    let text = match args.cluster.json {
        true => json(&report)?,
        false => text::status(&report, table::terminal_width()),
    };
    Output::stdout().write(&text)
}

/// Asks all agents. That some do not answer is part of the report.
fn report(session: &Session, interrupt: &Interrupt) -> Result<ClusterReport, Failure> {
    let results = session.ask("/v1/node", interrupt, part)?;
    let time = cofferdam_records::time(SystemTime::now());
    let took_s = session.begun.elapsed().as_secs_f64();
    Ok(merge(
        &session.agents.agents,
        results,
        session.agents.wanted,
        (time, took_s),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 25.
    #[test]
    fn the_plugins_name_is_a_command() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let plugin = as_plugin(words(&["/usr/local/bin/kubectl-cofferdam", "top"]));
        assert_eq!(
            plugin,
            words(&["/usr/local/bin/kubectl-cofferdam", "kubectl", "top"])
        );
        for other in [
            &["cofferdam", "top"][..],
            &["kubectl-cofferdam.old", "top"],
            &[],
        ] {
            assert_eq!(as_plugin(words(other)), words(other));
        }
    }
}
