//! One packet, ready to be shown.

use crate::clock::Clock;
use crate::stages::Stages;
use cofferdam_bpf::latency::{Direction, Report};
use std::time::SystemTime;

/// A report with its stages and its time of day.
#[derive(Clone, Debug)]
pub struct Sample {
    /// As reported by the kernel.
    pub report: Report,
    /// Its parts.
    pub stages: Stages,
    /// When the packet began.
    pub time: SystemTime,
}

impl Sample {
    /// Splits `report` and gives it its time of day.
    pub fn new(report: Report, clock: &Clock) -> Sample {
        Sample {
            stages: Stages::of(&report),
            time: clock.wall(report.base_ns),
            report,
        }
    }

    /// CLOCK_MONOTONIC of the last point, ns.
    pub fn end_ns(&self) -> u64 {
        self.report.base_ns + u64::from(self.stages.total_ns)
    }

    /// Where it begins: `send`, `queue` or `device`.
    pub fn start_label(&self) -> &'static str {
        match self.report.direction {
            Direction::Ingress => "device",
            Direction::Egress if self.report.points_ns[0] == Some(0) => "queue",
            Direction::Egress => "send",
        }
    }
}
