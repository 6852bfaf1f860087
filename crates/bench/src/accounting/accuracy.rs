//! The accuracy table: does the ledger give each container what its packets cost?
//!
//! Two containers receive from the peer at once. At packet rates 1:3 with equal sizes the
//! caused times must stand 1:3. With different sizes or protocols at equal rates each must cost
//! per packet what it costs among its like, where both containers get the same and no doubt is
//! possible. "Among its like", not alone: half the packets a second come in smaller batches to
//! a colder CPU and really cost more. Cases take turns, and the least of the rounds counts:
//! what disturbs a round only ever adds.

use super::options::Options;
use super::overhead::{conservation, pass, start, unreadable};
use super::scene::{Flow, Scene};
use crate::data::{AccountingResult, AccuracyRow};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::ledger::{Label, record};
use crate::stats::median;
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

/// Rounds over all cases.
const ROUNDS: usize = 3;
/// Longest period; tens of thousands of packets are enough.
const PERIOD_S: f64 = 1.0;

const CASES: [(&str, [Flow; 2]); 6] = [
    ("UDP 64 bytes, packet rates 1:3", [SMALL, TRIPLE]),
    ("UDP 64 bytes twice", [SMALL, SMALL]),
    ("UDP 1400 bytes twice", [LARGE, LARGE]),
    ("TCP twice", [STREAM, STREAM]),
    ("UDP 64 and 1400 bytes", [SMALL, LARGE]),
    ("UDP 64 bytes and TCP", [SMALL, STREAM]),
];

/// Measures all cases and adds their rows.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AccountingResult,
) -> Result<(), BenchError> {
    let steps = ROUNDS * CASES.len();
    let mut ratios = Vec::new();
    let mut costs = [[f64::MAX; 2]; CASES.len()];
    for step in 0..steps {
        let (round, number) = (step / CASES.len(), step % CASES.len());
        let (words, flows) = &CASES[number];
        rig.progress
            .step(step, steps, &format!("accuracy: {words}"));
        let (interval, ledgers) = period(rig, options, words, step, flows)?;
        if round == 0 {
            result.conservation.push(conservation(words, &interval));
        }
        for (cost, ledger) in costs[number].iter_mut().zip(&ledgers) {
            *cost = cost.min(ns_per_packet(ledger).unwrap_or(f64::MAX));
        }
        if number == 0 {
            ratios.extend(caused_ratio_over_packet_ratio(&ledgers));
        }
    }
    rig.progress.step(steps, steps, "done");
    let rows = &mut result.accuracy;
    push(
        rows,
        CASES[0].0,
        "(caused b ÷ caused a) ÷ (packets b ÷ packets a)",
        1.0,
        median(&ratios).unwrap_or(f64::MAX),
    );
    let [_, small, large, tcp, sizes, protocols] = costs;
    let like = |pair: [f64; 2]| f64::midpoint(pair[0], pair[1]);
    let quantity = |name: &str| format!("{name}: ns a packet, against among its like");
    push(
        rows,
        CASES[4].0,
        &quantity("64 bytes"),
        like(small),
        sizes[0],
    );
    push(
        rows,
        CASES[4].0,
        &quantity("1400 bytes"),
        like(large),
        sizes[1],
    );
    push(
        rows,
        CASES[5].0,
        &quantity("UDP"),
        like(small),
        protocols[0],
    );
    push(rows, CASES[5].0, &quantity("TCP"), like(tcp), protocols[1]);
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
        Duration::from_secs_f64(options.period_s().min(PERIOD_S)),
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

fn caused_ratio_over_packet_ratio(ledgers: &[Ledger]) -> Option<f64> {
    let [a, b] = ledgers else { return None };
    Some(ns_per_packet(b)? / ns_per_packet(a)?)
}

fn ns_per_packet(ledger: &Ledger) -> Option<f64> {
    (ledger.rx_packets > 0).then(|| ledger.caused_rx_ns as f64 / ledger.rx_packets as f64)
}

/// A case without packets has no row: its absence is seen in the ledger file.
fn push(rows: &mut Vec<AccuracyRow>, case: &str, quantity: &str, expected: f64, measured: f64) {
    if expected == f64::MAX || measured == f64::MAX {
        return;
    }
    rows.push(AccuracyRow {
        case: case.to_owned(),
        quantity: quantity.to_owned(),
        expected,
        measured,
        error_pct: (measured - expected) / expected * 100.0,
    });
}
