//! Round trips from the container, raw and corrected, compared with those from the host, in turns.

use super::testbed::LatencyTestbed;
use super::wire::SETTLE;
use super::{Options, failed, keep, load, measure_error, us};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::latency::data::{BiasRow, LatencyResult};
use crate::stats::{estimate, median};
use cofferdam_latency::ping::{Kind, Probe, ProbeReport, Round};
use cofferdam_latency::{Filter, Start};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOADS: [u32; 4] = [0, 1, 4, 8];

#[derive(Default)]
struct Blocks {
    raw: Vec<f64>,
    corrected: Vec<f64>,
    host: Vec<f64>,
    uncorrected: u64,
}

/// Measures one row for each load.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    testbed: &LatencyTestbed,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    let mut meter = load(Start::Queue)?;
    meter
        .on(testbed.netns, &Filter::default())
        .map_err(measure_error)?;
    let mut blocks: Vec<Blocks> = LOADS.iter().map(|_| Blocks::default()).collect();
    for round in 0..options.rounds() {
        for (count, blocks) in LOADS.iter().zip(&mut blocks) {
            let mut reader = meter.reader().map_err(measure_error)?;
            let stop = AtomicBool::new(false);
            let pairs = std::thread::scope(|scope| {
                testbed.load(scope, *count, &stop);
                let pairs = turns(testbed, options.block());
                stop.store(true, Ordering::Relaxed);
                pairs
            })?;
            std::thread::sleep(SETTLE);
            let mut reports = Vec::new();
            reader.take(|sample| reports.push(ProbeReport::of(&sample)));
            let rounds: Vec<Round> = pairs
                .iter()
                .map(|(p, _)| Round::join(p, &reports))
                .collect();
            let raw: Vec<f64> = rounds.iter().map(|r| us(r.rtt_ns)).collect();
            let corrected: Vec<f64> = rounds
                .iter()
                .filter_map(Round::corrected_ns)
                .map(us)
                .collect();
            let host: Vec<f64> = pairs
                .iter()
                .map(|(_, h)| us(h.received_ns - h.sent_ns))
                .collect();
            for (case, values) in [("raw", &raw), ("corrected", &corrected), ("host", &host)] {
                keep(rig, "bias", &format!("{case}/{count}"), round, values)?;
            }
            blocks.uncorrected += (raw.len() - corrected.len()) as u64;
            if let (Some(r), Some(c), Some(h)) = (median(&raw), median(&corrected), median(&host)) {
                blocks.raw.push(r);
                blocks.corrected.push(c);
                blocks.host.push(h);
            }
            rig.check()?;
        }
    }
    for (load, blocks) in LOADS.iter().zip(blocks) {
        let minus =
            |a: &[f64]| -> Vec<f64> { a.iter().zip(&blocks.host).map(|(a, h)| a - h).collect() };
        let of = |values: &[f64]| estimate(values, rig.seed);
        let (Some(raw_us), Some(corrected_us), Some(host_us), Some(bias_us), Some(raw_bias_us)) = (
            of(&blocks.raw),
            of(&blocks.corrected),
            of(&blocks.host),
            of(&minus(&blocks.corrected)),
            of(&minus(&blocks.raw)),
        ) else {
            continue;
        };
        result.bias.push(BiasRow {
            load: *load,
            raw_us,
            corrected_us,
            host_us,
            bias_us,
            raw_bias_us,
            uncorrected: blocks.uncorrected,
        });
    }
    Ok(())
}

/// Pings from the container and from the host in turns.
fn turns(testbed: &LatencyTestbed, count: u32) -> Result<Vec<(Probe, Probe)>, BenchError> {
    let mut host = testbed.host_prober(Kind::Icmp)?;
    testbed.inside(|| {
        let mut container = testbed.probe(Kind::Icmp, 3)?;
        let wait = Duration::from_secs(1);
        let mut pairs = Vec::new();
        for _ in 0..count {
            let inside = container.probe(wait).map_err(failed("cannot ping"))?;
            let outside = host.probe(wait).map_err(failed("cannot ping"))?;
            pairs.extend(inside.zip(outside));
        }
        Ok(pairs)
    })?
}
