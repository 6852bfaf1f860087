//! Cells of the grid.

use super::options::{Filter, Options};
use crate::data::{Cell, Direction, EVEN_SHARE_PCT, Interferer, Limit, Path, VictimIn, VictimKind};
use crate::error::BenchError;
use crate::topology::MadeBy;
use crate::worker::trace::{LARGEST_TRACE_BYTES, Trace};

const FLOWS: [u32; 4] = [1, 3, 10, 100];
const UDP_PAYLOADS_BYTES: [u32; 3] = [64, 200, 1_400];
const TCP_WRITE_BYTES: u32 = 65_536;
const HTB_GBIT_PER_S: [f64; 3] = [1.0, 5.0, 10.0];
/// Flows and payload of the worst case, in the paper and here.
const WORST: (u32, u32) = (3, 200);

/// Returns the cells that `options` select, in the order of measurement.
///
/// # Errors
/// The options select none, or contradict each other.
pub fn cells(options: &Options) -> Result<Vec<Cell>, BenchError> {
    if options.pairs == 0 {
        return Err(BenchError::Usage(
            "--pairs 0 measures nothing: give at least 1".to_owned(),
        ));
    }
    if !options.ledger && !options.treatments.is_empty() {
        return Err(BenchError::Usage(
            "--with needs the accounting: remove --no-ledger".to_owned(),
        ));
    }
    if options
        .victim_seconds
        .is_some_and(|s| !(0.01..=60.0).contains(&s))
    {
        return Err(BenchError::Usage(
            "the victim's time alone must be between 10ms and 60s".to_owned(),
        ));
    }
    let trace_flows = match &options.trace {
        None => Trace::terasort().flows(),
        Some(path) => {
            let text = cofferdam_paths::read_text(path, LARGEST_TRACE_BYTES).map_err(|e| {
                BenchError::Usage(format!("cannot read the trace {}: {e}", path.display()))
            })?;
            let trace = Trace::parse(&text)
                .map_err(|e| BenchError::Usage(format!("{}, {e}", path.display())))?;
            trace.flows()
        }
    };
    let all = if options.quick {
        quick(trace_flows)
    } else {
        full(trace_flows)
    };
    let cells: Vec<Cell> = all
        .into_iter()
        .filter(|c| options.filter.keeps(c))
        // In podman's containers nothing can be steered: their sysfs is read-only.
        .filter(|c| match options.made_by {
            MadeBy::Ourselves => true,
            MadeBy::Podman => c.path != Path::Veth,
            MadeBy::Kubernetes => c.path == Path::Routed,
        })
        .collect();
    if cells.is_empty() {
        return Err(BenchError::Usage(
            "no cell of the grid matches: remove a filter, or --quick".to_owned(),
        ));
    }
    Ok(cells)
}

impl Filter {
    fn keeps(&self, cell: &Cell) -> bool {
        fn has<T: PartialEq>(list: &[T], value: &T) -> bool {
            list.is_empty() || list.contains(value)
        }
        has(&self.ids, &cell.id)
            && has(&self.victims, &cell.victim)
            && has(&self.interferers, &cell.interferer)
            && has(&self.directions, &cell.direction)
            && has(&self.paths, &cell.path)
            && has(&self.flows, &cell.flows)
            && has(&self.victim_shares_pct, &cell.victim_share_pct)
            && has(&self.limits, &cell.limit)
            && has(&self.offenders, &cell.offenders)
            && has(&self.victims_in, &cell.victim_in)
            && (self.payloads_bytes.is_empty()
                || cell
                    .payload_bytes
                    .is_some_and(|b| self.payloads_bytes.contains(&b)))
            && (self.htb_gbit_per_s.is_empty()
                || cell
                    .htb_gbit_per_s
                    .is_some_and(|r| self.htb_gbit_per_s.contains(&r)))
    }
}

fn cell(victim: VictimKind, interferer: Interferer, path: Path, flows: u32) -> Cell {
    Cell {
        id: String::new(),
        victim,
        interferer,
        protocol: interferer.protocol(),
        direction: Direction::Receiver,
        path,
        flows,
        payload_bytes: (interferer == Interferer::Stream).then_some(TCP_WRITE_BYTES),
        htb_gbit_per_s: None,
        victim_share_pct: EVEN_SHARE_PCT,
        limit: Limit::Weights,
        offenders: 1,
        victim_in: VictimIn::Container,
    }
}

fn flood(victim: VictimKind, path: Path, flows: u32, payload_bytes: u32) -> Cell {
    let payload_bytes = Some(payload_bytes);
    Cell {
        payload_bytes,
        ..cell(victim, Interferer::Flood, path, flows)
    }
    .named()
}

fn sender(
    interferer: Interferer,
    path: Path,
    flows: u32,
    payload_bytes: u32,
    gbit_per_s: f64,
) -> Cell {
    Cell {
        direction: Direction::Sender,
        payload_bytes: Some(payload_bytes),
        htb_gbit_per_s: Some(gbit_per_s),
        ..cell(VictimKind::Cpu, interferer, path, flows)
    }
    .named()
}

fn quick(trace_flows: u32) -> Vec<Cell> {
    use Interferer::{Flood, Shuffle, Stream};
    let (flows, bytes) = WORST;
    let mut cells: Vec<Cell> = Path::GRID
        .iter()
        .map(|path| flood(VictimKind::Cpu, *path, flows, bytes))
        .collect();
    cells.extend([
        flood(VictimKind::Cpu, Path::Veth, 1, 64),
        cell(VictimKind::Cpu, Stream, Path::Veth, 3).named(),
        cell(VictimKind::Cpu, Shuffle, Path::Veth, trace_flows).named(),
        sender(Flood, Path::Veth, 3, 200, 1.0),
        sender(Stream, Path::BridgeNat, 10, TCP_WRITE_BYTES, 5.0),
        sender(Stream, Path::Veth, 100, TCP_WRITE_BYTES, 10.0),
        cell(VictimKind::Wordcount, Shuffle, Path::Veth, trace_flows).named(),
        flood(VictimKind::Grep, Path::Veth, flows, bytes),
        flood(VictimKind::Pi, Path::Veth, flows, bytes),
        flood(VictimKind::Rpc, Path::Veth, flows, bytes),
    ]);
    cells
}

fn full(trace_flows: u32) -> Vec<Cell> {
    let mut cells = Vec::new();
    for path in Path::GRID {
        for flows in FLOWS {
            for bytes in UDP_PAYLOADS_BYTES {
                cells.push(flood(VictimKind::Cpu, path, flows, bytes));
            }
            cells.push(cell(VictimKind::Cpu, Interferer::Stream, path, flows).named());
        }
        cells.push(cell(VictimKind::Cpu, Interferer::Shuffle, path, trace_flows).named());
    }
    for flows in FLOWS {
        for rate in HTB_GBIT_PER_S {
            for path in [Path::Veth, Path::BridgeNat] {
                cells.push(sender(Interferer::Flood, path, flows, WORST.1, rate));
                cells.push(sender(
                    Interferer::Stream,
                    path,
                    flows,
                    TCP_WRITE_BYTES,
                    rate,
                ));
            }
        }
    }
    cells.extend(entitlements());
    cells.extend(attachments());
    let (flows, bytes) = WORST;
    for &victim in VictimKind::ALL.iter().filter(|v| **v != VictimKind::Cpu) {
        cells.push(flood(victim, Path::Veth, flows, bytes));
        cells.push(cell(victim, Interferer::Stream, Path::Veth, flows).named());
        cells.push(cell(victim, Interferer::Shuffle, Path::Veth, trace_flows).named());
    }
    cells
}

/// The worst flood and a stream, received and sent, for every path that is not in [`Path::GRID`].
fn attachments() -> impl Iterator<Item = Cell> {
    let (flows, bytes) = WORST;
    let others = Path::ALL.iter().filter(|p| !Path::GRID.contains(p));
    others.flat_map(move |&path| {
        [
            flood(VictimKind::Cpu, path, flows, bytes),
            cell(VictimKind::Cpu, Interferer::Stream, path, flows).named(),
            sender(Interferer::Flood, path, flows, bytes, HTB_GBIT_PER_S[0]),
            sender(
                Interferer::Stream,
                path,
                flows,
                TCP_WRITE_BYTES,
                HTB_GBIT_PER_S[1],
            ),
        ]
    })
}

/// The worst flood and a stream with other shares, other limits, many offenders, and a victim of
/// the host.
fn entitlements() -> Vec<Cell> {
    let (flows, bytes) = WORST;
    let worst = flood(VictimKind::Cpu, Path::Veth, flows, bytes);
    let stream = cell(VictimKind::Cpu, Interferer::Stream, Path::Veth, flows);
    let variants = [
        (80, Limit::Weights, 1),
        (EVEN_SHARE_PCT, Limit::Quota, 1),
        (80, Limit::Quota, 1),
        (EVEN_SHARE_PCT, Limit::Weights, 10),
    ];
    let mut cells = Vec::new();
    for base in [worst, stream] {
        for (victim_share_pct, limit, offenders) in variants {
            let varied = Cell {
                victim_share_pct,
                limit,
                offenders,
                ..base.clone()
            };
            cells.push(varied.named());
        }
        let beside_the_host = Cell {
            victim_in: VictimIn::Host,
            ..base
        };
        cells.push(beside_the_host.named());
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn filtered_cells(filter: Filter, quick: bool) -> Result<Vec<Cell>, BenchError> {
        cells(&Options {
            quick,
            filter,
            ..Options::default()
        })
    }

    #[test]
    fn ids_are_unique_and_every_victim_meets_every_interferer() {
        let all = filtered_cells(Filter::default(), false).unwrap();
        let ids: BTreeSet<_> = all.iter().map(|c| &c.id).collect();
        assert_eq!(ids.len(), all.len());
        let met: BTreeSet<_> = all
            .iter()
            .map(|c| (c.victim.label(), c.interferer.label()))
            .collect();
        assert_eq!(met.len(), VictimKind::ALL.len() * Interferer::ALL.len());
    }

    #[test]
    fn the_grids_have_the_worst_case_on_their_paths() {
        let has = |quick, path| {
            let id = format!("cpu/flood/receiver/{path}/3x200B");
            let cells = filtered_cells(Filter::default(), quick).unwrap();
            cells.iter().any(|c| c.id == id)
        };
        for path in Path::ALL {
            assert!(has(false, path), "{path}");
            assert_eq!(has(true, path), Path::GRID.contains(path), "{path}");
        }
    }

    /// Promise 42.
    #[test]
    fn podmans_containers_have_no_path_that_steers_inside_them() {
        let of = |made_by| {
            let options = Options {
                quick: true,
                made_by,
                ..Options::default()
            };
            cells(&options).unwrap()
        };
        let podman = of(MadeBy::Podman);
        assert!(podman.iter().all(|c| c.path != Path::Veth));
        let bridge = "cpu/flood/receiver/bridge-nat/3x200B";
        assert!(podman.iter().any(|c| c.id == bridge));
        assert!(of(MadeBy::Ourselves).len() > podman.len());
        // The network of a cluster is neither of the other two.
        let pods = of(MadeBy::Kubernetes);
        assert!(!pods.is_empty() && pods.iter().all(|c| c.path == Path::Routed));
    }

    #[test]
    fn filters_narrow_and_an_empty_grid_is_refused() {
        let filter = Filter {
            htb_gbit_per_s: vec![5.0],
            flows: vec![10],
            ..Filter::default()
        };
        let narrowed = filtered_cells(filter, false).unwrap();
        assert!(
            narrowed
                .iter()
                .all(|c| c.htb_gbit_per_s == Some(5.0) && c.flows == 10)
        );
        let none = Filter {
            flows: vec![7],
            ..Filter::default()
        };
        assert_eq!(filtered_cells(none, false).unwrap_err().exit_code(), 2);
        let no_pairs = Options {
            pairs: 0,
            ..Options::default()
        };
        assert_eq!(cells(&no_pairs).unwrap_err().exit_code(), 2);
    }
}
