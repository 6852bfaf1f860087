//! Round trips, each joined with the time that the container's network added to it.
//!
//! Only one probe is in flight at a time, so a report belongs to the probe that matches its time
//! and numbers.

mod icmp;
mod probe;

pub use probe::{Kind, Probe, Prober};

use cofferdam_bpf::latency::{Class, Direction};
use std::net::IpAddr;

/// Fields of a report that are needed to join it with a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// Direction, seen from the container.
    pub direction: Direction,
    /// Protocol.
    pub class: Class,
    /// Time of its first point, CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// Address of the far end.
    pub remote: IpAddr,
    /// The container's port; ICMP: the echo's number.
    pub number: u32,
    /// Time from the first to the last point, ns.
    pub total_ns: u32,
    /// Time that the container's network added, ns.
    pub added_ns: Option<u32>,
}

impl ProbeReport {
    /// Takes them from a sample.
    pub fn of(sample: &crate::Sample) -> ProbeReport {
        let r = &sample.report;
        let (remote, port) = match r.direction {
            Direction::Egress => (r.destination, r.source_port),
            Direction::Ingress => (r.source, r.destination_port),
        };
        ProbeReport {
            direction: r.direction,
            class: r.class(),
            monotonic_ns: r.base_ns,
            remote,
            number: match r.class() {
                Class::Icmp => r.sequence,
                _ => port.into(),
            },
            total_ns: sample.stages.total_ns,
            added_ns: sample.stages.added_ns,
        }
    }

    /// Parses a line of the socket's full form; `None` for other lines.
    pub fn parse(line: &str) -> Option<ProbeReport> {
        let mut words = line.split_ascii_whitespace();
        let direction = match words.next()? {
            "egress" => Direction::Egress,
            "ingress" => Direction::Ingress,
            _ => return None,
        };
        let name = words.next()?;
        let class = *Class::ALL.iter().find(|c| c.label() == name)?;
        let field = |key: &str| {
            let mut words = line.split_ascii_whitespace().skip(2);
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        let (remote, port) = match direction {
            Direction::Egress => ("destination", "source_port"),
            Direction::Ingress => ("source", "destination_port"),
        };
        let number = match class {
            Class::Icmp => field("sequence"),
            _ => field(port),
        };
        Some(ProbeReport {
            direction,
            class,
            monotonic_ns: field("monotonic_ns")?.parse().ok()?,
            remote: field(remote)?.parse().ok()?,
            number: number?.parse().ok()?,
            total_ns: field("total_ns")?.parse().ok()?,
            added_ns: field("added_ns").and_then(|v| v.parse().ok()),
        })
    }
}

/// A probe with its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Number of the probe, from 1.
    pub sequence: u32,
    /// Round-trip time as the process saw it, ns.
    pub rtt_ns: u64,
    /// Time from the system call to the host's last device, ns.
    pub egress_ns: Option<u32>,
    /// Time from the host's first device to the process, ns.
    pub ingress_ns: Option<u32>,
    /// Time that the container's network added in both directions, ns.
    pub added_ns: Option<u64>,
}

impl Round {
    /// Joins a probe with the reports of its time.
    pub fn join(probe: &Probe, reports: &[ProbeReport]) -> Round {
        let find = |direction| {
            reports.iter().find(|t| {
                t.direction == direction
                    && t.class == probe.class
                    && t.remote == probe.remote
                    && t.number == probe.number
                    && (probe.sent_ns..=probe.received_ns).contains(&t.monotonic_ns)
            })
        };
        let (egress, ingress) = (find(Direction::Egress), find(Direction::Ingress));
        let added = egress
            .and_then(|t| t.added_ns)
            .zip(ingress.and_then(|t| t.added_ns));
        Round {
            sequence: probe.sequence,
            rtt_ns: probe.received_ns - probe.sent_ns,
            egress_ns: egress.map(|t| t.total_ns),
            ingress_ns: ingress.map(|t| t.total_ns),
            added_ns: added.map(|(out, back)| u64::from(out) + u64::from(back)),
        }
    }

    /// Returns the round-trip time that a process on the host would have seen: `rtt_ns` −
    /// `added_ns`.
    pub fn corrected_ns(&self) -> Option<u64> {
        self.added_ns.map(|added| self.rtt_ns.saturating_sub(added))
    }

    /// Returns the time from the host's last device to its first: `rtt_ns` − egress − ingress. An
    /// end that was stamped after the process had its answer is subtracted only up to the answer.
    pub fn wire_ns(&self) -> Option<u64> {
        let (out, back) = (u64::from(self.egress_ns?), u64::from(self.ingress_ns?));
        Some(self.rtt_ns.saturating_sub(out + back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const LINE: &str = "ingress icmp time=1.5 monotonic_ns=150 source=10.0.0.2 \
                        destination=10.0.0.1 source_port=9 destination_port=0 sequence=3 \
                        ordinal=3 bytes=84 start=device end=copied total_ns=40 added_ns=25";

    fn probe() -> Probe {
        Probe {
            sequence: 3,
            class: Class::Icmp,
            remote: Ipv4Addr::new(10, 0, 0, 2).into(),
            number: 3,
            sent_ns: 100,
            received_ns: 200,
        }
    }

    #[test]
    fn a_line_of_the_socket_is_read() {
        let report = ProbeReport::parse(LINE).unwrap();
        assert_eq!(
            (report.number, report.total_ns, report.added_ns),
            (3, 40, Some(25))
        );
        for line in [
            "",
            "ok 1 reports, 0 lost",
            "egress",
            "egress icmp",
            "ingress xyz a=b",
        ] {
            assert_eq!(ProbeReport::parse(line), None, "{line}");
        }
    }

    #[test]
    fn only_what_falls_into_its_time_is_the_probes() {
        let back = ProbeReport::parse(LINE).unwrap();
        let out = ProbeReport {
            direction: Direction::Egress,
            monotonic_ns: 101,
            total_ns: 30,
            added_ns: Some(20),
            ..back.clone()
        };
        let early = ProbeReport {
            monotonic_ns: 99,
            ..out.clone()
        };
        let round = Round::join(&probe(), &[early, out, back]);
        assert_eq!(round.rtt_ns, 100);
        assert_eq!((round.egress_ns, round.ingress_ns), (Some(30), Some(40)));
        assert_eq!(
            (round.corrected_ns(), round.wire_ns()),
            (Some(55), Some(30))
        );
        let alone = Round::join(&probe(), &[]);
        assert_eq!((alone.corrected_ns(), alone.wire_ns()), (None, None));
    }
}
