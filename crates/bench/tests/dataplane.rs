//! Shortest possible dataplane run.

// Clippy's exception for tests does not cover their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_bench::dataplane::data::{
    DataplaneCell, DataplaneExperiment, DataplaneResult, DataplaneRow, EchoServer,
};
use cofferdam_bench::run::{RunData, RunResult};
use cofferdam_bench::{SilentProgress, dataplane};
use cofferdam_lab::fixtures::{exclusive, time_limit};
use common::{LIMIT, worker_executable};

/// Runs one quick round of these experiments, and checks that nothing failed.
fn measure(experiments: &[DataplaneExperiment]) -> (RunData, DataplaneResult) {
    worker_executable();
    let _alone = exclusive();
    let folder = tempfile::tempdir().unwrap();
    let options = dataplane::Options {
        quick: true,
        output: Some(folder.path().to_owned()),
        rounds: Some(1),
        experiments: experiments.to_vec(),
        ..Default::default()
    };
    let data = time_limit(LIMIT, move || {
        let dir = dataplane::run(&options, &mut SilentProgress).unwrap();
        RunData::load(dir.path()).unwrap()
    });
    let Some(RunResult::Dataplane(result)) = &data.result else {
        panic!("{:?}", data.result)
    };
    let missing: Vec<&str> = (EchoServer::OWN.iter())
        .filter(|server| server.missing().is_some())
        .map(|server| server.label())
        .collect();
    let is_missing = |cell: &str| missing.iter().any(|server| cell.ends_with(server));
    let failed: Vec<_> = result.failed.iter().collect();
    assert!(
        failed.iter().all(|(cell, _)| is_missing(cell)),
        "{failed:?}"
    );
    let result = result.clone();
    (data, result)
}

/// Servers that this host can measure.
fn measured_here() -> impl Iterator<Item = EchoServer> {
    let all = EchoServer::OWN.iter().copied();
    all.filter(|server| server.missing().is_none())
}

/// Promise 46.
#[test]
fn a_dataplane_run_measures_every_server() {
    let (_, result) = measure(&[
        DataplaneExperiment::Unloaded,
        DataplaneExperiment::Connections,
        DataplaneExperiment::ShortConnections,
        DataplaneExperiment::Idle,
        DataplaneExperiment::Etc,
    ]);
    for experiment in [
        DataplaneExperiment::Unloaded,
        DataplaneExperiment::Connections,
        DataplaneExperiment::ShortConnections,
        DataplaneExperiment::Idle,
        DataplaneExperiment::Etc,
    ] {
        for server in measured_here() {
            let is_it =
                |r: &&DataplaneRow| r.cell.experiment == experiment && r.cell.server == server;
            assert!(
                result.rows.iter().any(|r| is_it(&r)),
                "{experiment} {server}"
            );
        }
    }
    // A slow machine may skip rates that a server cannot carry, but not the lowest rate.
    assert_eq!(result.service.len(), measured_here().count());
    for server in EchoServer::OWN.iter().filter(|s| s.missing().is_some()) {
        let id = format!("unloaded, 0, {server}");
        let why = result
            .failed
            .iter()
            .find(|(cell, _)| cell.contains(server.label()));
        let (_, why) = why.expect(&id);
        assert!(why.contains("no protection keys"), "{why}");
    }
    for row in &result.rows {
        let is_idle = row.cell.experiment == DataplaneExperiment::Idle;
        assert_eq!(row.bytes_per_connection.is_some(), is_idle, "{row:?}");
        if is_idle {
            continue;
        }
        assert!(row.requests_per_s.median > 0.0, "{row:?}");
        assert!(row.p50_us.median > 0.1, "{row:?}");
        let is_asked = row.cell.experiment == DataplaneExperiment::Unloaded;
        // On a machine with other work the cost may be unknown.
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

/// Promise 46.
#[test]
fn more_cores_are_measured_and_shared_cpus_are_reported() {
    let (data, result) = measure(&[DataplaneExperiment::Cores, DataplaneExperiment::OneCpu]);
    let cells: Vec<(String, bool)> = result
        .rows
        .iter()
        .map(|r| (r.cell.id(), r.shares_cpu))
        .collect();
    // The second CPU of the server is the generator's if the host has no third.
    let is_shared = data.manifest.cpus == 2;
    let expected = [
        ("cores/1/blocking", false),
        ("cores/1/busy-polling", false),
        ("cores/1/process", false),
        ("cores/2/blocking", is_shared),
        ("cores/2/busy-polling", is_shared),
        ("cores/2/process", is_shared),
        ("one-cpu/1/process", false),
        ("one-cpu/2/process", false),
    ];
    assert_eq!(cells, expected.map(|(id, shared)| (id.to_owned(), shared)));
    for row in &result.rows {
        assert!(row.requests_per_s.median > 0.0, "{row:?}");
        assert_eq!(row.rate_to_one_core.is_some(), row.cell.at > 1, "{row:?}");
        assert_eq!(row.generator_busy.is_some(), !row.shares_cpu, "{row:?}");
        if let Some(cost) = &row.cpu_us_per_request {
            assert!(!row.shares_cpu && cost.median > 0.0, "{row:?}");
        }
    }
    let page = cofferdam_bench::report::html(&data).unwrap();
    assert!(page.contains("Multicore"));
    assert_eq!(page.contains("CPU shared"), is_shared);
}

/// Promise 46.
#[test]
fn messages_are_measured_in_packets_of_each_size() {
    use DataplaneExperiment::{SizesJumbo, SizesLargest, SizesSegmented};
    /// Bytes of an IP and a TCP header with timestamps.
    const HEADERS: f64 = 52.0;
    let experiments = [
        (SizesSegmented, 1500.0),
        (SizesJumbo, 9000.0),
        (SizesLargest, 65_522.0),
    ];
    let (data, result) = measure(&experiments.map(|(experiment, _)| experiment));
    for (experiment, mtu_bytes) in experiments {
        for bytes in [16_384, 262_144] {
            // Segmentation offload passes several segments as one packet.
            let least = f64::from(bytes) / (mtu_bytes - HEADERS);
            for server in measured_here() {
                let cell = DataplaneCell {
                    experiment,
                    at: bytes,
                    server,
                };
                let mut rows = result.rows.iter();
                let row = rows.find(|r| r.cell == cell).unwrap();
                let packets = row.packets_per_answer.as_ref().unwrap().median;
                // The last answer may still have been in flight.
                assert!(packets > 0.9 * least, "{least}, {row:?}");
                assert!(packets < 3.0 * least + 6.0, "{least}, {row:?}");
            }
        }
    }
    let page = cofferdam_bench::report::html(&data).unwrap();
    assert!(page.contains("Message size in equal packets of 9,000 bytes"));
}
