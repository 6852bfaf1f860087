//! The accuracy table: does the ledger give each container what its packets cost?
//!
//! Two containers receive from the peer. At packet rates 1:3 with equal sizes the caused times
//! must stand 1:3. With different sizes or protocols, sent together, each must cost per packet
//! what it costs alone, by as many packets in a turn (half as many would come in smaller
//! batches and really cost more).
//!
//! On a shared machine a packet costs twice as much in one moment as in the next. Periods of a
//! second, alternated, were tried first and scattered by 20%. So: turns of about a millisecond,
//! hundreds of them, and the medians of both.

use super::options::Options;
use super::overhead::{conservation, start, unreadable};
use super::turns::{Parcel, Turns};
use crate::data::{AccountingResult, AccuracyRow, Treatment};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::ledger::{Label, record};
use crate::stats::median;
use cofferdam_accounting::Accountant;
use cofferdam_types::Ledger;

/// Turns of each case.
const TURNS: u32 = 400;
const TURNS_QUICK: u32 = 150;
/// Packets of a parcel.
const PACKETS: u32 = 256;

const SMALL: Parcel = Parcel::Udp {
    bytes: 64,
    packets: PACKETS,
};
const LARGE: Parcel = Parcel::Udp {
    bytes: 1_400,
    packets: PACKETS,
};
const TRIPLE: Parcel = Parcel::Udp {
    bytes: 64,
    packets: 3 * PACKETS,
};
const STREAM: Parcel = Parcel::Tcp {
    bytes: 1_400 * PACKETS,
};

/// Two parcels sent together, and which of them is looked at.
type Turn = ([(usize, Parcel); 2], usize);

/// Name, what is looked at, mixed, alone.
const CASES: [(&str, &str, Turn, Turn); 4] = [
    (
        "UDP 64 and 1400 bytes",
        "64 bytes",
        ([(0, SMALL), (1, LARGE)], 0),
        ([(0, SMALL), (0, SMALL)], 0),
    ),
    (
        "UDP 64 and 1400 bytes",
        "1400 bytes",
        ([(0, SMALL), (1, LARGE)], 1),
        ([(1, LARGE), (1, LARGE)], 1),
    ),
    (
        "UDP 64 bytes and TCP",
        "UDP",
        ([(0, SMALL), (1, STREAM)], 0),
        ([(0, SMALL), (0, SMALL)], 0),
    ),
    (
        "UDP 64 bytes and TCP",
        "TCP",
        ([(0, SMALL), (1, STREAM)], 1),
        ([(1, STREAM), (1, STREAM)], 1),
    ),
];

/// Measures all cases and adds their rows.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AccountingResult,
) -> Result<(), BenchError> {
    let turns = if options.quick { TURNS_QUICK } else { TURNS };
    let mut scene = Turns::start(rig)?;
    let mut accountant = start(false)?;
    let first = accountant.snapshot().map_err(unreadable)?;
    let mut done = 0;
    let steps = CASES.len() as u32 + 1;
    let mut case = |rig: &mut Rig<'_>, words: &str| {
        rig.progress
            .step(done, steps as usize, &format!("accuracy: {words}"));
        done += 1;
    };

    case(rig, "packet rates 1:3");
    let mut ratios = Vec::new();
    for _ in 0..turns {
        let ledgers = turn(rig, &mut scene, &mut accountant, &[(0, SMALL), (1, TRIPLE)])?;
        if let (Some(a), Some(b)) = (ns_per_packet(&ledgers[0]), ns_per_packet(&ledgers[1])) {
            ratios.push(b / a);
        }
    }
    let quantity = "(caused b ÷ caused a) ÷ (packets b ÷ packets a)";
    push(
        result,
        "UDP 64 bytes, packet rates 1:3",
        quantity,
        Some(1.0),
        median(&ratios),
    );

    for (name, what, mixed, alone) in &CASES {
        case(rig, name);
        let (mut together, mut apart) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            for ((parcels, who), costs) in [(mixed, &mut together), (alone, &mut apart)] {
                let ledgers = turn(rig, &mut scene, &mut accountant, parcels)?;
                costs.extend(ns_per_packet(&ledgers[*who]));
            }
        }
        let quantity = format!("{what}: ns a packet, together against alone");
        push(result, name, &quantity, median(&apart), median(&together));
    }
    let interval = accountant.snapshot().map_err(unreadable)?.since(&first);
    result
        .conservation
        .push(conservation("accuracy, all turns", &interval));
    let label = Label {
        cell: "accuracy, all turns",
        pair: 0,
        role: None,
        treatment: Treatment::Vanilla,
    };
    rig.dir.ledger(&record(&interval, &label))?;
    rig.progress.step(steps as usize, steps as usize, "done");
    Ok(())
}

/// One turn: what each container's ledger gained by it.
fn turn(
    rig: &mut Rig<'_>,
    scene: &mut Turns,
    accountant: &mut Accountant,
    parcels: &[(usize, Parcel)],
) -> Result<[Ledger; 2], BenchError> {
    rig.check()?;
    let before = accountant.snapshot().map_err(unreadable)?;
    scene.send(parcels)?;
    let interval = accountant.snapshot().map_err(unreadable)?.since(&before);
    let of = |i: usize| {
        let path = scene.path(i);
        let found = interval
            .containers
            .iter()
            .find(|c| c.container.cgroup_path.to_string_lossy() == path);
        found.map(|c| c.ledger).ok_or_else(|| {
            BenchError::Ledger(format!("the ledger does not know the container {path}"))
        })
    };
    Ok([of(0)?, of(1)?])
}

fn ns_per_packet(ledger: &Ledger) -> Option<f64> {
    (ledger.rx_packets > 0).then(|| ledger.caused_rx_ns as f64 / ledger.rx_packets as f64)
}

/// A case without packets has no row: its absence is seen in the ledger file.
fn push(
    result: &mut AccountingResult,
    case: &str,
    quantity: &str,
    expected: Option<f64>,
    measured: Option<f64>,
) {
    let (Some(expected), Some(measured)) = (expected, measured) else {
        return;
    };
    result.accuracy.push(AccuracyRow {
        case: case.to_owned(),
        quantity: quantity.to_owned(),
        expected,
        measured,
        error_pct: (measured - expected) / expected * 100.0,
    });
}
