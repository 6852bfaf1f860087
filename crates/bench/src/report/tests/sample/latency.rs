//! Synthetic run of `bench latency`.

use super::{five, run};
use crate::latency::data::*;
use crate::run::*;

pub fn latency() -> RunData {
    let perturbation = |state: &str, added: f64| PerturbationRow {
        state: state.to_owned(),
        rtt_us: five(21.0 + added),
        added_us: five(added),
        packets_per_s: five(690e3),
    };
    let injection = |place: &str, seen: f64, goal_us| InjectionRow {
        place: place.to_owned(),
        injected_us: 100.3,
        seen_us: five(seen),
        goal_us,
    };
    RunData {
        result: Some(RunResult::Latency(LatencyResult {
            truth: vec![TruthRow {
                protocol: "udp".to_owned(),
                direction: "egress".to_owned(),
                packets: 4_000,
                violations: 0,
                before_us: (1.2, 80.0),
                after_us: (0.7, 40.0),
            }],
            injection: vec![
                injection("inside", 101.0, 5.0),
                injection("outside", 0.4, 2.0),
            ],
            bias: vec![BiasRow {
                load: 8,
                raw_us: five(60.0),
                corrected_us: five(31.0),
                host_us: five(29.0),
                bias_us: five(2.0),
                raw_bias_us: five(31.0),
                uncorrected: 3,
            }],
            coverage: vec![CoverageRow {
                protocol: "tcp".to_owned(),
                direction: "ingress".to_owned(),
                both_ways: true,
                asked_per_s: Some(1e5),
                packets_per_s: 99_900.0,
                packets: 499_500,
                reports: 499_480,
                coverage_pct: 99.996,
                misses: [("unseen".to_owned(), 20)].into(),
                lost: 0,
            }],
            perturbation: vec![
                perturbation("idle", 0.1),
                perturbation("on (send)", 0.9),
                perturbation("on (queue)", 1.4),
                perturbation("ftrace", 6.0),
            ],
            programs: vec![LatencyProgramRow {
                name: "lt_begin".to_owned(),
                runs: 500_000,
                ns_per_run: 143.0,
            }],
            memory_bytes: Some(9 << 20),
        })),
        ..run("latency", Kind::Latency)
    }
}
