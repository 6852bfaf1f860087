//! `cofferdam kubectl …`: the commands of kubectl's plugin, which is this program under the name
//! `kubectl-cofferdam`.

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

/// Name under which kubectl calls its plugin.
const PLUGIN: &str = "kubectl-cofferdam";

/// Words of the command line. Called as kubectl's plugin, the words get the command `kubectl`.
pub fn as_plugin(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if name.is_some_and(|name| name == PLUGIN) {
        words.insert(1, "kubectl".into());
    }
    words
}

/// Runs one command of `cofferdam kubectl`.
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

/// Asks all agents, and merges their answers. Agents that do not answer are listed in the report.
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
