//! JSON Schemas of every document that `--json` and jsonl print.

use crate::latency::schema::{LatencyRecord, PingRecord};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::doctor::DoctorReport;

/// Every schema with the name of its file, for `cofferdam generate schemas`.
pub fn all() -> Vec<(&'static str, schemars::Schema)> {
    vec![
        (
            "accounting-2.schema.json",
            schemars::schema_for!(AccountingRecord),
        ),
        (
            "cluster-1.schema.json",
            schemars::schema_for!(cofferdam_cluster::merge::ClusterReport),
        ),
        (
            "node-1.schema.json",
            schemars::schema_for!(cofferdam_records::node::NodeReport),
        ),
        (
            "conditions-1.schema.json",
            schemars::schema_for!(cofferdam_records::conditions::ConditionsReport),
        ),
        (
            "latency-1.schema.json",
            schemars::schema_for!(LatencyRecord),
        ),
        (
            "latency-ping-1.schema.json",
            schemars::schema_for!(PingRecord),
        ),
        (
            "experiment-1.schema.json",
            cofferdam_bench::isolation::Experiment::schema(),
        ),
        (
            "explain-1.schema.json",
            schemars::schema_for!(cofferdam_records::explain::Explanation),
        ),
        (
            "flows-1.schema.json",
            schemars::schema_for!(cofferdam_records::flows::FlowsRecord),
        ),
        ("doctor-1.schema.json", schemars::schema_for!(DoctorReport)),
        (
            "simulation-1.schema.json",
            schemars::schema_for!(cofferdam_records::simulation::SimulationReport),
        ),
        (
            "status-2.schema.json",
            schemars::schema_for!(cofferdam_records::status::StatusReport),
        ),
    ]
}

#[cfg(test)]
mod tests;
