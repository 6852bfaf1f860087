//! Details of a container beyond the ledger, as data; the inspector collects them.

pub use super::processes::Process;
use cofferdam_records::flows::FlowsRecord;
use cofferdam_records::status::ContainerRecord;

/// Details of one container.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Processes with the largest CPU use, or the reason why they cannot be listed.
    pub processes: Result<Processes, String>,
    /// Treatment of the container by the agent.
    pub agent: AgentPart,
    /// Flows to the container.
    pub flows: Flows,
}

/// Some of the processes of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    /// Processes that were read.
    pub shown: Vec<Process>,
    /// Whether there are further processes.
    pub more: bool,
}

/// Treatment of a container by the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentPart {
    /// No agent runs.
    NoAgent,
    /// The agent only observes the container.
    Observed,
    /// The agent applies these classes and means.
    By(Box<ContainerRecord>),
}

/// Flows to a container.
#[derive(Clone, Debug, PartialEq)]
pub enum Flows {
    /// Not requested.
    Off,
    /// Sampled now.
    On(Box<FlowsRecord>),
    /// Not sampled, for this reason.
    Failed(String),
}

/// Details that the screen needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailsRequest {
    /// Container whose details are on the screen.
    pub container: Option<u64>,
    /// Whether its flows are needed.
    pub flows: bool,
}
