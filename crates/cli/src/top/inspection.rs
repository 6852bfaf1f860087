//! What the details of a container show beyond the ledger. Data; the inspector gathers it.

pub use super::processes::Process;
use cofferdam_records::flows::FlowsRecord;
use cofferdam_records::status::ContainerRecord;

/// One container, looked at closely.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its processes, those that use most CPU first; or why they cannot be listed.
    pub processes: Result<Processes, String>,
    /// What the agent does with it.
    pub managed: Managed,
    /// Who sends to it.
    pub flows: Flows,
}

/// Some of the processes of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    /// Those that were read.
    pub shown: Vec<Process>,
    /// Whether there are more than were read.
    pub more: bool,
}

/// What the agent does with a container.
#[derive(Clone, Debug, PartialEq)]
pub enum Managed {
    /// No agent is asked.
    NoAgent,
    /// It only observes it.
    Observed,
    /// Its classes and what is in force.
    By(Box<ContainerRecord>),
}

/// The flows of a container.
#[derive(Clone, Debug, PartialEq)]
pub enum Flows {
    /// Nobody asked.
    Off,
    /// Sampled now.
    On(Box<FlowsRecord>),
    /// Why they are not.
    Failed(String),
}

/// What has to be gathered for what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The container whose details are shown.
    pub container: Option<u64>,
    /// With its flows.
    pub flows: bool,
}
