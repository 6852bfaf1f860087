//! Experiments, load generators, statistics and reports.

mod command;
pub mod data;
mod error;
pub mod report;
pub mod signals;
pub mod spawn;
pub mod stats;
pub mod topology;
mod undo;
pub mod worker;

pub use error::BenchError;
