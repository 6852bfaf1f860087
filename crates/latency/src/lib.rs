//! Measures the time that a container's own network path adds to each packet. Measured in the
//! kernel, reported per packet, in stages that add up.
//!
//! [`Meter`] measures containers (by network namespace) and hands out [`Sample`]s; [`Stages`]
//! splits one into its parts; [`Summary`] keeps histograms of them.

mod clock;
mod devices;
mod error;
mod fleet;
mod meter;
pub mod ping;
mod sample;
pub mod serve;
mod stages;
mod summary;

pub use clock::{Clock, monotonic_ns};
pub use cofferdam_bpf::latency::{
    Class, Counts, Direction, End, Filter, LatencySizes, Miss, Point, Report, ReportCounts, Start,
};
pub use error::MeasureError;
pub use fleet::{Fleet, NotMeasurable, measurable};
pub use meter::{Meter, Reader};
pub use sample::Sample;
pub use stages::{Stage, Stages};
pub use summary::{Distribution, Flow, FlowSummary, Summary};
