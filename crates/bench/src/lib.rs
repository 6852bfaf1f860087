//! Benchmarks of Cofferdam (penalty of traffic next to a job, isolation, reservation and others),
//! their load generators, statistics and reports.

#[macro_use]
pub mod data;

pub mod accounting;
pub mod agent;
pub mod args;
pub mod build_commit;
mod cluster;
mod cpustat;
pub mod dataplane;
pub mod demo;
mod error;
pub mod evidence;
mod experiment;
pub mod history;
mod host_facts;
pub mod isolation;
pub mod latency;
mod ledger;
mod line_process;
mod noise;
pub mod penalty;
mod progress;
pub mod report;
pub mod reservation;
pub mod run;
pub mod rundir;
mod scratch_folder;
mod signals;
pub mod simulation;
pub mod spawn;
mod stats;
pub mod table;
pub mod topology;
pub mod worker;

pub use error::BenchError;
pub use progress::{Progress, SilentProgress};
pub use rundir::RunDir;
