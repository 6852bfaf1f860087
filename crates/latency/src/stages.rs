//! One report split into its stages.

use cofferdam_bpf::latency::{Direction, Point, Report};
use serde::{Deserialize, Serialize};

/// A part of the way. A stage lasts from the point before it that was seen to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The container's own stack: from the system call to the device's queue; or from the
    /// device to the socket.
    Stack,
    /// The queue of the container's device.
    ContainerQdisc,
    /// From one end of the pair to the other.
    Veth,
    /// The host: bridge, routing, address translation, tunnels.
    Forward,
    /// The queue of the host's last device.
    HostQdisc,
    /// From the socket to the reader's memory: the reader's wake-up, and its own delay.
    Reader,
}

impl Stage {
    /// All, in the order of egress; ingress passes them in another.
    pub const ALL: [Stage; 6] = [
        Stage::Stack,
        Stage::ContainerQdisc,
        Stage::Veth,
        Stage::Forward,
        Stage::HostQdisc,
        Stage::Reader,
    ];

    /// As it is written in records.
    pub fn label(self) -> &'static str {
        match self {
            Stage::Stack => "stack",
            Stage::ContainerQdisc => "container_qdisc",
            Stage::Veth => "veth",
            Stage::Forward => "forward",
            Stage::HostQdisc => "host_qdisc",
            Stage::Reader => "reader",
        }
    }
}

const EGRESS: [(Point, Stage); 5] = [
    (Point::QueueIn, Stage::Stack),
    (Point::XmitIn, Stage::ContainerQdisc),
    (Point::RecvHost, Stage::Veth),
    (Point::QueueHost, Stage::Forward),
    (Point::XmitHost, Stage::HostQdisc),
];
const INGRESS: [(Point, Stage); 5] = [
    (Point::QueueHost, Stage::Forward),
    (Point::XmitHost, Stage::HostQdisc),
    (Point::RecvIn, Stage::Veth),
    (Point::Ready, Stage::Stack),
    (Point::Copied, Stage::Reader),
];

/// The stages of one report, in the order the packet passed them, ns. They add up to
/// [`Stages::total_ns`], always.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Stage and its length; a stage that was not passed, or not seen, is left out and its
    /// time is in the one after it.
    pub parts_ns: Vec<(Stage, u32)>,
    /// From the first point to the last that was seen.
    pub total_ns: u32,
    /// What a process on the host would not have had: egress, from the container's device to
    /// the queue of the host's last; ingress, from the host's first device to the container's.
    /// `None` where a point is missing.
    pub added_ns: Option<u32>,
}

impl Stages {
    /// Splits `report`.
    pub fn of(report: &Report) -> Stages {
        let points = match report.direction {
            Direction::Egress => EGRESS,
            Direction::Ingress => INGRESS,
        };
        let mut parts_ns = Vec::with_capacity(5);
        let mut last = 0;
        for (point, stage) in points {
            let Some(at) = report.at(point) else { continue };
            // The stack's part exists only if the system call was seen.
            if point != Point::QueueIn || at > 0 {
                parts_ns.push((stage, at - last));
            }
            last = at;
        }
        let added_ns = match report.direction {
            Direction::Egress => report
                .at(Point::QueueHost)
                .zip(report.at(Point::QueueIn))
                .map(|(host, container)| host - container),
            Direction::Ingress => report.at(Point::RecvIn),
        };
        Stages {
            parts_ns,
            total_ns: last,
            added_ns,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
