//! Synthetic runs for tests, like those of the test machine.

mod accounting;
mod agent;
mod dataplane;
mod history;
mod isolation;
mod latency;
mod penalty;
mod reservation;
mod simulation;

pub use accounting::accounting;
pub use agent::agent;
pub use dataplane::dataplane;
pub use history::history;
pub use isolation::isolation;
pub use latency::latency;
pub use penalty::{demo, enforced, penalty, samples};
pub use reservation::reservation;
pub use simulation::simulation;

use crate::data::*;
use crate::isolation::data::EXPERIMENT;
use crate::run::*;
use std::collections::BTreeMap;

/// One run of each kind.
pub fn all() -> Vec<RunData> {
    vec![
        penalty(),
        demo(),
        accounting(),
        reservation(),
        dataplane(),
        isolation(),
        agent(),
        latency(),
        simulation(),
        history(),
    ]
}

pub fn manifest(kind: Kind) -> Manifest {
    Manifest {
        schema: SCHEMA,
        kind,
        version: "0.1.0".to_owned(),
        commit: Some("108cb0c8a2b1-dirty".to_owned()),
        command: ["cofferdam", "bench", kind.label(), "--quick"]
            .map(str::to_owned)
            .to_vec(),
        quick: true,
        started: "2026-11-21T20:00:00Z".to_owned(),
        finished: Some("2026-11-21T20:04:10Z".to_owned()),
        interrupted: false,
        kernel: "6.18.44 #1 SMP PREEMPT_DYNAMIC".to_owned(),
        cpu_model: "Example CPU @ 2.80GHz".to_owned(),
        cpus: 2,
        mitigations: BTreeMap::from([
            ("spectre_v2".to_owned(), "Mitigation: Retpolines".to_owned()),
            ("meltdown".to_owned(), "Not affected".to_owned()),
        ]),
        cgroup_layout: "hybrid".to_owned(),
        victim_cpu: 0,
        peer_cpu: 1,
        seed: 1,
        warnings: vec!["load average was 1.8 at the start: stop other work".to_owned()],
        is_busy: false,
    }
}

/// Run of `kind` in `runs/NAME` without samples and without a result.
fn run(name: &str, kind: Kind) -> RunData {
    RunData {
        dir: format!("runs/{name}").into(),
        manifest: manifest(kind),
        samples: RunSamples::read(kind, "no such run".as_ref()).unwrap(),
        ledgers: Vec::new(),
        result: None,
    }
}

pub fn estimate(values: &[f64]) -> Estimate {
    crate::stats::estimate(values, 1).unwrap()
}

/// Five blocks close to `middle`.
pub fn five(middle: f64) -> Estimate {
    estimate(&[0.99, 0.995, 1.0, 1.005, 1.01].map(|part| part * middle))
}

/// Writes `run` as a run directory.
pub fn write(run: &RunData, dir: &std::path::Path) {
    let lines = |values: Vec<String>| values.into_iter().map(|l| l + "\n").collect::<String>();
    let json = |v: &dyn erased::Json| v.json();
    let samples = match &run.samples {
        RunSamples::Accounting(samples) => samples.iter().map(|p| json(p)).collect(),
        RunSamples::Reservation(samples) => samples.iter().map(|s| json(s)).collect(),
        RunSamples::Simulation(samples) => samples.iter().map(|s| json(s)).collect(),
        RunSamples::Isolation(samples) => {
            let experiment = json(samples.experiment.as_ref().unwrap());
            std::fs::write(dir.join(EXPERIMENT), experiment).unwrap();
            let all = samples.samples.iter().chain(&samples.repeated);
            all.map(|s| json(s)).collect()
        }
        RunSamples::Latency(UnreadSamples)
        | RunSamples::Dataplane(UnreadSamples)
        | RunSamples::Agent(UnreadSamples)
        | RunSamples::History(UnreadSamples) => Vec::new(),
        RunSamples::Demo(samples) => samples.flood.iter().map(|s| json(s)).collect(),
        RunSamples::Penalty(samples) => samples.samples.iter().map(|s| json(s)).collect(),
    };
    std::fs::write(dir.join("manifest.json"), json(&run.manifest)).unwrap();
    std::fs::write(dir.join("samples.jsonl"), lines(samples)).unwrap();
    let ledgers = run.ledgers.iter().map(|l| json(l)).collect();
    std::fs::write(dir.join("ledger.jsonl"), lines(ledgers)).unwrap();
    if let Some(result) = &run.result {
        let file = ResultFile {
            schema: SCHEMA,
            goals: crate::evidence::goals(result, run.manifest.is_busy),
            result: result.clone(),
        };
        std::fs::write(dir.join("result.json"), json(&file)).unwrap();
    }
}

mod erased {
    /// Any value that can be written as JSON.
    pub trait Json {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}
