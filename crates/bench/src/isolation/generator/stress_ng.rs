//! stress-ng: CPU and memory. It counts "bogo operations", which are comparable only with each
//! other. Its figures include the warm-up.

use super::{Generator, whole_seconds};
use crate::isolation::guest::LoadFigures;
use crate::isolation::levels::Load;
use std::time::Duration;

/// Generator stress-ng.
pub(super) struct StressNg;

impl Generator for StressNg {
    fn program(&self) -> &'static str {
        "stress-ng"
    }

    fn arguments(&self, load: &Load, warmup: Duration, measure: Duration) -> Option<Vec<String>> {
        let stressor = match load {
            Load::Cpu { cpus } => {
                let workers = cpus.ceil();
                // One method: operations of different methods differ in length.
                format!(
                    "--cpu {workers} --cpu-load {:.0} --cpu-method int64",
                    (cpus / workers * 100.0).clamp(1.0, 100.0)
                )
            }
            // stress-ng has no rate: it walks its set as fast as it can.
            Load::Memory { bytes, .. } => {
                format!("--vm 1 --vm-bytes {bytes}b --vm-keep --vm-method write64")
            }
            _ => return None,
        };
        let seconds = whole_seconds(warmup + measure);
        let common = format!("--timeout {seconds}s --metrics --yaml /dev/stdout --temp-path .");
        let words = stressor.split(' ').chain(common.split(' '));
        Some(words.map(str::to_owned).collect())
    }

    fn parse_figures(&self, output: &str, _: Duration, _: Duration) -> Result<LoadFigures, String> {
        let value = |key: &str| {
            let mut lines = output.lines().map(str::trim_start);
            let text = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            let value: f64 = text.trim().parse().ok()?;
            (value.is_finite() && value >= 0.0).then_some(value)
        };
        let (Some(ops), Some(window_s)) = (value("bogo-ops"), value("wall-clock-time")) else {
            return Err("stress-ng reported no figures".to_owned());
        };
        if window_s == 0.0 {
            return Err("stress-ng did not run".to_owned());
        }
        Ok(LoadFigures {
            window_s,
            ops: ops as u64,
            ..LoadFigures::default()
        })
    }
}
