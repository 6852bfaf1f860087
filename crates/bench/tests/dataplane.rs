//! A dataplane run, as short as it goes.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bench::data::{DataplaneExperiment, EchoServer, RunData, RunResult};
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
    assert_eq!(result.rows.len(), 2 * EchoServer::ALL.len());
    for row in &result.rows {
        assert!(row.requests_per_s.median > 0.0, "{row:?}");
        assert!(row.p50_us.median > 0.1, "{row:?}");
        assert_eq!(
            row.rate_to_blocking.is_some(),
            row.cell.server != EchoServer::Blocking
        );
    }
    assert!(result.stage_cycles_per_packet["process"] > 0.0);
}
