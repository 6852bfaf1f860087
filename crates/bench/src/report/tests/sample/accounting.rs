//! Synthetic run of `bench accounting`.

use super::{estimate, run};
use crate::accounting::data::*;
use crate::run::*;

pub fn accounting() -> RunData {
    let overhead = |load, unit: &str, goal, goodput: f64, ratios: &[f64]| OverheadRow {
        load,
        mode: Watch::Exact,
        unit: unit.to_owned(),
        off: estimate(&vec![goodput; ratios.len()]),
        on: estimate(&ratios.iter().map(|r| r * goodput).collect::<Vec<_>>()),
        ratio: estimate(ratios),
        goal: Some(goal),
        bpf_ns_per_packet: Some(84.0),
        statistics_ns_per_run: Some(24.0),
    };
    let flood = [0.962, 0.971, 0.958, 0.975, 0.969, 0.964, 0.98];
    let stream = [0.997, 1.004, 0.991, 0.999, 1.0, 0.994, 1.002];
    let sampled = [0.992, 0.998, 1.003, 0.989, 0.996, 0.997, 1.001];
    let empty = [0.978, 0.981, 0.969, 0.985, 0.979, 0.974, 0.988];
    let program = |name: &str, ns_per_run, runs_per_packet| ProgramRow {
        load: LoadShape::Flood64,
        name: name.to_owned(),
        runs: 12_000_000,
        ns_per_run,
        runs_per_packet,
    };
    RunData {
        result: Some(RunResult::Accounting(AccountingResult {
            overhead: vec![
                overhead(LoadShape::Flood64, "packets/s", 0.96, 710e3, &flood),
                overhead(LoadShape::TcpStream, "bytes/s", 0.99, 2.1e9, &stream),
                OverheadRow {
                    mode: Watch::Sampled,
                    bpf_ns_per_packet: None,
                    statistics_ns_per_run: None,
                    ..overhead(LoadShape::Flood64, "packets/s", 0.96, 710e3, &sampled)
                },
                OverheadRow {
                    mode: Watch::Nothing,
                    goal: None,
                    bpf_ns_per_packet: None,
                    statistics_ns_per_run: None,
                    ..overhead(LoadShape::Flood64, "packets/s", 0.96, 710e3, &empty)
                },
            ],
            programs: vec![
                program("softirq_entry", 62.0, 0.02),
                program("netif_receive_skb", 55.0, 1.0),
                program("net_dev_queue", 28.0, 0.4),
            ],
            conservation: vec![ConservationRow {
                load: "flood64".to_owned(),
                measured_ns: 8_123_456_789,
                attributed_ns: 8_122_000_000,
                worst_cpu_error_pct: 0.018,
            }],
            memory_bytes: Some(13_107_200),
            accuracy: vec![
                AccuracyRow {
                    case: "two receivers, packets 1:3".to_owned(),
                    quantity: "caused b ÷ caused a".to_owned(),
                    expected: 3.0,
                    measured: 2.96,
                    error_pct: -1.33,
                    error_interval_pct: Some([-1.9, -0.8]),
                },
                AccuracyRow {
                    case: "large UDP with small TCP".to_owned(),
                    quantity: "ns per packet".to_owned(),
                    expected: 612.0,
                    measured: 655.0,
                    error_pct: 7.03,
                    error_interval_pct: None,
                },
            ],
        })),
        ..run("accounting", Kind::Accounting)
    }
}
