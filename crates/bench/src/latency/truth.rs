//! Accuracy of the reports: timestamps of both ends enclose each report, and known delays appear in
//! it or not.

use super::testbed::LatencyTestbed;
use super::wire::{ECHO_PORT, SETTLE, Stamp};
use super::{Options, failed, keep, load, measure_error, us};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::latency::data::{InjectionRow, LatencyResult, TruthRow};
use crate::stats::{estimate, median};
use cofferdam_bpf::Delay;
use cofferdam_latency::ping::{Kind, Probe, ProbeReport};
use cofferdam_latency::{Direction, Filter, Reader, Start};
use std::time::Duration;

/// Waits for the reports of a probe's time, and returns them.
fn take_reports(reader: &mut Reader) -> Vec<ProbeReport> {
    std::thread::sleep(SETTLE);
    let mut reports = Vec::new();
    reader.take(|sample| reports.push(ProbeReport::of(&sample)));
    reports
}

fn find(reports: &[ProbeReport], probe: &Probe, direction: Direction) -> Option<(u64, u64)> {
    let found = reports.iter().find(|t| {
        t.direction == direction
            && t.class == probe.class
            && t.number == probe.number
            && t.monotonic_ns + 1_000_000_000 > probe.sent_ns
            && (t.class != cofferdam_latency::Class::Udp
                || (probe.sent_ns..=probe.received_ns).contains(&t.monotonic_ns))
    })?;
    Some((
        found.monotonic_ns,
        found.monotonic_ns + u64::from(found.total_ns),
    ))
}

/// Median and largest of signed distances, µs, and the number of negative ones.
fn slack(values: &[i64]) -> ((f64, f64), u64) {
    let floats: Vec<f64> = values.iter().map(|v| *v as f64 / 1000.0).collect();
    let largest = floats.iter().copied().fold(0.0, f64::max);
    let negative = values.iter().filter(|v| **v < 0).count() as u64;
    ((median(&floats).unwrap_or(0.0), largest), negative)
}

/// Checks application ≤ start ≤ end ≤ peer, packet by packet, in both directions.
pub(super) fn stamps(
    rig: &mut Rig<'_>,
    options: &Options,
    testbed: &LatencyTestbed,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    let mut meter = load(Start::Send)?;
    result.memory_bytes = Some(meter.memory_bytes());
    meter
        .on(testbed.netns, &Filter::default())
        .map_err(measure_error)?;
    for (kind, protocol, name) in [(Kind::Icmp, 1, "icmp"), (Kind::Udp(ECHO_PORT), 17, "udp")] {
        let mut reader = meter.reader().map_err(measure_error)?;
        testbed.wire.stamps(true);
        let count = options.block() * options.rounds().min(7);
        let probes = testbed.inside(|| {
            let mut prober = testbed.probe(kind, 0)?;
            let probe = |_| {
                prober
                    .probe(Duration::from_secs(1))
                    .map_err(failed("cannot ping"))
            };
            (0..count).map(probe).collect::<Result<Vec<_>, _>>()
        })??;
        let reports = take_reports(&mut reader);
        let stamps = testbed.wire.stamps(false);
        for direction in Direction::ALL {
            let (mut before, mut after, mut inside) = (Vec::new(), Vec::new(), Vec::new());
            for probe in probes.iter().flatten() {
                let at = |s: &&Stamp| {
                    s.protocol == protocol
                        && u32::from(s.number) == probe.number
                        && (probe.sent_ns..=probe.received_ns).contains(&s.read_ns)
                };
                let (Some(stamp), Some((start, end))) =
                    (stamps.iter().find(at), find(&reports, probe, direction))
                else {
                    continue;
                };
                let (first, last) = match direction {
                    Direction::Egress => (probe.sent_ns, stamp.read_ns),
                    Direction::Ingress => (stamp.write_ns, probe.received_ns),
                };
                before.push(start as i64 - first as i64);
                inside.push(end as i64 - start as i64);
                after.push(last as i64 - end as i64);
            }
            let (before_us, early) = slack(&before);
            let (after_us, late) = slack(&after);
            let (_, backward) = slack(&inside);
            result.truth.push(TruthRow {
                protocol: name.to_owned(),
                direction: direction.label().to_owned(),
                packets: before.len() as u64,
                violations: early + late + backward,
                before_us,
                after_us,
            });
        }
        rig.check()?;
    }
    Ok(())
}

/// Injected delay, nanoseconds.
const INJECTED_NS: u64 = 100_000;

/// Checks that a delay on the host's side of the pair is in the report, and one behind the NIC is
/// not.
pub(super) fn injection(
    rig: &mut Rig<'_>,
    options: &Options,
    testbed: &LatencyTestbed,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    let mut meter = load(Start::Send)?;
    meter
        .on(testbed.netns, &Filter::default())
        .map_err(measure_error)?;
    // Attached after the meter, so that the delay comes after the meter's stamp.
    let delay = Delay::attach(testbed.host_netns, testbed.device);
    let mut delay = delay.map_err(|e| BenchError::Latency(format!("cannot inject delays: {e}")))?;
    let mut reader = meter.reader().map_err(measure_error)?;
    let (mut inside, mut outside, mut held_ns) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds() {
        let mut medians = Vec::new();
        for (case, in_ns, out_ns) in [
            ("none", 0, 0),
            ("inside", INJECTED_NS, 0),
            ("outside", 0, INJECTED_NS),
        ] {
            delay.hold(in_ns);
            testbed.wire.hold(out_ns);
            reader.take(|_| {});
            let count = options.block();
            let probes = testbed.inside(|| {
                let mut prober = testbed.probe(Kind::Icmp, 0)?;
                let probe = |_| {
                    prober
                        .probe(Duration::from_secs(1))
                        .map_err(failed("cannot ping"))
                };
                (0..count).map(probe).collect::<Result<Vec<_>, _>>()
            })??;
            let reports = take_reports(&mut reader);
            let both = |probe: &Probe| {
                let out = find(&reports, probe, Direction::Egress)?;
                let back = find(&reports, probe, Direction::Ingress)?;
                Some(us(out.1 - out.0 + back.1 - back.0))
            };
            let values: Vec<f64> = probes.iter().flatten().filter_map(both).collect();
            keep(rig, "injection", case, round, &values)?;
            medians.extend(median(&values));
            if case == "inside" {
                held_ns.extend(delay.held_ns());
            }
            rig.check()?;
        }
        if let [none, within, without] = medians[..] {
            inside.push(within - none);
            outside.push(without - none);
        }
    }
    testbed.wire.hold(0);
    let held_us = median(&held_ns).unwrap_or(0.0) / 1000.0;
    for (place, injected_us, seen, goal_us) in [
        ("inside", held_us, inside, 5.0),
        ("outside", us(INJECTED_NS), outside, 2.0),
    ] {
        if let Some(seen_us) = estimate(&seen, rig.seed) {
            result.injection.push(InjectionRow {
                place: place.to_owned(),
                injected_us,
                seen_us,
                goal_us,
            });
        }
    }
    Ok(())
}
