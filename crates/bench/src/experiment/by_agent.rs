//! Cofferdam's agent as what is done against the competitors' network CPU while a sample runs.

use crate::agent::process::Agent;
use crate::error::BenchError;
use crate::folder::Folder;

/// An agent that enforces; dropped, it takes everything back.
pub(super) struct ByAgent {
    // Dropped in this order.
    _agent: Agent,
    _files: Folder,
}

impl ByAgent {
    /// Starts it for the containers at `paths`, below the v2 mount. It counts everything in its first seconds:
    /// what it does when it takes windows is not in a sample.
    pub fn start(paths: &[String]) -> Result<ByAgent, BenchError> {
        let rules = paths.iter().map(|path| {
            let name = format!("cgroup:{path}");
            format!("[[rule]]\nmatch = {name:?}\nnetwork_cpu = \"enforce\"\n")
        });
        let settings = rules.collect::<String>() + "[history]\npath = \"off\"\n";
        let files = Folder::of_this_process("enforcing")?;
        Ok(ByAgent {
            _agent: Agent::start(files.path(), &settings, "off")?,
            _files: files,
        })
    }
}
