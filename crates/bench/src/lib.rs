//! Experiments, load generators, statistics and reports.

pub mod data;
pub mod report;
