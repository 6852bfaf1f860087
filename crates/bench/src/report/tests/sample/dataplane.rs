//! Synthetic run of `bench dataplane`.

use super::{five, run};
use crate::dataplane::data::*;
use crate::run::*;

/// Dataplane run that reaches all goals but the one for many connections.
pub fn dataplane() -> RunData {
    let row = |experiment, at, server, rate: f64, p50: f64, ratio: Option<f64>| {
        let to_inline = match server {
            EchoServer::Process => Some(0.9),
            EchoServer::Pkey => Some(0.99),
            _ => None,
        };
        DataplaneRow {
            cell: DataplaneCell {
                experiment,
                at,
                server,
            },
            requests_per_s: five(rate),
            p50_us: five(p50),
            p99_us: five(p50 * 2.0),
            p999_us: five(p50 * 4.0),
            p50_to_blocking: ratio.map(|r| five(1.0 / r)),
            p99_to_blocking: ratio.map(|r| five(1.0 / r)),
            rate_to_blocking: ratio.map(five),
            p50_to_busy: ratio.map(|r| five(2.0 / r)),
            rate_to_busy: ratio.map(|r| five(r / 2.0)),
            rate_to_inline: to_inline.map(five),
            cpu_us_per_request: (rate > 0.0).then(|| five(1e6 / rate)),
            capacity_to_blocking: ratio.map(five),
            capacity_to_busy: ratio.map(|r| five(r / 2.0)),
            capacity_to_inline: to_inline.map(five),
            packets_per_answer: experiment.is_of_sizes().then(|| five(p50)),
            copied_part: None,
            bytes_per_connection: (experiment == DataplaneExperiment::Idle).then(|| five(p50)),
            rate_to_one_core: (experiment.is_of_cores() && at > 1).then(|| five(0.95)),
            cpu_to_one_core: (experiment.is_of_cores() && at > 1).then(|| five(1.05)),
            shares_cpu: experiment == DataplaneExperiment::Cores && at > 1,
            generator_busy: (experiment == DataplaneExperiment::Cores && at == 1)
                .then(|| five(0.97)),
        }
    };
    use DataplaneExperiment::{
        Batch, Connections, Cores, Cost, Etc, Idle, Load, OneCpu, Paced, SameRate, Sizes,
        SizesJumbo, SizesSegmented, Unloaded,
    };
    let protected = |server| {
        [
            row(Unloaded, 0, server, 1.5e5, 7.0, Some(3.0)),
            row(Paced, 1, server, 1.0, 80.0, Some(1.1)),
            row(Load, 90, server, 3e5, 300.0, None),
            row(SameRate, 50, server, 1.5e5, 60.0, Some(1.2)),
        ]
    };
    let mut rows = vec![
        row(Unloaded, 0, EchoServer::Blocking, 5e4, 20.0, None),
        row(Unloaded, 0, EchoServer::Inline, 2e5, 5.0, Some(4.0)),
        row(Paced, 100, EchoServer::Inline, 1e2, 80.0, Some(1.25)),
        row(Paced, 10_000, EchoServer::Inline, 1e4, 20.0, Some(4.0)),
        row(Connections, 100, EchoServer::Blocking, 1e5, 900.0, None),
        row(Connections, 100, EchoServer::Inline, 4e5, 200.0, Some(4.0)),
        row(
            Connections,
            10_000,
            EchoServer::Inline,
            2e5,
            900.0,
            Some(2.0),
        ),
        row(Connections, 100, EchoServer::Pkey, 3.96e5, 210.0, Some(3.9)),
        row(Connections, 10_000, EchoServer::Pkey, 2e5, 900.0, Some(2.0)),
        row(
            Connections,
            100,
            EchoServer::Process,
            3.6e5,
            250.0,
            Some(3.6),
        ),
        row(Cores, 1, EchoServer::Blocking, 1e5, 900.0, None),
        row(Cores, 2, EchoServer::Blocking, 1.2e5, 900.0, None),
        row(Cores, 1, EchoServer::Process, 3e5, 300.0, Some(3.0)),
        row(Cores, 2, EchoServer::Process, 3.1e5, 300.0, Some(2.6)),
        row(OneCpu, 1, EchoServer::Process, 3e5, 300.0, None),
        row(OneCpu, 2, EchoServer::Process, 2.85e5, 320.0, None),
        row(Batch, 64, EchoServer::Inline, 4e5, 200.0, None),
        row(Load, 90, EchoServer::Inline, 3.6e5, 30.0, Some(3.0)),
        row(Cost, 50, EchoServer::Inline, 1e5, 20.0, Some(2.5)),
        row(Etc, 50, EchoServer::Blocking, 5e4, 50.0, None),
        row(Etc, 100, EchoServer::Blocking, 9e4, 5000.0, None),
        row(Etc, 100, EchoServer::Inline, 1e5, 40.0, Some(1.1)),
        row(Idle, 100_000, EchoServer::Inline, 0.0, 1500.0, None),
        row(Sizes, 64, EchoServer::Inline, 2e5, 5.0, Some(2.0)),
        row(Sizes, 16384, EchoServer::Inline, 2e4, 40.0, Some(0.7)),
        // Small messages are not judged; of the large ones the worst is.
        row(
            SizesSegmented,
            4096,
            EchoServer::Inline,
            2e4,
            40.0,
            Some(0.6),
        ),
        row(
            SizesSegmented,
            16384,
            EchoServer::Inline,
            2e4,
            40.0,
            Some(1.2),
        ),
        row(
            SizesSegmented,
            262_144,
            EchoServer::Inline,
            2e3,
            400.0,
            Some(0.95),
        ),
        row(SizesJumbo, 16384, EchoServer::Inline, 2e4, 40.0, Some(1.1)),
    ];
    rows.extend(protected(EchoServer::Process));
    rows.extend(protected(EchoServer::Pkey));
    let late =
        |r: &&mut DataplaneRow| r.cell.experiment == Load && r.cell.server == EchoServer::Pkey;
    if let Some(row) = rows.iter_mut().find(late) {
        // One round of them.
        row.p99_us.values[3] = 12_000.0;
    }
    RunData {
        result: Some(RunResult::Dataplane(DataplaneResult {
            rows,
            stage_cycles_per_packet: [("flush".to_owned(), 2000.0), ("process".to_owned(), 700.0)]
                .into(),
            service: vec![DataplaneService {
                experiment: Etc,
                server: EchoServer::Inline,
                requests_per_s: five(1e5),
                to_blocking: Some(five(2.0)),
            }],
            congestion_control: "cubic".to_owned(),
            failed: [("sizes/64/process".to_owned(), "it ended".to_owned())].into(),
        })),
        ..run("dataplane", Kind::Dataplane)
    }
}
