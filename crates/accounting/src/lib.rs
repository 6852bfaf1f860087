//! Iron's accounting: which container *caused* the kernel's network work, and who was
//! *charged* for it. Joins the BPF programs' counts with the host's containers.

use cofferdam_types::{Container, Snapshot};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

/// How to load the accounting. All memory is taken at the start.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Containers that can be told apart at the same time; default 2048.
    pub slots: u32,
    /// Have the kernel measure its own cost per BPF program run (adds about 25 ns a run).
    pub measure_programs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            slots: 2048,
            measure_programs: false,
        }
    }
}

/// What one BPF program cost since the start, as the kernel measured it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ProgramCost {
    /// Program name, such as `netif_receive_skb`.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// Total run time; 0 unless [`Options::measure_programs`].
    pub run_time_ns: u64,
}

/// The accounting could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This host lacks something: what, why and the remedy, in one line. Exit code 3.
    #[error("{0}")]
    Unsupported(String),
    /// Another instance is at work.
    #[error(
        "another cofferdam (pid {pid}) is accounting on this host: stop it, or read from it; two would count double the overhead"
    )]
    AlreadyRunning {
        /// Its process id; 0 when unknown.
        pid: u32,
    },
    /// Anything else.
    #[error("the accounting could not start: {0}")]
    Failed(String),
}

/// A reading failed.
#[derive(Debug, thiserror::Error)]
#[error("the accounting could not be read: {0}")]
pub struct ReadError(pub String);

/// The running accounting. Dropping it detaches every program and leaves nothing behind.
pub struct Accountant {}

impl Accountant {
    /// Loads and attaches the programs and finds the containers that exist.
    pub fn start(_options: Options) -> Result<Accountant, StartError> {
        unimplemented!()
    }

    /// Follows containers that come and go until `until`, or until `wake` is readable.
    /// Returns true when `wake` ended it.
    pub fn follow(
        &mut self,
        _until: Instant,
        _wake: Option<BorrowedFd<'_>>,
    ) -> Result<bool, ReadError> {
        unimplemented!()
    }

    /// Reads everything: cumulative counts since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        unimplemented!()
    }

    /// The containers known now.
    pub fn containers(&self) -> Vec<Arc<Container>> {
        unimplemented!()
    }

    /// Cost of each program.
    pub fn program_costs(&self) -> Result<Vec<ProgramCost>, ReadError> {
        unimplemented!()
    }

    /// Memory taken by the BPF maps, bytes; fixed from the start.
    pub fn memory_bytes(&self) -> u64 {
        unimplemented!()
    }
}
