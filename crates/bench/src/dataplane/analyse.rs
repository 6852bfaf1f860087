//! Rows of the result, from samples. Ratios are between samples of one round.

use crate::data::Estimate;
use crate::dataplane::data::{
    DataplaneCell, DataplaneExperiment, DataplaneRow, DataplaneSample, DataplaneService,
    EchoServer, SERVICE_P99_US, SERVICE_SHARE,
};
use crate::stats::estimate;
use std::collections::{BTreeMap, BTreeSet};

/// Computes one row for each condition, in the order of experiment, value and server.
pub(super) fn rows(samples: &[DataplaneSample], seed: u64) -> Vec<DataplaneRow> {
    let mut cells: Vec<DataplaneCell> = Vec::new();
    for sample in samples {
        if !cells.contains(&sample.cell) {
            cells.push(sample.cell);
        }
    }
    cells.sort_by_key(|c| (c.experiment, c.at, c.server));
    cells
        .iter()
        .filter_map(|cell| row(cell, samples, seed))
        .collect()
}

/// Figure of a sample, if it was measured.
type Value = fn(&DataplaneSample) -> Option<f64>;

fn row(cell: &DataplaneCell, samples: &[DataplaneSample], seed: u64) -> Option<DataplaneRow> {
    let own: Vec<&DataplaneSample> = samples.iter().filter(|s| s.cell == *cell).collect();
    let all = |value: fn(&DataplaneSample) -> f64| {
        let values: Vec<f64> = own.iter().map(|s| value(s)).collect();
        estimate(&values, seed)
    };
    let some = |value: Value| {
        let values: Vec<f64> = own.iter().filter_map(|s| value(s)).collect();
        estimate(&values, seed)
    };
    let ratio_to = |other: DataplaneCell, value: Value| {
        let ratios: Vec<f64> = own
            .iter()
            .filter_map(|s| {
                let same = |o: &&DataplaneSample| o.cell == other && o.round == s.round;
                let base = value(samples.iter().find(same)?)?;
                let own = value(s)?;
                (base > 0.0).then(|| own / base)
            })
            .collect();
        estimate(&ratios, seed)
    };
    let against = |server: EchoServer, value: Value| -> Option<Estimate> {
        if server == cell.server {
            return None;
        }
        ratio_to(DataplaneCell { server, ..*cell }, value)
    };
    let to_one_core = |value: Value| {
        let one = DataplaneCell { at: 1, ..*cell };
        (cell.experiment.is_of_cores() && one != *cell)
            .then(|| ratio_to(one, value))
            .flatten()
    };
    let is_beside_inline = matches!(cell.server, EchoServer::Process | EchoServer::Pkey);
    Some(DataplaneRow {
        cell: *cell,
        requests_per_s: all(|s| s.requests_per_s)?,
        p50_us: all(|s| s.latency.p50_us)?,
        p99_us: all(|s| s.latency.p99_us)?,
        p999_us: all(|s| s.latency.p999_us)?,
        p50_to_blocking: against(EchoServer::Blocking, p50),
        p99_to_blocking: against(EchoServer::Blocking, |s| Some(s.latency.p99_us)),
        rate_to_blocking: against(EchoServer::Blocking, rate),
        p50_to_busy: against(EchoServer::BusyPolling, p50),
        rate_to_busy: against(EchoServer::BusyPolling, rate),
        rate_to_inline: is_beside_inline
            .then(|| against(EchoServer::Inline, rate))
            .flatten(),
        cpu_us_per_request: some(|s| s.cpu_us_per_request),
        packets_per_answer: some(|s| s.packets_per_answer),
        copied_part: some(|s| s.copied_part),
        capacity_to_blocking: against(EchoServer::Blocking, capacity),
        capacity_to_busy: against(EchoServer::BusyPolling, capacity),
        capacity_to_inline: is_beside_inline
            .then(|| against(EchoServer::Inline, capacity))
            .flatten(),
        bytes_per_connection: some(|s| s.bytes_per_connection),
        rate_to_one_core: to_one_core(rate),
        cpu_to_one_core: to_one_core(|s| s.cpu_us_per_request),
        shares_cpu: own.iter().any(|s| s.shares_cpu),
        generator_busy: some(|s| s.generator_busy),
    })
}

/// Requests a second that the CPU could carry; `None` at low load, where empty polls are most of
/// the cost.
fn capacity(sample: &DataplaneSample) -> Option<f64> {
    let is_low = sample.cell.experiment == DataplaneExperiment::Paced;
    let cost = sample.cpu_us_per_request.filter(|us| !is_low && *us > 0.0);
    cost.map(|us| 1e6 / us)
}

/// Highest rate of each server within the latency limit, for each measured mix.
pub(super) fn service(samples: &[DataplaneSample], seed: u64) -> Vec<DataplaneService> {
    let mut found = Vec::new();
    for experiment in DataplaneExperiment::ALL.iter().filter(|e| e.is_mix()) {
        let own: Vec<&DataplaneSample> = samples
            .iter()
            .filter(|s| s.cell.experiment == *experiment)
            .collect();
        let rounds: BTreeSet<u32> = own.iter().map(|s| s.round).collect();
        let most = |server: EchoServer, round: u32| {
            let of = own
                .iter()
                .filter(|s| s.cell.server == server && s.round == round);
            of.filter(|s| is_served(s))
                .map(|s| s.requests_per_s)
                .fold(0.0, f64::max)
        };
        for server in EchoServer::OWN {
            if !own.iter().any(|s| s.cell.server == *server) {
                continue;
            }
            let values: Vec<f64> = rounds.iter().map(|r| most(*server, *r)).collect();
            let ratios: Vec<f64> = rounds
                .iter()
                .map(|r| (most(*server, *r), most(EchoServer::Blocking, *r)))
                .filter(|(_, base)| *base > 0.0 && *server != EchoServer::Blocking)
                .map(|(value, base)| value / base)
                .collect();
            found.extend(
                estimate(&values, seed).map(|requests_per_s| DataplaneService {
                    experiment: *experiment,
                    server: *server,
                    requests_per_s,
                    to_blocking: estimate(&ratios, seed),
                }),
            );
        }
    }
    found
}

fn is_served(sample: &DataplaneSample) -> bool {
    sample.latency.p99_us <= SERVICE_P99_US
        && sample
            .offered_per_s
            .is_some_and(|offered| sample.requests_per_s >= SERVICE_SHARE * offered)
}

fn rate(sample: &DataplaneSample) -> Option<f64> {
    Some(sample.requests_per_s)
}

fn p50(sample: &DataplaneSample) -> Option<f64> {
    Some(sample.latency.p50_us)
}

/// Cycles a packet in each stage of the inline loop, from the sample with most packets.
pub(super) fn stages(samples: &[DataplaneSample]) -> BTreeMap<String, f64> {
    let inline = samples.iter().filter(|s| {
        s.cell.server == EchoServer::Inline
            && s.cell.experiment == DataplaneExperiment::Connections
            && s.packets > 0
    });
    let Some(sample) = inline.max_by_key(|s| s.packets) else {
        return BTreeMap::new();
    };
    let each =
        |(name, cycles): (&String, &u64)| (name.clone(), *cycles as f64 / sample.packets as f64);
    sample.stage_cycles.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Latency, SCHEMA};

    fn sample(server: EchoServer, round: u32, rate: f64, p50_us: f64) -> DataplaneSample {
        DataplaneSample {
            schema: SCHEMA,
            time: String::new(),
            cell: DataplaneCell {
                experiment: DataplaneExperiment::Unloaded,
                at: 0,
                server,
            },
            round,
            offered_per_s: None,
            requests_per_s: rate,
            latency: Latency {
                p50_us,
                ..Latency::default()
            },
            packets: 0,
            stage_cycles: BTreeMap::new(),
            cpu_us_per_request: Some(1e6 / rate),
            bytes_per_connection: None,
            packets_per_answer: None,
            copied_part: None,
            shares_cpu: false,
            generator_busy: None,
        }
    }

    /// Promise 46.
    #[test]
    fn the_served_rate_is_the_highest_with_a_low_p99() {
        let mut samples = Vec::new();
        for (server, most) in [(EchoServer::Blocking, 100_u32), (EchoServer::Inline, 250)] {
            for at in [50_u32, 100, 200, 250, 300] {
                let offered = f64::from(at) * 1000.0;
                let mut one = sample(server, 0, offered.min(f64::from(most) * 1000.0), 20.0);
                one.cell.experiment = DataplaneExperiment::Etc;
                one.cell.at = at;
                one.offered_per_s = Some(offered);
                // At the highest rate all requests are answered, but too late.
                one.latency.p99_us = if at == 250 { 501.0 } else { 500.0 };
                samples.push(one);
            }
        }
        let found = service(&samples, 1);
        let medians: Vec<f64> = found.iter().map(|s| s.requests_per_s.median).collect();
        assert_eq!(medians, [100_000.0, 200_000.0]);
        assert_eq!(found[0].to_blocking, None);
        assert_eq!(found[1].to_blocking.as_ref().expect("a ratio").median, 2.0);
    }

    /// Promise 46.
    #[test]
    fn further_cores_are_compared_with_one_within_a_round() {
        let mut samples = Vec::new();
        for (round, drift) in [(0, 1.0), (1, 2.0)] {
            for (at, rate, shares_cpu) in [(1, 100.0, false), (2, 150.0, true)] {
                let mut one = sample(EchoServer::Process, round, rate * drift, 5.0);
                one.cell.experiment = DataplaneExperiment::Cores;
                one.cell.at = at;
                one.shares_cpu = shares_cpu;
                one.cpu_us_per_request = (!shares_cpu).then_some(8.0);
                samples.push(one);
            }
        }
        let rows = rows(&samples, 1);
        assert_eq!(rows[0].rate_to_one_core, None, "it is the base");
        let ratio = rows[1].rate_to_one_core.as_ref().expect("a ratio");
        assert!(ratio.values.iter().all(|v| *v == 1.5), "{ratio:?}");
        assert_eq!(rows[1].cpu_to_one_core, None, "unknown on a shared CPU");
        assert!(!rows[0].shares_cpu && rows[1].shares_cpu);
    }

    /// Promise 41.
    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut samples = Vec::new();
        for (round, drift) in [(0, 1.0), (1, 2.0), (2, 4.0)] {
            samples.push(sample(
                EchoServer::Inline,
                round,
                300.0 * drift,
                5.0 * drift,
            ));
            samples.push(sample(
                EchoServer::Blocking,
                round,
                100.0 * drift,
                20.0 * drift,
            ));
        }
        let rows = rows(&samples, 1);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].cell.server, EchoServer::Blocking);
        assert_eq!(rows[0].p50_to_blocking, None);
        let ratio = rows[1].rate_to_blocking.as_ref().expect("a ratio");
        assert_eq!(ratio.values, [3.0; 3]);
        assert_eq!(
            rows[1].p50_to_blocking.as_ref().expect("a ratio").median,
            0.25
        );
        assert_eq!(rows[1].rate_to_busy, None, "nothing to compare with");
        let capacity = rows[1].capacity_to_blocking.as_ref().expect("a ratio");
        assert_eq!(capacity.median, 3.0);
        // At low load most of the cost is empty polls, which more requests would fill.
        for sample in &mut samples {
            sample.cell.experiment = DataplaneExperiment::Paced;
        }
        let rows = super::rows(&samples, 1);
        assert_eq!(rows[1].capacity_to_blocking, None);
        assert!(rows[1].cpu_us_per_request.is_some());
    }
}
