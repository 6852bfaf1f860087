//! Accuracy table: does the ledger attribute its packets' cost to each container?
//!
//! Two containers receive from the peer. At packet rates 1:3 with equal sizes, the caused times
//! must be 1:3. Two sizes or protocols handled in one softirq must cost the same per packet as each
//! does in a softirq of its own.
//!
//! The cost of a packet depends on how many packets share a poll, and on whether each wakes a
//! reader. For freely sent packets that follows from the race between sender and receiver, which
//! differs between mixed and separate batches. For this reason the batches are fixed (see
//! [`BatchSender`]), and nothing sleeps on the sockets. The cost on a shared machine also changes
//! from moment to moment. The benchmark therefore sends hundreds of batches of each kind in turns,
//! and takes the median of the ratios of each turn.
//!
//! The cost depends on the position in the batch too: the first packets find colder caches, and a
//! sender that is not yet asleep on the other hyper-thread. So each kind comes first in half of the
//! mixed batches. A separate batch has its packets at the same position: for the second one they
//! follow the opener and a filler.

use super::batches::{BatchSender, Kind, OPENER, Parcel};
use super::flow::Shape;
use super::options::Options;
use super::overhead::{conservation, start, unreadable};
use crate::accounting::data::{AccountingResult, AccuracyRow};
use crate::data::Treatment;
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::ledger::{Label, record};
use crate::stats::{median, median_interval};
use cofferdam_accounting::Accountant;

/// Batches of each kind.
const TURNS: u32 = 800;
const TURNS_QUICK: u32 = 150;
/// Packets of a parcel. Two parcels and the opener fit one poll (64 packets). Beyond it the kernel
/// would begin a new batch, in the mixed case only.
const PACKETS: u32 = 27;
/// Parcel in place of the other container's parcel of a mixed batch.
const FILLER: Parcel = (OPENER.0, SMALL, PACKETS);
/// Rates 1:3: packets before the other container's turn, and turns in a batch.
const RATES: [Parcel; 2] = [(0, SMALL, 8), (1, SMALL, 24)];
const ROUNDS: u32 = 4;

const SMALL: Kind = Kind::v4(Shape::Udp(64));
const LARGE: Kind = Kind::v4(Shape::Udp(1_400));
const TCP: Kind = Kind::v4(Shape::Tcp);
const ICMP: Kind = Kind::v4(Shape::Icmp);
const SMALL6: Kind = Kind::v6(Shape::Udp(64));
const TCP6: Kind = Kind::v6(Shape::Tcp);
const ICMP6: Kind = Kind::v6(Shape::Icmp);

/// Packets that are sent together, to the first container and to the second.
const CASES: [[(&str, Kind); 2]; 6] = [
    [("UDP 64 bytes", SMALL), ("UDP 1400 bytes", LARGE)],
    [("UDP", SMALL), ("TCP", TCP)],
    [("UDP", SMALL), ("ICMP", ICMP)],
    [("TCP", TCP), ("ICMP", ICMP)],
    [("UDP", SMALL), ("TCP over IPv6", TCP6)],
    [("UDP over IPv6", SMALL6), ("ICMPv6", ICMP6)],
];

/// Measures all cases and adds their rows.
pub(super) fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AccountingResult,
) -> Result<(), BenchError> {
    let turns = if options.quick { TURNS_QUICK } else { TURNS };
    let kinds = [SMALL, LARGE, TCP, ICMP, SMALL6, TCP6, ICMP6];
    let accountant = start(false)?;
    let sender = match BatchSender::start(rig, &kinds) {
        // The figures that were measured before are worth keeping.
        Err(BenchError::Unsupported(why)) => {
            rig.progress.warn(&why);
            return rig.dir.warn(&why);
        }
        other => other?,
    };
    let mut table = Table {
        sender,
        accountant,
        victim_cpu: rig.victim_cpu as usize,
    };
    let first = table.accountant.snapshot().map_err(unreadable)?;
    let steps = CASES.len() + 1;

    rig.progress.step(0, steps, "accuracy: packet rates 1:3");
    let mut ratios = Vec::new();
    for _ in 0..turns {
        if let [Some(a), Some(b)] = table.turn(rig, &RATES, ROUNDS)? {
            ratios.push(b / a);
        }
    }
    push(
        result,
        "UDP 64 bytes, packet rates 1:3".to_owned(),
        "(caused b ÷ caused a) ÷ (packets b ÷ packets a)".to_owned(),
        Some(1.0),
        &ratios,
    );

    for (step, case) in (1..).zip(&CASES) {
        let [(a, kind_a), (b, kind_b)] = *case;
        let name = format!("{a} and {b}");
        rig.progress.step(step, steps, &format!("accuracy: {name}"));
        let (a, b) = ((0, kind_a, PACKETS), (1, kind_b, PACKETS));
        let (mut apart, mut ratios): ([Vec<f64>; 2], [Vec<f64>; 2]) = Default::default();
        for turn in 0..turns {
            // Mixed, first container only, second only; each gives the costs of both containers.
            let batches: [&[Parcel]; 3] = match turn % 2 {
                0 => [&[a, b], &[a], &[FILLER, b]],
                _ => [&[b, a], &[FILLER, a], &[b]],
            };
            let mut order = [0, 1, 2];
            rig.random.shuffle(&mut order);
            let mut costs = [[None; 2]; 3];
            for i in order {
                costs[i] = table.turn(rig, batches[i], 1)?;
            }
            for i in 0..2 {
                if let (Some(together), Some(alone)) = (costs[0][i], costs[1 + i][i]) {
                    apart[i].push(alone);
                    ratios[i].push(together / alone);
                }
            }
        }
        for (i, (what, _)) in case.iter().enumerate() {
            let quantity = format!("{what}: ns a packet, together against alone");
            push(
                result,
                name.clone(),
                quantity,
                median(&apart[i]),
                &ratios[i],
            );
        }
    }
    let interval = table
        .accountant
        .snapshot()
        .map_err(unreadable)?
        .since(&first);
    result
        .conservation
        .push(conservation("accuracy, all turns", &interval));
    let label = Label {
        cell: "accuracy, all turns",
        pair: 0,
        attempt: 0,
        role: None,
        treatment: Treatment::Vanilla,
    };
    rig.dir.ledger(&record(&interval, &label))?;
    rig.progress.step(steps, steps, "done");
    Ok(())
}

/// State that the cases share.
struct Table {
    // Dropped first: its programs would see the network go.
    accountant: Accountant,
    sender: BatchSender,
    victim_cpu: usize,
}

impl Table {
    /// Sends one batch. Returns the cost of a packet of each container on the receiving CPU,
    /// nanoseconds. `None` for a container that received nothing, and for both if the batch did not
    /// arrive whole.
    fn turn(
        &mut self,
        rig: &mut Rig<'_>,
        parcels: &[Parcel],
        rounds: u32,
    ) -> Result<[Option<f64>; 2], BenchError> {
        rig.check()?;
        let before = self.accountant.snapshot().map_err(unreadable)?;
        let mut whole = self.sender.send(parcels, rounds)?;
        let after = self.accountant.snapshot().map_err(unreadable)?;
        let interval = after.since(&before);
        let mut costs = [None; 2];
        for (i, cost) in costs.iter_mut().enumerate() {
            let path = self.sender.path(i);
            let found = interval
                .containers
                .iter()
                .find(|c| c.container.cgroup_path.to_string_lossy() == path);
            let row = found.ok_or_else(|| {
                BenchError::Ledger(format!("the ledger has no row for the container {path}"))
            })?;
            let sent = parcels.iter().filter(|(to, _, _)| *to == i);
            let sent: u32 = sent.map(|(_, _, packets)| packets * rounds).sum();
            whole &= row.ledger.rx_packets == u64::from(sent);
            let ns = row.caused_by_cpu_ns.get(self.victim_cpu).copied();
            *cost = ns
                .filter(|_| sent > 0)
                .map(|ns| ns as f64 / f64::from(sent));
        }
        Ok(if whole { costs } else { [None; 2] })
    }
}

/// Adds the row of `ratios`: measured ÷ expected, one a turn. A case without whole batches has no
/// row.
fn push(
    result: &mut AccountingResult,
    case: String,
    quantity: String,
    expected: Option<f64>,
    ratios: &[f64],
) {
    let (Some(expected), Some((ratio, interval))) = (expected, median_interval(ratios)) else {
        return;
    };
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    result.accuracy.push(AccuracyRow {
        case,
        quantity,
        expected,
        measured: expected * ratio,
        error_pct: percent(ratio),
        error_interval_pct: interval.map(|i| [i.low(), i.high()].map(percent)),
    });
}
