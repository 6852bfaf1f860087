//! A dataplane run, as short as it goes.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bench::data::{DataplaneExperiment, DataplaneRow, EchoServer, RunData, RunResult};
use cofferdam_bench::{Silent, dataplane};
use cofferdam_testkit::{exclusive, time_limit};
use common::{LIMIT, worker_executable};

#[test]
fn a_dataplane_run_measures_every_server() {
    worker_executable();
    let _alone = exclusive();
    let folder = tempfile::tempdir().unwrap();
    let output = Some(folder.path().to_owned());
    let data = time_limit(LIMIT, move || {
        let options = dataplane::Options {
            quick: true,
            output,
            rounds: Some(1),
            experiments: vec![
                DataplaneExperiment::Unloaded,
                DataplaneExperiment::Connections,
                DataplaneExperiment::Idle,
                DataplaneExperiment::Etc,
            ],
            ..Default::default()
        };
        let dir = dataplane::run(&options, &mut Silent).unwrap();
        RunData::load(dir.path()).unwrap()
    });
    let Some(RunResult::Dataplane(result)) = &data.result else {
        panic!("{:?}", data.result)
    };
    assert_eq!(result.failed, Default::default());
    for experiment in [
        DataplaneExperiment::Unloaded,
        DataplaneExperiment::Connections,
        DataplaneExperiment::Idle,
        DataplaneExperiment::Etc,
    ] {
        for server in EchoServer::ALL {
            let is_it =
                |r: &&DataplaneRow| r.cell.experiment == experiment && r.cell.server == *server;
            assert!(
                result.rows.iter().any(|r| is_it(&r)),
                "{experiment} {server}"
            );
        }
    }
    // A slow machine may leave out what is beyond a server, not the lowest rate.
    assert_eq!(result.service.len(), EchoServer::ALL.len());
    for row in &result.rows {
        let is_idle = row.cell.experiment == DataplaneExperiment::Idle;
        assert_eq!(row.bytes_per_connection.is_some(), is_idle, "{row:?}");
        if is_idle {
            continue;
        }
        assert!(row.requests_per_s.median > 0.0, "{row:?}");
        assert!(row.p50_us.median > 0.1, "{row:?}");
        let is_asked = row.cell.experiment == DataplaneExperiment::Unloaded;
        // On a machine with other work it may not be known.
        if let Some(cost) = &row.cpu_us_per_request {
            assert!(!is_asked && cost.median > 0.0, "{row:?}");
        }
        if !row.cell.experiment.is_mix() {
            assert_eq!(
                row.rate_to_blocking.is_some(),
                row.cell.server != EchoServer::Blocking
            );
        }
    }
    assert!(result.stage_cycles_per_packet["process"] > 0.0);
}
