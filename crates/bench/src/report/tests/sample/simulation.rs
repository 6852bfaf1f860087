//! Synthetic run of `bench simulation`.

use super::{five, run};
use crate::run::*;
use crate::simulation::data::{self, *};

/// Simulation run of two cases, one of them disturbed and far off.
pub fn simulation() -> RunData {
    let tenant = |name: &str, weight| CaseTenant {
        name: name.to_owned(),
        weight,
        quota_cpus: None,
        pinned: None,
        reserved_cpus: None,
        threads: 2,
        work: Work::Spin,
    };
    let case = |id: &str, apart: f64, disturbed| SimulationCaseResult {
        case: SimulationCase {
            id: id.to_owned(),
            reservation: data::ReservationMode::Standard,
            tenants: vec![tenant("target", 100), tenant("n1", 400)],
        },
        rows: ["target", "n1"]
            .map(|name| TenantRow {
                name: name.to_owned(),
                measured: five(0.5),
                simulated: five(0.5 + apart),
            })
            .into(),
        difference_pct: five(apart * 100.0),
        taken_pct: five(1.5),
        repeated: 1,
        disturbed,
    };
    RunData {
        result: Some(RunResult::Simulation(SimulationResult {
            cases: vec![case("spin/1x2/1:4", 0.01, 0), case("spin/8x4/1:1", 0.12, 5)],
            failed: [("pinned/all/2x2/1:4".to_owned(), "no cpuset".to_owned())].into(),
        })),
        ..run("simulation", Kind::Simulation)
    }
}
