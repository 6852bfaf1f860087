//! fio: blocks of a file. Its figures include the warm-up.

use super::Generator;
use crate::isolation::guest::LoadFigures;
use crate::isolation::levels::{DISK_THREADS, Load, WRITE_PCT};
use serde_json::Value;
use std::time::Duration;

/// Generator fio, the flexible I/O tester.
pub(super) struct Fio;

impl Generator for Fio {
    fn program(&self) -> &'static str {
        "fio"
    }

    fn arguments(&self, load: &Load, warmup: Duration, measure: Duration) -> Option<Vec<String>> {
        let Load::Disk {
            path,
            size,
            iops,
            direct,
        } = load
        else {
            return None;
        };
        // With O_DIRECT one job keeps the queue filled. Through the page cache each operation
        // waits, so there are several jobs, each with a part of the rate.
        let (engine, jobs): (&[&str], u32) = match direct {
            true => (&["--ioengine=libaio", "--direct=1"], 1),
            false => (
                &["--ioengine=psync", "--direct=0", "--fsync=32"],
                DISK_THREADS,
            ),
        };
        let mut arguments: Vec<String> = [
            "--name=tenant",
            "--thread",
            "--bs=4k",
            "--rw=randrw",
            "--norandommap",
            "--invalidate=0",
            "--fallocate=none",
            "--time_based",
            "--group_reporting",
            "--unified_rw_reporting=1",
            "--lat_percentiles=1",
            "--percentile_list=50:99",
            "--output-format=json",
            "--eta=never",
        ]
        .iter()
        .chain(engine)
        .map(|a| (*a).to_owned())
        .collect();
        arguments.extend([
            format!("--filename={path}"),
            format!("--size={size}"),
            format!("--rwmixwrite={WRITE_PCT}"),
            format!("--iodepth={}", DISK_THREADS / jobs),
            format!("--numjobs={jobs}"),
            // Not fio's own warm-up (ramp_time): fio 3.33 ends it too early below one second.
            format!("--runtime={}ms", (warmup + measure).as_millis()),
        ]);
        if *iops > 0.0 {
            let part = |pct: u32| {
                (iops * f64::from(pct) / 100.0 / f64::from(jobs))
                    .round()
                    .max(1.0)
            };
            arguments.push(format!(
                "--rate_iops={},{}",
                part(100 - WRITE_PCT),
                part(WRITE_PCT)
            ));
        }
        Some(arguments)
    }

    /// Reads fio's JSON: reads and writes together.
    fn parse_figures(&self, output: &str, _: Duration, _: Duration) -> Result<LoadFigures, String> {
        // Notes may precede the JSON.
        let from = output.find('{').ok_or("fio said nothing")?;
        let json = serde_json::Deserializer::from_str(&output[from..]).into_iter::<Value>();
        let report = json.flatten().next().ok_or("fio's report is not JSON")?;
        let mixed = &report["jobs"][0]["mixed"];
        let number = |name: &str| mixed[name].as_f64().filter(|n| n.is_finite() && *n >= 0.0);
        let (Some(ops), Some(bytes), Some(runtime_ms)) =
            (number("total_ios"), number("io_bytes"), number("runtime"))
        else {
            return Err("fio's report has no 'mixed' figures".to_owned());
        };
        if runtime_ms == 0.0 {
            return Err("fio did nothing in its window".to_owned());
        }
        let percentile = |q: &str| Some(mixed["lat_ns"]["percentile"][q].as_f64()? / 1e3);
        Ok(LoadFigures {
            window_s: runtime_ms / 1e3,
            ops: ops as u64,
            bytes: bytes as u64,
            lost: 0,
            restarts: 0,
            p50_us: percentile("50.000000"),
            p99_us: percentile("99.000000"),
        })
    }
}
