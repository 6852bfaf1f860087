//! Synthetic run of `bench isolation`.

use super::{estimate, run};
use crate::data::*;
use crate::isolation::data::*;
use crate::run::*;

/// The paper's network table of podman: saturated next to undercommitted and unrestricted, and the
/// same as it might be with Cofferdam. In one block of `a_s_b_u` something else used the link.
pub fn isolation() -> RunData {
    let cell = |protection: Protection, scenario: &str, repetition: u32, mbit: f64| {
        let noise = 1.0
            + match scenario.contains("_b_f") {
                true => [0.0, 0.02, 0.01, 0.005, 0.015][repetition as usize],
                false => f64::from(repetition % 3) * 0.01,
            };
        let point = |i: u32| Point {
            t_ms: f64::from(i) * 100.0,
            bytes: (mbit * noise * 12_500.0 * f64::from(i)) as u64,
            ..Point::default()
        };
        let tenant = |mbit: f64| TenantSample {
            asked: Some(2e8),
            used: mbit * 1e6 * noise,
            performance: mbit * 0.97e6 * noise,
            p99_us: Some(900.0 * noise),
            series: (0..16).map(point).collect(),
            ..TenantSample::default()
        };
        let scenario: Scenario = scenario.parse().unwrap();
        IsolationSample {
            schema: SCHEMA,
            time: "2026-11-22T00:00:00Z".to_owned(),
            key: CellKey {
                runtime: RuntimeKind::Podman,
                protection,
                resource: Resource::Network,
                scenario,
                repetition,
            },
            position: 0,
            attempt: 0,
            window_s: 1.2,
            limit: 0.5,
            a: tenant(mbit),
            b: scenario.b.map(|_| tenant(2.0 * mbit)),
            acquisition_cpu_pct: 0.2,
            // In the last block the hypervisor took a third of a_s, in each attempt.
            steal_fraction: Some(if (scenario.b, repetition) == (None, 4) {
                0.3
            } else {
                0.01
            }),
        }
    };
    let block = |protection: Protection, rep: u32| {
        let uneven = match rep {
            3 => 120.0,
            r if r % 2 == 0 => 197.0,
            _ => 203.0,
        };
        let beside_free = match protection {
            Protection::Vanilla => 51.0,
            Protection::Cofferdam => 190.0,
        };
        [
            ("a_s", 200.0),
            ("a_s_b_u", uneven),
            ("a_s_b_f", beside_free),
        ]
        .map(|(scenario, mbit)| cell(protection, scenario, rep, mbit))
    };
    let samples: Vec<IsolationSample> = Protection::ALL
        .iter()
        .flat_map(|protection| (0..5).flat_map(|rep| block(*protection, rep)))
        .collect();
    let again = samples.iter().filter(|s| s.is_disturbed()).cloned();
    let repeated: Vec<IsolationSample> = again
        .map(|s| IsolationSample {
            attempt: 1,
            steal_fraction: Some(0.4),
            ..s
        })
        .collect();
    let mut experiment = crate::isolation::Experiment::quick();
    experiment.runtimes = vec![RuntimeKind::Podman, RuntimeKind::Containerd];
    experiment.resources = vec![Resource::Network];
    experiment.cofferdam = true;
    let tables = crate::isolation::tables(&experiment, &samples);
    RunData {
        result: Some(RunResult::Isolation(IsolationResult {
            tables,
            unavailable: [("containerd".to_owned(), "no <ctr> here".to_owned())].into(),
            done: [30, 30],
            repeated: repeated.len() as u32,
            acquisition_cpu_pct: Some(estimate(&[0.2, 0.21])),
            ..IsolationResult::default()
        })),
        samples: RunSamples::Isolation(IsolationSamples {
            samples,
            repeated,
            experiment: Some(Box::new(experiment)),
        }),
        ..run("isolation", Kind::Isolation)
    }
}
