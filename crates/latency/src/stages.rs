//! Splits one report into its stages.

use cofferdam_bpf::latency::{Direction, Point, Report};
use serde::{Deserialize, Serialize};

/// Part of the way. A stage lasts from the previous point that was seen to its own point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The container's own stack: from the system call to the device's queue, or from the device to
    /// the socket.
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
    /// All stages, in the order of egress; ingress passes them in another order.
    pub const ALL: [Stage; 6] = [
        Stage::Stack,
        Stage::ContainerQdisc,
        Stage::Veth,
        Stage::Forward,
        Stage::HostQdisc,
        Stage::Reader,
    ];

    /// Returns its text in records.
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

/// Stages of one report, in the order in which the packet passed them, ns. They always add up to
/// [`Stages::total_ns`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Stage and its length. A stage that was not passed, or not seen, is left out, and its time is
    /// in the next one.
    pub parts_ns: Vec<(Stage, u32)>,
    /// Time from the first to the last point that was seen.
    pub total_ns: u32,
    /// Time that a process on the host would not have. Egress: from the container's device to the
    /// queue of the host's last. Ingress: from the host's first device to the container's. `None`
    /// if a point is missing.
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
