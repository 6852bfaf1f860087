//! The accuracy table: does the ledger give each container what its packets cost?
//!
//! Two containers receive from the peer at once. At packet rates 1:3 with equal sizes the
//! caused times must stand 1:3. With different sizes or protocols each must cost per packet
//! what it costs alone, measured in the same run just before.

use super::options::Options;
use super::overhead::{conservation, pass, start, unreadable};
use super::scene::{Flow, Scene};
use crate::data::{AccountingResult, AccuracyRow};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::ledger::{Label, record};
use cofferdam_types::{Interval, Ledger};
use std::time::Duration;

/// Datagrams a second of the slower flow. Low enough that nothing is dropped, high enough that
/// a period has tens of thousands.
const RATE: f64 = 20_000.0;

const SMALL: Flow = Flow::Udp {
    bytes: 64,
    packets_per_s: Some(RATE),
};
const LARGE: Flow = Flow::Udp {
    bytes: 1_400,
    packets_per_s: Some(RATE),
};
const STREAM: Flow = Flow::Tcp {
    paced: Some((1_400, RATE)),
};
const TRIPLE: Flow = Flow::Udp {
    bytes: 64,
    packets_per_s: Some(RATE * 3.0),
};

/// Measures all cases and adds their rows.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AccountingResult,
) -> Result<(), BenchError> {
    let steps = 6;
    let mut take = |rig: &mut Rig<'_>, step: usize, words: &str, flows: &[Flow]| {
        rig.progress
            .step(step, steps, &format!("accuracy: {words}"));
        let (interval, ledgers) = period(rig, options, words, step, flows)?;
        result.conservation.push(conservation(words, &interval));
        Ok::<Vec<Ledger>, BenchError>(ledgers)
    };
    let thirds = take(
        rig,
        0,
        "two UDP flows, packet rates 1:3, equal sizes",
        &[SMALL, TRIPLE],
    )?;
    let small = take(rig, 1, "UDP 64 bytes alone", &[SMALL])?;
    let large = take(rig, 2, "UDP 1400 bytes alone", &[LARGE])?;
    let sizes = take(
        rig,
        3,
        "UDP 64 and 1400 bytes, equal rates",
        &[SMALL, LARGE],
    )?;
    let stream = take(rig, 4, "a TCP stream of 1400-byte writes alone", &[STREAM])?;
    let protocols = take(rig, 5, "UDP 64 bytes beside a TCP stream", &[SMALL, STREAM])?;

    let rows = &mut result.accuracy;
    let packets = ratio(thirds[1].rx_packets as f64, thirds[0].rx_packets as f64);
    let caused = ratio(thirds[1].caused_rx_ns as f64, thirds[0].caused_rx_ns as f64);
    push(
        rows,
        "UDP, packet rates 1:3, equal sizes",
        "packets b ÷ packets a",
        Some(3.0),
        packets,
    );
    push(
        rows,
        "UDP, packet rates 1:3, equal sizes",
        "caused b ÷ caused a",
        packets,
        caused,
    );
    let both = "UDP 64 and 1400 bytes, equal rates";
    let per_packet = ns_per_packet;
    let (small_alone, large_alone) = (per_packet(&small[0]), per_packet(&large[0]));
    push(
        rows,
        both,
        "64 bytes: ns a packet, against alone",
        small_alone,
        per_packet(&sizes[0]),
    );
    push(
        rows,
        both,
        "1400 bytes: ns a packet, against alone",
        large_alone,
        per_packet(&sizes[1]),
    );
    let mixed = "UDP 64 bytes beside a TCP stream, equal rates";
    push(
        rows,
        mixed,
        "UDP: ns a packet, against alone",
        small_alone,
        per_packet(&protocols[0]),
    );
    let stream_alone = per_packet(&stream[0]);
    push(
        rows,
        mixed,
        "TCP: ns a packet, against alone",
        stream_alone,
        per_packet(&protocols[1]),
    );
    rig.progress.step(steps, steps, "done");
    Ok(())
}

/// One period with `flows` into containers a, b, …; the ledger of each.
fn period(
    rig: &mut Rig<'_>,
    options: &Options,
    words: &str,
    number: usize,
    flows: &[Flow],
) -> Result<(Interval, Vec<Ledger>), BenchError> {
    let scene = Scene::start(rig, flows)?;
    let mut accountant = start(false)?;
    pass(rig, Some(&mut accountant), Duration::from_millis(200))?;
    let earlier = accountant.snapshot().map_err(unreadable)?;
    pass(
        rig,
        Some(&mut accountant),
        Duration::from_secs_f64(options.period_s()),
    )?;
    let interval = accountant.snapshot().map_err(unreadable)?.since(&earlier);
    drop(accountant);
    let label = Label {
        cell: words,
        pair: number as u32,
        role: None,
    };
    rig.dir.ledger(&record(&interval, &label))?;
    let ledgers = (0..flows.len())
        .map(|i| {
            let path = scene.path(i);
            let found = interval
                .containers
                .iter()
                .find(|c| c.container.cgroup_path.to_string_lossy() == path);
            found.map(|c| c.ledger).ok_or_else(|| {
                BenchError::Ledger(format!("the ledger does not know the container {path}"))
            })
        })
        .collect::<Result<_, _>>()?;
    Ok((interval, ledgers))
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

fn ns_per_packet(ledger: &Ledger) -> Option<f64> {
    ratio(ledger.caused_rx_ns as f64, ledger.rx_packets as f64)
}

/// A case without packets has no row: its absence is seen in the ledger file.
fn push(
    rows: &mut Vec<AccuracyRow>,
    case: &str,
    quantity: &str,
    expected: Option<f64>,
    measured: Option<f64>,
) {
    let (Some(expected), Some(measured)) = (expected, measured) else {
        return;
    };
    rows.push(AccuracyRow {
        case: case.to_owned(),
        quantity: quantity.to_owned(),
        expected,
        measured,
        error_pct: (measured - expected) / expected * 100.0,
    });
}
