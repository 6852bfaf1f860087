use super::*;
use crate::data::SCHEMA;
use crate::isolation::data::{CellKey, TenantSample};

fn sample(scenario: &str, repetition: u32, used: f64, performance: f64) -> IsolationSample {
    IsolationSample {
        schema: SCHEMA,
        time: "2026-11-22T00:00:00Z".to_owned(),
        key: CellKey {
            runtime: RuntimeKind::Process,
            protection: Protection::Vanilla,
            resource: Resource::Network,
            scenario: scenario.parse().unwrap(),
            repetition,
        },
        position: 0,
        attempt: 0,
        window_s: 1.0,
        limit: 0.5,
        a: TenantSample {
            asked: Some(5e8),
            used,
            performance,
            p99_us: Some(used / 1e6),
            ..TenantSample::default()
        },
        b: None,
        acquisition_cpu_pct: 0.5,
        steal_fraction: None,
    }
}

/// Recomputes rows of the tables of Volpert et al. (ICPE 2023): I_plr is 100·|a − a′| ÷ a. I_ulr is
/// |a − a′| in points, half of it for CPU.
/// Promise 43.
#[test]
fn losses_are_the_papers() {
    let close = |a: f64, b: f64| (a - b).abs() < 0.02;
    // a_s_b_o of the network table: 50.12 → 28.38, I_ulr 21.74, I_plr 43.37.
    let (ulr, plr) = paper_losses(Resource::Network, 50.12, 28.38);
    assert!(close(ulr, 21.74) && close(plr.unwrap(), 43.37));
    // a_s_b_o of the CPU table: 25.00 → 23.48, 0.76, 6.07: half of the points.
    let (ulr, plr) = paper_losses(Resource::Cpu, 25.00, 23.48);
    assert!(close(ulr, 0.76) && close(plr.unwrap(), 6.07));
    // a_s_b_u of the memory table: an improvement, counted as a loss: 24.14 → 24.39.
    let (ulr, plr) = paper_losses(Resource::Memory, 24.14, 24.39);
    assert!(close(ulr, 0.25) && close(plr.unwrap(), 1.02));
    assert_eq!(paper_losses(Resource::Cpu, 0.0, 5.0), (2.5, None));
}

/// Promise 43.
#[test]
fn an_improvement_is_no_loss_and_pairs_are_blocks() {
    let mut samples = Vec::new();
    for rep in 0..5 {
        // The machine drifts: each block is slower, and the loss within a block is the same.
        let drift = 1.0 - f64::from(rep) * 0.1;
        samples.push(sample("a_s", rep, 5e8 * drift, 1e6 * drift));
        samples.push(sample("a_s_b_f", rep, 2.5e8 * drift, 5e5 * drift));
        samples.push(sample("a_s_b_u", rep, 5.5e8 * drift, 1e6 * drift));
    }
    let tables = tables(&Experiment::quick(), &samples);
    assert_eq!(tables.len(), 1);
    let row = |name: &str| {
        let rows = &tables[0].rows;
        rows.iter()
            .find(|r| r.scenario.to_string() == name)
            .unwrap()
    };
    let lost = row("a_s_b_f").utilisation_loss_pct.as_ref().unwrap();
    assert!(lost.values.iter().all(|v| (v - 50.0).abs() < 1e-9));
    let gained = row("a_s_b_u");
    assert!(
        gained
            .utilisation_loss_pct
            .as_ref()
            .unwrap()
            .values
            .iter()
            .all(|v| *v < -9.0)
    );
    assert!(gained.i_plr.unwrap() > 9.0, "the paper's has no sign");
    assert_eq!(gained.performance_loss_pct.as_ref().unwrap().median, 0.0);
    let base = row("a_s");
    assert_eq!((base.i_plr, base.i_ulr), (None, None));
    assert!(
        (base.utilisation_pct.median - 100.0).abs() < 1e-9,
        "of a link of 400 Mbit/s"
    );
    assert_eq!(base.id, 2);
    assert_eq!(row("a_s_b_f").p99_factor.as_ref().unwrap().median, 0.5);
}

#[test]
fn a_disks_capacity_is_what_one_gets_alone() {
    let disk = |name: &str, rep, used| {
        let mut s = sample(name, rep, used, used);
        s.key.resource = Resource::Disk;
        s
    };
    let samples = [
        disk("a_f", 0, 900.0),
        disk("a_f", 1, 1100.0),
        disk("a_f", 2, 1000.0),
        disk("a_u", 0, 250.0),
    ];
    let table = &tables(&Experiment::quick(), &samples)[0];
    assert_eq!(table.capacity, 1000.0);
    assert_eq!(table.rows[0].utilisation_pct.median, 25.0);
    assert_eq!(
        capacity(&Experiment::quick(), Resource::Disk, &samples[3..]),
        250.0
    );
}
