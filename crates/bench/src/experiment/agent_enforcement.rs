//! Treatment by Cofferdam's agent as a process of its own, while a sample runs.

use crate::agent::process::Agent;
use crate::error::BenchError;
use crate::scratch_folder::Folder;

/// Agent that enforces. Dropping it reverts all its changes.
pub(super) struct AgentEnforcement {
    // Dropped in this order.
    _agent: Agent,
    _files: Folder,
}

impl AgentEnforcement {
    /// Starts the agent for the containers at `paths` (below the v2 mount). In its first seconds
    /// the agent counts every packet; samples start after that, so none includes it.
    pub fn start(paths: &[String]) -> Result<AgentEnforcement, BenchError> {
        let rules = paths.iter().map(|path| {
            let name = format!("cgroup:{path}");
            format!("[[rule]]\nmatch = {name:?}\nnetwork_cpu = \"enforce\"\n")
        });
        let settings = rules.collect::<String>() + "[history]\npath = \"off\"\n";
        let files = Folder::of_this_process("enforcing")?;
        Ok(AgentEnforcement {
            _agent: Agent::start(files.path(), &settings, "off")?,
            _files: files,
        })
    }
}
