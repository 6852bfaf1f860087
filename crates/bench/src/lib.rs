//! Experiments, load generators, statistics and reports.

pub mod accounting;
pub mod agent;
pub mod built;
mod cpustat;
#[macro_use]
pub mod data;
pub mod dataplane;
pub mod demo;
mod error;
pub mod evidence;
mod experiment;
mod host_facts;
pub mod isolation;
pub mod latency;
pub mod ledger;
mod noise;
pub mod penalty;
pub mod progress;
pub mod report;
pub mod reservation;
pub mod rundir;
pub mod signals;
pub mod spawn;
mod spoken;
pub mod stats;
pub mod topology;
pub mod worker;

pub use error::BenchError;
pub use progress::{Progress, Silent};
pub use rundir::RunDir;
