//! Samples as lines of text. They leave out facts that a container must not know (the host's
//! devices, other namespaces).

use super::protocol::Form;
use crate::sample::Sample;
use cofferdam_bpf::latency::{Class, Direction};
use std::fmt::Write;
use std::time::UNIX_EPOCH;

/// Formats one sample as one line, with its end.
pub fn line(sample: &Sample, form: Form) -> String {
    match form {
        Form::Full => format_full(sample),
        Form::Mace => format_mace(sample),
    }
}

fn seconds(sample: &Sample) -> (u64, u32) {
    let time = sample.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (time.as_secs(), time.subsec_nanos())
}

/// Formats as MACE does: `[1552589043.315681] (1) egress: 80932`. The number is the echo's for
/// ICMP, and otherwise counts the packets of the protocol.
fn format_mace(sample: &Sample) -> String {
    let (s, ns) = seconds(sample);
    let r = &sample.report;
    let id = match r.class() {
        Class::Icmp => r.sequence,
        _ => r.ordinal,
    };
    let direction = r.direction.label();
    let us = ns / 1000;
    format!(
        "[{s}.{us:06}] ({id}) {direction}: {}\n",
        sample.stages.total_ns
    )
}

fn format_full(sample: &Sample) -> String {
    let (s, ns) = seconds(sample);
    let r = &sample.report;
    let mut line = format!(
        "{} {} time={s}.{ns:09} monotonic_ns={} source={} destination={} source_port={} \
         destination_port={} sequence={} ordinal={} bytes={} payload_bytes={} segments={}",
        r.direction.label(),
        r.class().label(),
        r.base_ns,
        r.source,
        r.destination,
        r.source_port,
        r.destination_port,
        r.sequence,
        r.ordinal,
        r.bytes,
        r.payload_bytes,
        r.segments,
    );
    // Writing to a String cannot fail.
    if let Some(cookie) = r.cookie {
        let _ = write!(line, " cookie={cookie}");
    }
    if r.retransmit {
        line.push_str(" retransmit=1");
    }
    if r.merged {
        line.push_str(" merged=1");
    }
    let _ = write!(
        line,
        " start={} end={} total_ns={}",
        sample.start_label(),
        match r.direction {
            Direction::Egress => "device",
            Direction::Ingress => r.end.label(),
        },
        sample.stages.total_ns
    );
    if let Some(added) = sample.stages.added_ns {
        let _ = write!(line, " added_ns={added}");
    }
    for (stage, ns) in &sample.stages.parts_ns {
        let _ = write!(line, " {}_ns={ns}", stage.label());
    }
    line.push('\n');
    line
}
