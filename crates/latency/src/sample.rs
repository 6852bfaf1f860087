//! One packet, ready for display.

use crate::clock::Clock;
use crate::stages::Stages;
use cofferdam_bpf::latency::{Direction, Report};
use std::time::SystemTime;

/// Report with its stages and its time of day.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The kernel's report.
    pub report: Report,
    /// Stages of the report.
    pub stages: Stages,
    /// Time of day of the first point.
    pub time: SystemTime,
}

impl Sample {
    /// Splits `report` and adds its time of day.
    pub fn new(report: Report, clock: &Clock) -> Sample {
        Sample {
            stages: Stages::of(&report),
            time: clock.wall(report.base_ns),
            report,
        }
    }

    /// Returns the time of the last point, CLOCK_MONOTONIC, ns.
    pub fn end_ns(&self) -> u64 {
        self.report.base_ns + u64::from(self.stages.total_ns)
    }

    /// Returns its first point: `send`, `queue` or `device`.
    pub fn start_label(&self) -> &'static str {
        match self.report.direction {
            Direction::Ingress => "device",
            Direction::Egress if self.report.points_ns[0] == Some(0) => "queue",
            Direction::Egress => "send",
        }
    }
}
